"""A history as it was: the first so many entries of a longer one, folded without a copy of its text."""

from collections.abc import Iterator, Sequence
from typing import Final, Self, overload

from foldline.protocol import BaseMessage, Entry

from .history_entries import Entries
from .outline import MessageOutline
from .projection import Projection

SLICE: Final = 1_000
"""Entries folded between two breaths: about 6 ms."""


class Earlier(Entries):
    """The first entries of a longer history, read where they are kept. It only grows towards the whole."""

    def __init__(self, whole: Entries, length: int = 0) -> None:
        self._whole = whole
        self.outlines = whole.outlines[:length]

    def lengthen(self, length: int) -> None:
        """Take in the entries up to this length."""
        self.outlines += self._whole.outlines[len(self.outlines) : length]

    def append(self, entry: Entry) -> None:
        raise ValueError("what was cannot be added to")

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self._whole.message(outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        return (self._whole[position] for position in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, int):
            return self._whole[range(len(self))[place]]
        start, stop, step = place.indices(len(self))
        if step > 0:
            return self._whole[start : max(start, stop) : step]
        return [self._whole[position] for position in range(start, stop, step)]

    def __copy__(self) -> Self:
        return type(self)(self._whole, len(self))


def nothing_of(whole: Entries) -> Projection:
    """The fold of none of these entries: where `fold_on` starts."""
    return Projection(Earlier(whole))


def fold_on(projection: Projection, length: int) -> Iterator[None]:
    """Fold a projection over `Earlier` entries up to this length, a slice at a time. In between it is the
    true fold of what it holds."""
    earlier = projection.entries
    assert isinstance(earlier, Earlier), "only what was grows without an append"
    while len(earlier) < length:
        earlier.lengthen(min(len(earlier) + SLICE, length))
        projection.follow()
        yield
