"""A session's entries on disk, with a cache of parsed entries.

The size of the cache is limited.
"""

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
    text_parts,
)
from foldline.view.outline import (
    CompactionOutline,
    Entries,
    MessageOutline,
    OtherOutline,
    Outline,
    RequestOutline,
    WrittenOutline,
    message_in,
    outline_of,
)

from .log import ByteRange, entry_in

UNREADABLE = "[foldline: entry {index} can no longer be read: another program changed the session file]"
ROOM = 8 * 1024 * 1024
"""Maximum size of the cache of parsed entries, counted in bytes of their records.

The least recently used entries are dropped. In memory, parsed entries take up to 2.5 times this size, because
a single non-Latin-1 character doubles the memory that a string needs.
"""


class Records:
    """The records of one file, which are read on access.

    Parsed entries are cached, up to a limit. The file stays open, so that all reads use the same file, even
    if another file takes its place.
    """

    def __init__(
        self, path: Path, file: FileIO | None = None, *, room: int = ROOM
    ) -> None:
        """Prepare to read records from `file`.

        Without `file`, `path` is opened at the first read.
        """
        self._path = path
        self._room = room
        self._cached: OrderedDict[int, tuple[Entry, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        if file is not None:
            self._use(file)

    def __len__(self) -> int:
        """Return the number of parsed entries in memory."""
        return len(self._cached)

    @property
    def size(self) -> int:
        """Total size of the records of all entries in memory, in bytes."""
        return self._size

    def cached(self, index: int) -> Entry | None:
        """Return an entry if it is in memory."""
        with self._lock:
            item = self._cached.get(index)
            if item is None:
                return None
            self._cached.move_to_end(index)
            return item[0]

    def keep(
        self, entry: Entry, place: ByteRange, *, if_there_is_room: bool = False
    ) -> None:
        """Keep an entry in memory, and drop the least recently used entries."""
        with self._lock:
            is_full = self._size + place.length > self._room
            if entry.index in self._cached or (if_there_is_room and is_full):
                return
            self._cached[entry.index] = entry, place.length
            self._size += place.length
            while self._size > self._room and len(self._cached) > 1:
                _, (_, length) = self._cached.popitem(last=False)
                self._size -= length

    def read(self, place: ByteRange) -> bytes:
        """Read a byte range.

        Returns fewer bytes if the file is too short, and no bytes if it is unreadable.
        """
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


def _read_all(file: FileIO, length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


_MANY_OBJECTS = 20_000
"""New objects are excluded from later garbage collections if there are more than this number."""


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the garbage collector while many objects without cycles are created.

    The collector would take more than half of the time. If very many new objects were created, they are also
    excluded from later collections, because scanning them would freeze the screen.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        new_objects, _, _ = gc.get_count()
        if new_objects > _MANY_OBJECTS:
            gc.freeze()
        if was_enabled:
            gc.enable()


_RUN_BYTES = 1024 * 1024
"""Maximum number of bytes that are read at once, for consecutive entries."""
_NOT_ON_DISK = -1
"""The offset that marks an entry as being only in memory."""


class _RecordRun(NamedTuple):
    """Consecutive entries, with their byte range in the file.

    The entries are those from `start` up to, but not including, `stop`.
    """

    start: int
    stop: int
    place: ByteRange

    @property
    def on_disk(self) -> bool:
        """Whether the entries are on disk.

        A run in memory has only one entry.
        """
        return self.place.offset >= 0


class StoredEntries(Entries):
    """The entries of a session, which are read and parsed on access.

    Only outlines, byte ranges and markers stay in memory. Markers are short.

    If another program has changed the file, an unreadable entry is replaced with a placeholder of the same
    type. The projection uses only outlines, so it does not change.
    """

    def __init__(self, records: Records) -> None:
        self.outlines = []
        self._records = records
        self._offsets = array("q")
        self._lengths = array("q")
        self._unwritten: dict[int, Entry] = {}
        """Entries that are only in memory, by index.

        For example, these are the entries of a planned compaction.
        """

    def extend(self, outlines: Iterable[Outline], places: Iterable[ByteRange]) -> None:
        """Add entries that are in the file, given their outlines.

        The entries themselves are not read.
        """
        for offset, length in places:
            self._offsets.append(offset)
            self._lengths.append(length)
        # This must be last, because other threads derive the length from the outlines.
        self.outlines.extend(outlines)

    def add_read(self, entry: Entry, place: ByteRange) -> None:
        """Add an entry that has just been read from the file.

        The entry is kept in memory if there is space.
        """
        self.extend((outline_of(entry),), (place,))
        self._records.keep(entry, place, if_there_is_room=True)

    def add_written(self, entry: Entry, place: ByteRange) -> None:
        """Add an entry that has just been written to the file.

        Raises:
            ValueError: its index is not the next one.
        """
        self._check_order(entry)
        self.extend((outline_of(entry),), (place,))
        self._records.keep(entry, place)

    def append(self, entry: Entry) -> None:
        self._check_order(entry)
        self.extend((outline_of(entry),), (ByteRange(_NOT_ON_DISK, 0),))
        self._unwritten[entry.index] = entry

    def place(self, position: int) -> ByteRange:
        return ByteRange(self._offsets[position], self._lengths[position])

    def message(self, outline: MessageOutline) -> BaseMessage:
        index = outline.index
        entry = self._in_memory(index)
        if entry is None:
            entry = self._entry(bisect_left(self.outlines, index, key=_index))
        return message_in(entry, outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        position = 0
        # As in a list, entries appended during the iteration are included.
        while position < len(self):
            for entry in self._entries(position, len(self)):
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
            return list(self._entries(start, stop))
        return [
            self._entry(position, keep=False) for position in range(start, stop, step)
        ]

    def __copy__(self) -> Self:
        copy = type(self)(self._records)
        copy.outlines = list(self.outlines)
        copy._offsets = self._offsets[:]
        copy._lengths = self._lengths[:]
        copy._unwritten = dict(self._unwritten)
        return copy

    def sifted(self, may_match: Callable[[bytes], bool]) -> Iterator[tuple[int, Entry]]:
        """Yield entries that may match, with their positions.

        Other records are not parsed.

        Args:
            may_match: called with the bytes of many records and, if it returns true, with each record.
        """
        for run in self._runs(0, len(self)):
            records = self._read(run)
            if run.on_disk and not may_match(records):
                continue
            for position in range(run.start, run.stop):
                record = self._record(position, run, records)
                if not run.on_disk or may_match(record):
                    yield position, self._entry(position, record, keep=False)

    def _entries(self, start: int, stop: int) -> Iterator[Entry]:
        """Yield entries in order, reading many at a time.

        The entries that are read do not replace those in the cache.
        """
        for run in self._runs(start, stop):
            positions = range(run.start, run.stop)
            records = b""
            if any(map(self._must_be_read, positions)):
                records = self._read(run)
            for position in positions:
                yield self._entry(
                    position, self._record(position, run, records), keep=False
                )

    def _runs(self, start: int, stop: int) -> Iterator[_RecordRun]:
        while start < stop:
            begin = self._offsets[start]
            end = start + 1
            while end < stop and self._continues_run(begin, end):
                end += 1
            length = self._end(end - 1) - begin
            yield _RecordRun(start, end, ByteRange(begin, length))
            start = end

    def _continues_run(self, begin: int, position: int) -> bool:
        are_on_disk = begin >= 0 and self._offsets[position] >= 0
        return are_on_disk and self._end(position) - begin <= _RUN_BYTES

    def _read(self, run: _RecordRun) -> bytes:
        return self._records.read(run.place) if run.on_disk else b""

    def _record(self, position: int, run: _RecordRun, records: bytes) -> bytes:
        start = self._offsets[position] - run.place.offset
        return records[start : start + self._lengths[position]]

    def _end(self, position: int) -> int:
        return self._offsets[position] + self._lengths[position]

    def _in_memory(self, index: int) -> Entry | None:
        return self._unwritten.get(index) or self._records.cached(index)

    def _must_be_read(self, position: int) -> bool:
        outline = self.outlines[position]
        if not isinstance(outline, Readable):
            return False
        return self._records.cached(outline.index) is None

    def _entry(
        self, position: int, record: bytes | None = None, *, keep: bool = True
    ) -> Entry:
        """Return the entry at a position.

        Args:
            record: the entry's record, if it has already been read.
        """
        outline = self.outlines[position]
        if not isinstance(outline, Readable):
            return outline
        entry = self._in_memory(outline.index)
        if entry is not None:
            return entry
        place = self.place(position)
        entry = entry_in(record or self._records.read(place))
        if entry is None or not _is_of(outline, entry):
            return placeholder(outline)
        self._records.keep(entry, place, if_there_is_room=not keep)
        return entry


Readable = MessageOutline | RequestOutline | CompactionOutline | OtherOutline
"""Types of outlines whose entries are read from the file."""


def _index(outline: Outline) -> int:
    return outline.index


def _is_of(outline: Readable, entry: Entry) -> bool:
    """Return whether an entry matches an outline."""
    if entry.index != outline.index:
        return False
    match outline:
        case MessageOutline():
            return entry.type == outline.type
        case RequestOutline():
            return entry.type == "request"
        case CompactionOutline():
            if not isinstance(entry, Compaction):
                return False
            return len(entry.written) == len(outline.written)
        case OtherOutline():
            return True


def placeholder(outline: Readable) -> Entry:
    """Return a placeholder for an entry that cannot be read.

    The placeholder has the same type, index and calls, so that the neighbouring entries stay valid. Its text
    states the reason.
    """
    index = outline.index
    text = UNREADABLE.format(index=index)
    match outline:
        case MessageOutline():
            return _placeholder_message(outline, text)
        case RequestOutline():
            return RequestRecord(
                index=index, digest="", model=outline.model, dialect=outline.dialect
            )
        case CompactionOutline():
            fields = {name: getattr(outline, name) for name in _COMPACTION_FIELDS}
            head = tuple(_placeholder_piece(piece, text) for piece in outline.head)
            return Compaction(**fields, summary=text, head=head)
        case OtherOutline():
            return Unknown(index=index)


_COMPACTION_FIELDS = (
    "index", "at", "first_kept_index", "replaced", "pins", "rung", "reason",
    "tokens_before", "tokens_after", "details",
)  # fmt: skip
"""Fields that a compaction has in common with its outline."""


def _placeholder_piece(piece: Kept | WrittenOutline, text: str) -> Kept | Written:
    if isinstance(piece, Kept):
        return piece
    message = _placeholder_message(piece.message, text)
    return Written(message=message, covers=piece.covers, inputs=piece.inputs)


def _placeholder_message(outline: MessageOutline, text: str) -> Message:
    index = outline.index
    nth = outline.nth
    parts = text_parts(text)
    match outline.type:
        case "assistant":
            calls = (
                ToolCallPart(call_id=call_id, name="unknown")
                for call_id in outline.calls
            )
            return AssistantMessage(
                index=index, nth=nth, parts=(*parts, *calls), model=outline.model
            )
        case "tool_result":
            call_id = outline.call_id
            return ToolResultMessage(
                index=index, nth=nth, call_id=call_id, is_error=True, parts=parts
            )
        case "user":
            return UserMessage(index=index, nth=nth, origin="machine", parts=parts)
        case other:
            kind = SystemMessage if other == "system" else DeveloperMessage
            fields = {
                "index": index,
                "nth": nth,
                "origin": outline.origin,
                "parts": parts,
            }
            return kind.model_validate(fields)
