"""The entries of a session that is on disk: all of them at hand, few of them in memory."""

import gc
import threading
import weakref
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import NamedTuple, Self, overload

from foldline.context.outline import (
    CompactionOutline,
    Entries,
    MessageOutline,
    OtherOutline,
    Outline,
    RequestOutline,
    message_in,
    outline_of,
)
from foldline.files import open_regular
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    Entry,
    Kept,
    Message,
    RequestRecord,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    UserMessage,
    Written,
    parse_entry,
    text_parts,
)

from .log import ByteRange

ROOM = 8 * 1024 * 1024
"""Bytes of records that are kept parsed, twice the largest window. In memory they take two and a half times
that: one sign beyond Latin-1 makes a text twice as wide."""


class Records:
    """The records of one file. Its handle stays open: what is read later is of the file that was opened."""

    def __init__(self, path: Path, file: FileIO | None = None, *, room: int = ROOM) -> None:
        """`file` is the open file at `path`; without it, that is opened at the first look."""
        self._path = path
        self._room = room
        self._kept: OrderedDict[int, tuple[Entry, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        if file is not None:
            self._use(file)

    def __len__(self) -> int:
        """How many entries are kept."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of their records."""
        return self._size

    def kept(self, index: int) -> Entry | None:
        """The entry, where it is in memory."""
        with self._lock:
            found = self._kept.get(index)
            if found is None:
                return None
            self._kept.move_to_end(index)
            return found[0]

    def keep(self, entry: Entry, place: ByteRange, *, if_there_is_room: bool = False) -> None:
        """Keep what was parsed, or just written, in place of what nobody looked at for longest."""
        with self._lock:
            if entry.index in self._kept or (if_there_is_room and self._size + place.length > self._room):
                return
            self._kept[entry.index] = entry, place.length
            self._size += place.length
            while self._size > self._room and len(self._kept) > 1:
                _, (_, length) = self._kept.popitem(last=False)
                self._size -= length

    def read(self, place: ByteRange) -> bytes:
        """The bytes there, fewer where the file has become shorter or unreadable."""
        with self._lock:
            try:
                file = self._file or self._use(FileIO(open_regular(self._path), "rb"))
                file.seek(place.offset)
                return _read_all(file, place.length)
            except OSError:
                return b""

    def _use(self, file: FileIO) -> FileIO:
        self._file = file
        weakref.finalize(self, file.close)
        return file


def parsed(record: bytes, index: int) -> Entry | None:
    """The entry of a record, where it is the one with this index."""
    try:
        entry = parse_entry(record)
    except (ValueError, RecursionError):
        return None
    return entry if entry.index == index else None


def _read_all(file: FileIO, length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


_MANY = 20_000
"""Objects kept from which on looking at them again would be felt."""


@contextmanager
def without_gc() -> Iterator[None]:
    """Within it, cycles are not collected: none are made, and looking for them took more than half the time.
    What is made by the hundred thousand is not looked at later either, which would stop the screen."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        made, _, _ = gc.get_count()
        if made > _MANY:
            gc.freeze()
        if was_enabled:
            gc.enable()


_BLOCK = 1024 * 1024
"""Bytes that are read at a time where many entries are read in order."""
_NOWHERE = -1


class _Block(NamedTuple):
    """Entries by position, and where they stand."""

    start: int
    stop: int
    place: ByteRange

    @property
    def on_disk(self) -> bool:
        """Not what was only foreseen: that is one entry, which stands nowhere."""
        return self.place.offset >= 0


class StoredEntries(Entries):
    """Entries by their place in the file, parsed when they are looked at; short markers stay as they are.

    One that can no longer be read, because somebody changed the file, is replaced by a stand-in of its type
    that says so; the projection, which needs its outline only, does not change.
    """

    def __init__(self, records: Records) -> None:
        self.outlines = []
        self._records = records
        self._offsets, self._lengths = array("q"), array("q")
        self._held: dict[int, Entry] = {}
        """By index, those that are nowhere on disk: what was only foreseen."""

    def known(self, outlines: Iterable[Outline], places: Iterable[ByteRange]) -> None:
        """Add entries that stand in the file, without looking at them."""
        for offset, length in places:
            self._offsets.append(offset)
            self._lengths.append(length)
        self.outlines.extend(outlines)  # last: a thread that reads goes by how many these are

    def found(self, entry: Entry, place: ByteRange) -> None:
        """Add an entry just read from the file. It is kept while there is room."""
        self.known((outline_of(entry),), (place,))
        self._records.keep(entry, place, if_there_is_room=True)

    def written(self, entry: Entry, place: ByteRange) -> None:
        """Add an entry just written to the file. Raises ValueError where its index comes not next."""
        self._comes_next(entry)
        self.known((outline_of(entry),), (place,))
        self._records.keep(entry, place)

    def append(self, entry: Entry) -> None:
        self._comes_next(entry)
        self.known((outline_of(entry),), (ByteRange(_NOWHERE, 0),))
        self._held[entry.index] = entry

    def place(self, position: int) -> ByteRange:
        return ByteRange(self._offsets[position], self._lengths[position])

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
        while position < len(self):  # what is appended during it belongs to it, as to a list
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
        """Positions and entries in order, without those whose records do not count: `may_count` is asked of
        many records at once, and of each where it says yes."""
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
        while start < stop:
            begin = self._offsets[start]
            end = start + 1
            while begin >= 0 and end < stop and self._offsets[end] >= 0 and self._end(end) - begin <= _BLOCK:
                end += 1
            yield _Block(start, end, ByteRange(begin, self._end(end - 1) - begin))
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
        return isinstance(outline, Readable) and self._records.kept(outline.index) is None

    def _entry(self, position: int, record: bytes | None = None, *, keep: bool = True) -> Entry:
        """The entry at this position, from its record where that was read already."""
        outline = self.outlines[position]
        if not isinstance(outline, Readable):
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


Readable = MessageOutline | RequestOutline | CompactionOutline | OtherOutline
"""Outlines whose entries are read from the file."""


def _index(outline: Outline) -> int:
    return outline.index


def _is_of(outline: Readable, entry: Entry) -> bool:
    match outline:
        case MessageOutline():
            return entry.type == outline.type
        case RequestOutline():
            return entry.type == "request"
        case CompactionOutline():
            return isinstance(entry, Compaction) and len(entry.written) == len(outline.written)
        case OtherOutline():
            return True


def stand_in(outline: Readable) -> Entry:
    """An entry of the same type, index and calls for one that can no longer be read, so that nothing around
    it changes. Its text says why."""
    index = outline.index
    words = f"[foldline: entry {index} can no longer be read: the session file was changed by something else]"
    match outline:
        case MessageOutline():
            return _stand_in_message(outline, words)
        case RequestOutline():
            return RequestRecord(index=index, digest="", model=outline.model, dialect=outline.dialect)
        case CompactionOutline():
            head = tuple(
                piece
                if isinstance(piece, Kept)
                else Written(
                    message=_stand_in_message(piece.message, words), covers=piece.covers, inputs=piece.inputs
                )
                for piece in outline.head
            )
            known = {name: getattr(outline, name) for name in _KNOWN}
            return Compaction(**known, summary=words, head=head)
        case OtherOutline():
            return Unknown(index=index)


_KNOWN = (
    "index", "at", "first_kept_index", "replaced", "pins", "rung", "reason",
    "tokens_before", "tokens_after", "details",
)  # fmt: skip
"""Fields of a compaction that its outline has as they are."""


def _stand_in_message(outline: MessageOutline, words: str) -> Message:
    index, nth, text = outline.index, outline.nth, text_parts(words)
    match outline.type:
        case "assistant":
            calls = (ToolCallPart(call_id=call_id, name="unknown") for call_id in outline.calls)
            return AssistantMessage(index=index, nth=nth, parts=(*text, *calls), model=outline.model)
        case "tool_result":
            call_id = outline.call_id
            return ToolResultMessage(index=index, nth=nth, call_id=call_id, is_error=True, parts=text)
        case "user":
            return UserMessage(index=index, nth=nth, origin="machine", parts=text)
        case other:
            kind = SystemMessage if other == "system" else DeveloperMessage
            return kind.model_validate({"index": index, "nth": nth, "origin": outline.origin, "parts": text})
