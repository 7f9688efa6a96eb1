"""The compaction entry between two views: one before it, and one after it."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import dropwhile

from foldline.protocol import NEW, BaseMessage, Compaction, Kept, Span, Written

from .view import is_hidden_placeholder, is_preamble, is_summary


def derive(
    before: Sequence[BaseMessage],
    after: Sequence[BaseMessage],
    left_out: frozenset[tuple[int, int]] = frozenset(),
    *,
    as_listed: bool = False,
) -> Compaction:
    """Return the entry that turns the view `before` into the view `after`.

    A message that carries its index is kept or replaced; a message of the history that is not in `before`
    comes back. A message without an index is new, and covers the removed messages between it and the next
    new one. Removed messages with no new one before them are truncated, and so are those `left_out`, by key,
    after the new texts were written.
    The entry still lacks its reason, sizes and details.

    Args:
        as_listed: another agent listed `after`. Instruction files behind its first message stay there, and
            the first new message also covers the removed messages before it.
    """
    originals = {message.key: message for message in before}
    # The preamble opens every view by itself: an entry does not mention it.
    before = [message for message in before if not is_preamble(message)]
    if as_listed:
        after = [*dropwhile(lambda each: is_preamble(each) and each == originals.get(each.key), after)]
    else:
        after = [message for message in after if not is_preamble(message)]
    tail_start = _tail_start(before, after)
    head_part, tail_part = after[:tail_start], after[tail_start:]
    removable = [message for message in before if message.key not in left_out]
    covered = _covered(removable, after, first_covers_all_before=as_listed)
    visible = [message for message in before if not is_summary(message)]
    head = tuple(
        _written(message, covered.get(position, []), visible)
        if message.index == NEW
        else _kept(message, originals.get(message.key, message))
        for position, message in enumerate(head_part)
    )
    replaced = tuple(
        _kept(message, originals[message.key])
        for message in tail_part
        if message.parts != originals[message.key].parts
    )
    first_kept = (
        tail_part[0].index if tail_part else max((message.index for message in before), default=NEW) + 1
    )
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


def _covered(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], *, first_covers_all_before: bool
) -> dict[int, list[BaseMessage]]:
    """By position of a new message in `after`: the messages it stands for."""
    places = {message.key: place for place, message in enumerate(after) if message.index != NEW}
    new = [place for place, message in enumerate(after) if message.index == NEW]
    first = new[0] if new and first_covers_all_before else None
    covered: dict[int, list[BaseMessage]] = {}
    limit = len(after)
    for message in reversed(before):
        if message.key in places:
            limit = places[message.key]
            continue
        stand_in = next((place for place in reversed(new) if place < limit), first)
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
