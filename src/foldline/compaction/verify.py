"""What must hold of a rewritten view before it may replace the old one.

Each rule is a function that names its faults.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foldline.context.pairing import paired, pairing_faults
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


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A view before and after a strategy."""

    before: Sequence[BaseMessage]
    after: Sequence[BaseMessage]
    pins: frozenset[int]

    def survivors(self) -> dict[tuple[int, int], BaseMessage]:
        return {message.key: message for message in self.after if message.index != NEW}


def smaller(rewrite: Rewrite) -> list[str]:
    before = sum(message_tokens(message) for message in rewrite.before)
    after = sum(message_tokens(message) for message in rewrite.after)
    return [] if after < before else [f"it is not smaller: {before:,} tokens before, {after:,} after"]


def known_and_in_order(rewrite: Rewrite) -> list[str]:
    places = {message.key: place for place, message in enumerate(rewrite.before)}
    order = [places.get(message.key, -1) for message in rewrite.after if message.index != NEW]
    if -1 in order:
        return ["it holds a message with an index that was not in the view"]
    return [] if order == sorted(set(order)) else ["its messages are out of order or doubled"]


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
    """The last user message, unless an answer without tool calls has ended its turn (invariant 7)."""
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage) and not message.calls:
            return []
        if isinstance(message, UserMessage):
            kept = rewrite.survivors().get(message.key) == message
            return [] if kept else [f"the unanswered request, entry {message.index}, is gone"]
    return []


def fresh_results_survive(rewrite: Rewrite) -> list[str]:
    """Results that no request has carried yet must come back whole (invariant 7)."""
    survivors = rewrite.survivors()
    faults = []
    for message in reversed(rewrite.before):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResultMessage) and survivors.get(message.key) != message:
            faults.append(f"the result in entry {message.index} was not seen by the model yet")
    return faults


def valid_for_the_api(rewrite: Rewrite) -> list[str]:
    return pairing_faults(paired(rewrite.after))


def tail_begins_well(rewrite: Rewrite) -> list[str]:
    """What follows the last new text is never a tool result or a developer message (invariant 6)."""
    new = [place for place, message in enumerate(rewrite.after) if message.index == NEW]
    following = rewrite.after[new[-1] + 1 :] if new else ()
    if following and isinstance(following[0], ToolResultMessage | DeveloperMessage):
        return [f"its kept part begins with entry {following[0].index}, a {following[0].type}"]
    return []


RULES: tuple[Callable[[Rewrite], list[str]], ...] = (
    known_and_in_order,
    smaller,
    preamble_stays,
    pins_stay,
    request_survives,
    fresh_results_survive,
    valid_for_the_api,
    tail_begins_well,
)


def faults(before: Sequence[BaseMessage], after: Sequence[BaseMessage], pins: frozenset[int]) -> list[str]:
    """Everything that forbids replacing one view by the other; empty where it may be committed."""
    rewrite = Rewrite(before, after, pins)
    return [fault for rule in RULES for fault in rule(rewrite)]
