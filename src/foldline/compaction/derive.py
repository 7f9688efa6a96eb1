"""From two lists of messages, the view before and after a strategy, to the compaction entry between them."""

from bisect import bisect
from collections.abc import Iterable, Sequence

from foldline.context.view import is_hidden_placeholder, is_preamble, is_summary
from foldline.protocol import NEW, BaseMessage, Compaction, Kept, Span, Written


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
    """Indices as the fewest ranges without any of the others: 1, 2, 4, 9 but not 7 is (1, 4), (9, 9).

    What was not in the view (markers, entries gone before) does not divide a range.
    """
    outside = sorted(others)
    found: list[list[int]] = []
    for index in sorted(indices):
        if found and bisect(outside, found[-1][1]) == bisect(outside, index):
            found[-1][1] = index
        else:
            found.append([index, index])
    return tuple((first, last) for first, last in found)
