"""The rules that a rewritten view must satisfy."""

from collections.abc import Callable
from dataclasses import dataclass

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.view.calls import paired, pairing_faults
from foldline.view.items import Key, Messages, is_preamble, is_summary
from foldline.view.tokens import message_tokens
from foldline.view.units import tool_groups

from .strategy import tokens_of

NOT_SMALLER = "it is not smaller"
UNKNOWN_INDEX = "it contains a message with an index that was not in the view"
TWICE = "it contains a message twice"
OUT_OF_ORDER = "its messages are out of order"
PREAMBLE_MISSING = (
    "entry {}, a system prompt or instruction file, is missing or changed"
)
PIN_CHANGED = "entry {} is pinned, but is missing or changed"
REQUEST_MISSING = "the {} request, entry {}, is missing"
RESULT_UNSEEN = "the model has not seen the result in entry {} yet"
GROUP_INCOMPLETE = "the tool group of entry {} is incomplete"
TAIL_BEGINS_WITH = "its kept part begins with entry {}, of type {}"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A view before and after being rewritten by a strategy."""

    before: Messages
    after: Messages
    pins: frozenset[int]
    unseen_may_be_clipped: bool = False

    def may_clip(self, message: BaseMessage) -> bool:
        """Return whether a message is larger than the entire new view.

        Such a message is too large for any request, so it may be clipped.
        """
        return message_tokens(message) > tokens_of(self.after)

    def survivors(self) -> dict[Key, BaseMessage]:
        """Return the messages in the new view that have an index from the old view, by key."""
        return {message.key: message for message in self.after if message.index != NEW}


def smaller(rewrite: Rewrite) -> list[str]:
    before = tokens_of(rewrite.before)
    after = tokens_of(rewrite.after)
    if after < before:
        return []
    return [f"{NOT_SMALLER}: {before:,} tokens before, {after:,} after"]


def known_and_in_order(rewrite: Rewrite) -> list[str]:
    positions = {
        message.key: position for position, message in enumerate(rewrite.before)
    }
    survivors = [message for message in rewrite.after if message.index != NEW]
    keys = {message.key for message in survivors}
    if not keys <= positions.keys():
        return [UNKNOWN_INDEX]
    if len(keys) < len(survivors):
        return [TWICE]
    order = [
        positions[message.key] for message in survivors if not is_preamble(message)
    ]
    if order != sorted(order):
        return [OUT_OF_ORDER]
    return []


def preamble_stays(rewrite: Rewrite) -> list[str]:
    survivors = rewrite.survivors()
    return [
        PREAMBLE_MISSING.format(message.index)
        for message in rewrite.before
        if is_preamble(message) and survivors.get(message.key) != message
    ]


def pins_stay(rewrite: Rewrite) -> list[str]:
    survivors = rewrite.survivors()
    pinned = [
        m for m in rewrite.before if m.index in rewrite.pins and not is_summary(m)
    ]
    return [
        PIN_CHANGED.format(message.index)
        for message in pinned
        if survivors.get(message.key) != message
    ]


def request_survives(rewrite: Rewrite) -> list[str]:
    """Check that the last user message is kept, unless it has been answered and summarised.

    The message may be clipped if it is larger than the new view.
    """
    is_summarised = any(message.index == NEW for message in rewrite.after)
    is_answered = False
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage) and not message.calls:
            is_answered = True
        if isinstance(message, UserMessage):
            if is_answered and is_summarised:
                return []
            kept = rewrite.survivors().get(message.key)
            if kept == message:
                return []
            if kept is not None and rewrite.may_clip(message):
                return []
            adjective = "last" if is_answered else "unanswered"
            return [REQUEST_MISSING.format(adjective, message.index)]
    return []


def fresh_results_survive(rewrite: Rewrite) -> list[str]:
    """Check that results not yet sent to the model are unchanged.

    They may be clipped if a request containing them was rejected, or if they are larger than the new view.
    """
    survivors = rewrite.survivors()
    faults = []
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage):
            break
        kept = survivors.get(message.key)
        if not isinstance(message, ToolResultMessage) or kept == message:
            continue
        may_clip = rewrite.unseen_may_be_clipped or rewrite.may_clip(message)
        if kept is None or not may_clip:
            faults.append(RESULT_UNSEEN.format(message.index))
    return faults


def groups_whole(rewrite: Rewrite) -> list[str]:
    """Check that a call and its results are kept or removed together (docs/design/invariants.md)."""
    survivors = rewrite.survivors()
    faults = []
    for group in tool_groups(rewrite.before):
        are_kept = {message.key in survivors for message in group}
        if len(are_kept) > 1:
            faults.append(GROUP_INCOMPLETE.format(group[0].index))
    return faults


def valid_for_the_api(rewrite: Rewrite) -> list[str]:
    return pairing_faults(paired(rewrite.after))


def tail_begins_well(rewrite: Rewrite) -> list[str]:
    """Check that the kept tail begins with a user or assistant message.

    Pinned messages are ignored (docs/design/invariants.md).
    """
    tail: list[BaseMessage] = []
    is_summarised = False
    for message in rewrite.after:
        if message.index == NEW:
            is_summarised = True
            tail.clear()
        else:
            tail.append(message)
    first = _first_movable(tail, rewrite.pins)
    if not isinstance(first, ToolResultMessage | DeveloperMessage):
        return []
    if not is_summarised and first == _first_movable(rewrite.before, rewrite.pins):
        return []
    return [TAIL_BEGINS_WITH.format(first.index, first.type)]


def _first_movable(messages: Messages, pins: frozenset[int]) -> BaseMessage | None:
    movable = (
        message
        for message in messages
        if not (is_preamble(message) or message.index in pins)
    )
    return next(movable, None)


RULES: tuple[Callable[[Rewrite], list[str]], ...] = (
    known_and_in_order,
    smaller,
    preamble_stays,
    pins_stay,
    request_survives,
    fresh_results_survive,
    groups_whole,
    valid_for_the_api,
    tail_begins_well,
)


def faults(
    before: Messages,
    after: Messages,
    pins: frozenset[int],
    *,
    unseen_may_be_clipped: bool = False,
) -> list[str]:
    """Return a description of each rule violation."""
    rewrite = Rewrite(before, after, pins, unseen_may_be_clipped)
    return [fault for rule in RULES for fault in rule(rewrite)]
