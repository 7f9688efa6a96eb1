"""The entries of a history, found by their index."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from foldline.protocol import Entry

from .history_entries import Entries
from .outline import FoldOutline, MessageOutline, Outline, WrittenOutline


class Numbered:
    """Entries, and where each stands. A damaged record leaves a gap in their indices."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self._indices: list[int] = []
        """Of the entries that are folded in."""

    @property
    def last_index(self) -> int:
        """Index of the newest entry; -1 in an empty history."""
        return self._indices[-1] if self._indices else -1

    def entry(self, index: int) -> Entry | None:
        """The entry with this index, or None where a damaged record left a gap."""
        position = self._position(index)
        return None if position is None else self.entries[position]

    def outline(self, index: int) -> Outline | None:
        """The outline of the entry with this index, which costs no look at what the entry says."""
        position = self._position(index)
        return None if position is None else self.entries.outlines[position]

    def written_by(self, index: int) -> tuple[WrittenOutline, ...]:
        """The new texts of the fold with this index; none where it is no fold."""
        outline = self.outline(index)
        return outline.written if isinstance(outline, FoldOutline) else ()

    def _position(self, index: int) -> int | None:
        position = bisect_left(self._indices, index)
        found = position < len(self._indices) and self._indices[position] == index
        return position if found else None

    def count_up_to(self, index: int) -> int:
        """How many entries there are up to the one with this index, itself included."""
        return bisect_right(self._indices, index)

    def messages_within(self, first: int, last: int) -> int:
        """How many entries from `first` to `last` are messages."""
        start, stop = bisect_left(self._indices, first), bisect_right(self._indices, last)
        return sum(isinstance(outline, MessageOutline) for outline in self.entries.outlines[start:stop])

    def after(self, index: int, most: int) -> Sequence[Entry]:
        """The entries that follow entry `index`, at most so many, oldest first."""
        start = bisect_right(self._indices, index)
        return self.entries[start : start + most]

    def before(self, index: int, most: int) -> Sequence[Entry]:
        """The entries that lead to entry `index`, at most so many, newest first."""
        stop = bisect_left(self._indices, index)
        return self.entries[max(0, stop - most) : stop][::-1]
