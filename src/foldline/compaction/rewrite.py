"""A view rewritten: what must hold of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foldline.context.calls import paired, pairing_faults
from foldline.context.tokens import message_tokens
from foldline.context.view import is_preamble, is_summary
from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolResultMessage,
    UserMessage,
)

from .strategy import tokens_of


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A view before and after a strategy."""

    before: Sequence[BaseMessage]
    after: Sequence[BaseMessage]
    pins: frozenset[int]
    unseen_may_be_clipped: bool = False

    def may_clip(self, message: BaseMessage) -> bool:
        """Whether it is more than all that is left, so that no request could have carried it whole."""
        return message_tokens(message) > tokens_of(self.after)

    def survivors(self) -> dict[tuple[int, int], BaseMessage]:
        return {message.key: message for message in self.after if message.index != NEW}


def smaller(rewrite: Rewrite) -> list[str]:
    before, after = tokens_of(rewrite.before), tokens_of(rewrite.after)
    return [] if after < before else [f"it is not smaller: {before:,} tokens before, {after:,} after"]


def known_and_in_order(rewrite: Rewrite) -> list[str]:
    places = {message.key: place for place, message in enumerate(rewrite.before)}
    survivors = [message for message in rewrite.after if message.index != NEW]
    if any(message.key not in places for message in survivors):
        return ["it holds a message with an index that was not in the view"]
    if len({message.key for message in survivors}) < len(survivors):
        return ["it holds a message twice"]
    order = [places[message.key] for message in survivors if not is_preamble(message)]
    return [] if order == sorted(order) else ["its messages are out of order"]


def preamble_stays(rewrite: Rewrite) -> list[str]:
    survivors = rewrite.survivors()
    return [
        f"entry {message.index}, a system prompt or instruction file, is gone"
        for message in rewrite.before
        if is_preamble(message) and survivors.get(message.key) != message
    ]


def pins_stay(rewrite: Rewrite) -> list[str]:
    survivors = rewrite.survivors()
    return [
        f"entry {message.index} is pinned and did not come back as it was"
        for message in rewrite.before
        if message.index in rewrite.pins and not is_summary(message) and survivors.get(message.key) != message
    ]


def request_survives(rewrite: Rewrite) -> list[str]:
    """The last user message stays, clipped if larger than all that is left; once it is answered, a summary
    may stand for it."""
    summarised = any(message.index == NEW for message in rewrite.after)
    answered = False
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage) and not message.calls:
            answered = True
        if isinstance(message, UserMessage):
            kept = rewrite.survivors().get(message.key)
            stays = kept == message or (kept is not None and rewrite.may_clip(message))
            gone = [f"the {'last' if answered else 'unanswered'} request, entry {message.index}, is gone"]
            return [] if stays or (answered and summarised) else gone
    return []


def fresh_results_survive(rewrite: Rewrite) -> list[str]:
    """Results that no request has carried yet come back whole; clipped only where that request was refused or
    could hold nothing else."""
    survivors = rewrite.survivors()
    faults = []
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage):
            break
        kept = survivors.get(message.key)
        clipped = kept is not None and (rewrite.unseen_may_be_clipped or rewrite.may_clip(message))
        if isinstance(message, ToolResultMessage) and kept != message and not clipped:
            faults.append(f"the result in entry {message.index} was not seen by the model yet")
    return faults


def groups_whole(rewrite: Rewrite) -> list[str]:
    """A call and its results stay or go together (docs/design/invariants.md)."""
    survivors = rewrite.survivors()
    faults = []
    for group in _groups(rewrite.before):
        stays = [message.key in survivors for message in group]
        if any(stays) and not all(stays):
            faults.append(f"the tool group of entry {group[0].index} is torn")
    return faults


def _groups(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    groups: list[list[BaseMessage]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage) and groups:
            groups[-1].append(message)
        elif isinstance(message, AssistantMessage):
            groups.append([message])
    return groups


def valid_for_the_api(rewrite: Rewrite) -> list[str]:
    return pairing_faults(paired(rewrite.after))


def tail_begins_well(rewrite: Rewrite) -> list[str]:
    """What is kept, pins apart, never begins with a tool result or a developer message
    (docs/design/invariants.md)."""
    new = [place for place, message in enumerate(rewrite.after) if message.index == NEW]
    kept = rewrite.after[new[-1] + 1 :] if new else rewrite.after
    first = _first_movable(kept, rewrite.pins)
    as_before = not new and first == _first_movable(rewrite.before, rewrite.pins)
    if isinstance(first, ToolResultMessage | DeveloperMessage) and not as_before:
        return [f"its kept part begins with entry {first.index}, a {first.type}"]
    return []


def _first_movable(messages: Sequence[BaseMessage], pins: frozenset[int]) -> BaseMessage | None:
    movable = (message for message in messages if not (is_preamble(message) or message.index in pins))
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
    before: Sequence[BaseMessage],
    after: Sequence[BaseMessage],
    pins: frozenset[int],
    *,
    unseen_may_be_clipped: bool = False,
) -> list[str]:
    """Everything that forbids replacing one view by the other; empty where it may be committed."""
    rewrite = Rewrite(before, after, pins, unseen_may_be_clipped)
    return [fault for rule in RULES for fault in rule(rewrite)]
