"""Derives a compaction entry from the views before and after the compaction."""

from bisect import bisect
from collections.abc import Iterable
from itertools import dropwhile
from typing import Literal

from foldline.protocol import NEW, BaseMessage, Compaction, Kept, Span, Written

from .items import Key, Messages, is_hidden_placeholder, is_preamble, is_summary

AlteredFate = Literal["hidden", "clipped"]
"""The fate of a message with a new text."""


def derive(
    before: Messages,
    after: Messages,
    left_out: frozenset[Key] = frozenset(),
    *,
    as_listed: bool = False,
    fate: AlteredFate | None = None,
) -> Compaction:
    """Return the compaction entry that leads from one view to the other.

    A message with an index is kept or replaced. If it is not in `before`, it is restored. A message without
    an index is new, and covers the removed messages between itself and the next new message. Removed messages
    that are not preceded by a new message are truncated. The caller still has to set the entry's reason,
    sizes and details.

    Args:
        left_out: keys of messages that are truncated although a new message could cover them, because they
            were removed after the new texts were written.
        as_listed: whether another agent produced `after`. If so, instruction files after its first message
            stay there, and the first new message also covers the removed messages before itself.
        fate: the fate of messages with new texts. By default, it is determined from the texts.
    """
    originals = {message.key: message for message in before}
    # The preamble is part of every view, so an entry does not mention it.
    before = [message for message in before if not is_preamble(message)]
    if as_listed:
        after = list(
            dropwhile(
                lambda message: (
                    is_preamble(message) and message == originals.get(message.key)
                ),
                after,
            )
        )
    else:
        after = [message for message in after if not is_preamble(message)]
    tail_start = _tail_start(before, after)
    removable = [message for message in before if message.key not in left_out]
    covered = _covered(removable, after, first_covers_all_before=as_listed)
    visible = [message for message in before if not is_summary(message)]
    head = tuple(
        _written(message, covered.get(position, []), visible)
        if message.index == NEW
        else _kept(message, originals.get(message.key, message), fate)
        for position, message in enumerate(after[:tail_start])
    )
    tail = after[tail_start:]
    replaced = tuple(
        _kept(message, originals[message.key], fate)
        for message in tail
        if message.parts != originals[message.key].parts
    )
    end = max((message.index for message in before), default=NEW) + 1
    first_kept = tail[0].index if tail else end
    return Compaction(first_kept_index=first_kept, head=head, replaced=replaced)


def _tail_start(before: Messages, after: Messages) -> int:
    """Return the position in `after` at which the tail common to both views starts."""
    length = 0
    for old, new in zip(reversed(before), reversed(after), strict=False):
        if old.key != new.key or is_summary(old):
            break
        length += 1
    return len(after) - length


def _covered(
    before: Messages,
    after: Messages,
    *,
    first_covers_all_before: bool,
) -> dict[int, list[BaseMessage]]:
    """Return the messages covered by each new message, by the new message's position."""
    positions = {
        message.key: at for at, message in enumerate(after) if message.index != NEW
    }
    new_positions = [at for at, message in enumerate(after) if message.index == NEW]
    default = new_positions[0] if new_positions and first_covers_all_before else None
    covered: dict[int, list[BaseMessage]] = {}
    limit = len(after)
    for message in reversed(before):
        if message.key in positions:
            limit = positions[message.key]
            continue
        stand_in = next((at for at in reversed(new_positions) if at < limit), default)
        if stand_in is not None:
            covered.setdefault(stand_in, []).insert(0, message)
    return covered


def _written(message: BaseMessage, covered: Messages, visible: Messages) -> Written:
    indices = {item.index for item in covered if not is_summary(item)}
    return Written(
        message=message,
        covers=spans(
            indices, (item.index for item in visible if item.index not in indices)
        ),
        inputs=tuple(dict.fromkeys(item.index for item in covered if is_summary(item))),
    )


def _kept(
    message: BaseMessage, original: BaseMessage, fate: AlteredFate | None
) -> Kept:
    if message.parts == original.parts:
        return Kept(ref=message.index, nth=message.nth)
    text = message.text
    if fate is None:
        fate = "hidden" if is_hidden_placeholder(text) else "clipped"
    return Kept(ref=message.index, nth=message.nth, content=text, fate=fate)


def spans(indices: Iterable[int], others: Iterable[int]) -> tuple[Span, ...]:
    """Combine indices into as few ranges as possible.

    No range includes any of the other indices. For example, the indices 1, 2, 4 and 9 become (1, 4) and (9,
    9) if 7 is among the others.
    """
    outside = sorted(others)
    ranges: list[Span] = []
    for index in sorted(indices):
        if ranges and bisect(outside, ranges[-1][1]) == bisect(outside, index):
            ranges[-1] = (ranges[-1][0], index)
        else:
            ranges.append((index, index))
    return tuple(ranges)
