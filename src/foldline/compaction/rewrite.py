"""A view rewritten: what must hold of it, and the compaction entry between the view before and after."""

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from foldline.context.calls import paired, pairing_faults
from foldline.context.tokens import message_tokens
from foldline.context.view import is_hidden_placeholder, is_preamble, is_summary
from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    Kept,
    Span,
    ToolResultMessage,
    UserMessage,
    Written,
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


def derive(
    before: Sequence[BaseMessage],
    after: Sequence[BaseMessage],
    left_out: frozenset[tuple[int, int]] = frozenset(),
) -> Compaction:
    """The entry that turns the view `before` into the view `after`.

    A message that carries its index is kept or replaced; one without is new, and covers the removed
    messages between it and the next new one. Removed messages with no new one before them are truncated,
    and so are those `left_out`, by key, after the new texts were written.
    The entry still lacks its reason, sizes and details.
    """
    # The preamble opens every view by itself, wherever it stood: an entry does not mention it.
    before = [message for message in before if not is_preamble(message)]
    after = [message for message in after if not is_preamble(message)]
    originals = {message.key: message for message in before}
    tail_start = _tail_start(before, after)
    head_part, tail_part = after[:tail_start], after[tail_start:]
    covered = _covered([message for message in before if message.key not in left_out], after)
    visible = [message for message in before if not is_summary(message)]
    head = tuple(
        _written(message, covered.get(position, []), visible)
        if message.index == NEW
        else _kept(message, originals[message.key])
        for position, message in enumerate(head_part)
    )
    replaced = tuple(
        _kept(message, originals[message.key])
        for message in tail_part
        if message.parts != originals[message.key].parts
    )
    first_kept = tail_part[0].index if tail_part else max(message.index for message in before) + 1
    return Compaction(first_kept_index=first_kept, head=head, replaced=replaced)


def _tail_start(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> int:
    """Where in `after` the tail begins: from there on it is `before` to its end, nothing left out."""
    length = 0
    while (
        length < min(len(before), len(after))
        and before[-1 - length].key == after[-1 - length].key
        and not is_summary(before[-1 - length])
    ):
        length += 1
    return len(after) - length


def _covered(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> dict[int, list[BaseMessage]]:
    """By position of a new message in `after`: the messages it stands for."""
    places = {message.key: place for place, message in enumerate(after) if message.index != NEW}
    covered: dict[int, list[BaseMessage]] = {}
    limit = len(after)
    for message in reversed(before):
        if message.key in places:
            limit = places[message.key]
            continue
        stand_in = next((place for place in range(limit - 1, -1, -1) if after[place].index == NEW), None)
        if stand_in is not None:
            covered.setdefault(stand_in, []).insert(0, message)
    return covered


def _written(message: BaseMessage, covered: Sequence[BaseMessage], visible: Sequence[BaseMessage]) -> Written:
    indices = {item.index for item in covered if not is_summary(item)}
    return Written(
        message=message,
        covers=spans(indices, (item.index for item in visible if item.index not in indices)),
        inputs=tuple(dict.fromkeys(item.index for item in covered if is_summary(item))),
    )


def _kept(message: BaseMessage, original: BaseMessage) -> Kept:
    if message.parts == original.parts:
        return Kept(ref=message.index, nth=message.nth)
    text = message.text
    fate = "hidden" if is_hidden_placeholder(text) else "clipped"
    return Kept(ref=message.index, nth=message.nth, content=text, fate=fate)


def spans(indices: Iterable[int], others: Iterable[int]) -> tuple[Span, ...]:
    """Indices as the fewest ranges without any of the others: 1, 2, 4, 9 but not 7 is (1, 4), (9, 9)."""
    outside = sorted(others)
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and bisect(outside, found[-1][1]) == bisect(outside, index):
            found[-1][1] = index
        else:
            found.append([index, index])
    return tuple((first, last) for first, last in found)
