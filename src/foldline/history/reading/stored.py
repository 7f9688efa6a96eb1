"""The entries of a session that is on disk: all of them at hand, few of them in memory."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self, overload

from foldline.context.history_entries import Entries, message_in
from foldline.context.outline import (
    Aside,
    FoldOutline,
    MessageOutline,
    Outline,
    RequestOutline,
    outline_of,
)
from foldline.protocol import BaseMessage, Compaction, Entry

from .lines import Place
from .lost import stand_in
from .records import Records, parsed

_BLOCK = 1024 * 1024
"""Bytes that are read at a time where many entries are read in order."""
_NOWHERE = -1


class _Block(NamedTuple):
    """Entries by position, and where they stand."""

    start: int
    stop: int
    place: Place

    @property
    def on_disk(self) -> bool:
        """Not what was only foreseen: that is one entry, which stands nowhere."""
        return self.place.offset >= 0


class StoredEntries(Entries):
    """Entries by their place in the file, parsed when they are looked at; short markers stay as they are.

    An entry that can no longer be read, because somebody changed the file, is replaced by a stand-in of its
    type that says so; the fold, which needs its outline only, does not change.
    """

    def __init__(self, records: Records) -> None:
        self.outlines = []
        self._records = records
        self._offsets, self._lengths = array("q"), array("q")
        self._held: dict[int, Entry] = {}
        """By index, those that are nowhere on disk: what was only foreseen."""

    def known(self, outlines: Iterable[Outline], places: Iterable[Place]) -> None:
        """Add entries that stand in the file, without looking at them."""
        for offset, length in places:
            self._offsets.append(offset)
            self._lengths.append(length)
        self.outlines.extend(outlines)  # last: a thread that reads meanwhile goes by how many these are

    def found(self, entry: Entry, place: Place) -> None:
        """Add an entry just read from the file. It is kept while there is room."""
        self.known((outline_of(entry),), (place,))
        self._records.keep(entry, place, if_there_is_room=True)

    def written(self, entry: Entry, place: Place) -> None:
        """Add an entry just written to the file.

        Raises:
            ValueError: its index is not above those that are there.
        """
        self._comes_next(entry)
        self.known((outline_of(entry),), (place,))
        self._records.keep(entry, place)

    def append(self, entry: Entry) -> None:
        self._comes_next(entry)
        self.known((outline_of(entry),), (Place(_NOWHERE, 0),))
        self._held[entry.index] = entry

    def place(self, position: int) -> Place:
        return Place(self._offsets[position], self._lengths[position])

    def message(self, outline: MessageOutline) -> BaseMessage:
        index = outline.index
        entry = self._held.get(index) or self._records.kept(index)
        if entry is None:
            entry = self._entry(bisect_left(self.outlines, index, key=_index))
        return message_in(entry, outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        position = 0
        while position < len(self):  # what is appended meanwhile belongs to it, as to a list
            for entry in self._run(position, len(self)):
                position += 1
                yield entry

    def __reversed__(self) -> Iterator[Entry]:
        for position in range(len(self) - 1, -1, -1):
            yield self._entry(position, keep=False)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, int):
            return self._entry(range(len(self))[place])
        start, stop, step = place.indices(len(self))
        if step == 1:
            return list(self._run(start, stop))
        return [self._entry(position, keep=False) for position in range(start, stop, step)]

    def __copy__(self) -> Self:
        other = type(self)(self._records)
        other.outlines = list(self.outlines)
        other._offsets, other._lengths = self._offsets[:], self._lengths[:]
        other._held = dict(self._held)
        return other

    def sifted(self, may_count: Callable[[bytes], bool]) -> Iterator[tuple[int, Entry]]:
        """Positions and entries in order, without those whose records do not count.

        `may_count` is asked of many records at once first, and of each where it says yes.
        """
        for block in self._blocks(0, len(self)):
            records = self._read(block)
            if block.on_disk and not may_count(records):
                continue
            for position in range(block.start, block.stop):
                record = self._record(position, block, records)
                if not block.on_disk or may_count(record):
                    yield position, self._entry(position, record, keep=False)

    def _run(self, start: int, stop: int) -> Iterator[Entry]:
        """These entries in order, read in blocks. What is in memory for others stays there."""
        for block in self._blocks(start, stop):
            wanted = any(self._must_be_read(position) for position in range(block.start, block.stop))
            records = self._read(block) if wanted else b""
            for position in range(block.start, block.stop):
                yield self._entry(position, self._record(position, block, records), keep=False)

    def _blocks(self, start: int, stop: int) -> "Iterator[_Block]":
        """These positions in runs that stand together in the file, each short enough to be read at once."""
        while start < stop:
            begin = self._offsets[start]
            end = start + 1
            while begin >= 0 and end < stop and self._offsets[end] >= 0 and self._end(end) - begin <= _BLOCK:
                end += 1
            yield _Block(start, end, Place(begin, self._end(end - 1) - begin))
            start = end

    def _read(self, block: "_Block") -> bytes:
        return self._records.read(block.place) if block.on_disk else b""

    def _record(self, position: int, block: "_Block", records: bytes) -> bytes:
        start = self._offsets[position] - block.place.offset
        return records[start : start + self._lengths[position]]

    def _end(self, position: int) -> int:
        return self._offsets[position] + self._lengths[position]

    def _must_be_read(self, position: int) -> bool:
        outline = self.outlines[position]
        return isinstance(outline, _OUTLINES) and self._records.kept(outline.index) is None

    def _entry(self, position: int, record: bytes | None = None, *, keep: bool = True) -> Entry:
        """The entry at this position, from its record where that was read already."""
        outline = self.outlines[position]
        if not isinstance(outline, _OUTLINES):
            return outline
        index = outline.index
        entry = self._held.get(index) or self._records.kept(index)
        if entry is None:
            place = self.place(position)
            entry = parsed(record or self._records.read(place), index)
            if entry is None or not _is_of(outline, entry):
                return stand_in(outline)
            self._records.keep(entry, place, if_there_is_room=not keep)
        return entry


_OUTLINES = MessageOutline | RequestOutline | FoldOutline | Aside


def _index(outline: Outline) -> int:
    return outline.index


def _is_of(outline: MessageOutline | RequestOutline | FoldOutline | Aside, entry: Entry) -> bool:
    match outline:
        case MessageOutline():
            return entry.type == outline.type
        case RequestOutline():
            return entry.type == "request"
        case FoldOutline():
            return isinstance(entry, Compaction) and len(entry.written) == len(outline.written)
        case Aside():
            return True
