"""Opening a session file, at once by `index.jsonl`: where the entries stand, and their outlines.

The index is made from the event file and can be deleted at any time. Each line is a digest and a content: a
table of entries, or the seal under the tables before it, which says what part of which file they are of. The
digest is of the content and of all before it: a line that is torn, or stands where it was not written, counts
for nothing, and so does all behind it; and what has no seal, or is not of this file.

Each save adds a part, table and seal; small parts are made into one from time to time, so that an index that
grew turn by turn is read as fast as one that was written at once.

Tables are in columns, because that is what is quick to read: a field that says the same of all entries of a
kind stands once, and a column becomes outlines without a line of Python for each.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BufferedReader, FileIO
from itertools import chain, repeat
from operator import add, le, lt
from pathlib import Path
from stat import S_ISREG
from sys import intern
from typing import Annotated, Any, Literal

from pydantic import Field

from foldline.context.outline import (
    CompactionOutline,
    MarkerOutline,
    MessageOutline,
    OtherOutline,
    Outline,
    Reported,
    RequestOutline,
    outline_of,
)
from foldline.context.tokens import estimate_tokens
from foldline.data import EVENTS
from foldline.files import open_own, open_regular, opened, put_private
from foldline.protocol import FileTouch, SessionHeader, dump_entry, parse_entry
from foldline.protocol.messages import Record

from .log import ByteRange, Damage, LineReader, Log, Progress, cannot_be_read, parse_header
from .meta import Describer, Meta
from .paths import INDEX
from .stored import Records, StoredEntries

Table = dict[str, Any]
"""`kinds` of the entries in order (a message's type, `request`, `aside` or `marker`), `offsets` and `lengths`
of their records, and columns for each kind: lists, or one value for all."""

ReadAt = Callable[[ByteRange], bytes]
"""Gives what the session file holds at a place."""

_SHORT = 2_000
"""Bytes of a marker that is written into its table; longer ones and compactions are read from the session."""
_MESSAGES = ("system", "developer", "user", "assistant", "tool_result")


def table_of(outlines: Sequence[Outline], places: Sequence[ByteRange]) -> Table:
    kinds = list(map(_kind, outlines))
    table: Table = {
        "kinds": kinds,
        "offsets": [place.offset for place in places],
        "lengths": [place.length for place in places],
    }
    for kind in dict.fromkeys(kinds):
        mine = [place for place, other in enumerate(kinds) if other == kind]
        table[kind] = _columns(kind, [outlines[nth] for nth in mine], [places[nth] for nth in mine])
    return table


def places_in(table: Table, begin: int, end: int) -> Iterator[ByteRange]:
    """Where the entries of a table stand: one behind the other, within these bytes of the session file."""
    offsets, lengths = table["offsets"], table["lengths"]
    _check("index", [*offsets, *lengths])
    ends = list(map(add, offsets, lengths))
    is_whole = len(offsets) == len(lengths) and all(map(le, offsets, ends))
    if not is_whole or not all(map(le, [begin, *ends], [*offsets, end])):
        raise ValueError("places that no session file has")
    return map(ByteRange, offsets, lengths)


def outlines_in(table: Table, read: ReadAt) -> Iterator[Outline]:
    """The outlines a table holds, in order; `read` gives what the session file holds at a place."""
    kinds = table["kinds"]
    places = zip(kinds, table["offsets"], table["lengths"], strict=True)
    markers = [ByteRange(offset, length) for kind, offset, length in places if kind == "marker"]
    made = {kind: _outlines(kind, table[kind], kinds.count(kind), markers, read) for kind in set(kinds)}
    return (next(made[kind]) for kind in kinds)


def _kind(outline: Outline) -> str:
    match outline:
        case MessageOutline():
            return outline.type
        case RequestOutline():
            return "request"
        case OtherOutline():
            return "aside"
        case _:
            return "marker"


def _columns(kind: str, outlines: Sequence[Any], places: Sequence[ByteRange]) -> Table:
    if kind == "marker":
        texts = [_marker_text(each, place) for each, place in zip(outlines, places, strict=True)]
        return {"index": [each.index for each in outlines], "text": texts}
    columns = {}
    for field in _class_of(kind)._fields:
        column = [getattr(outline, field) for outline in outlines]
        if field == "touches":
            column = list(map(_touch_rows, column))
        alike = len(column) > 1 and field != "index" and column.count(column[0]) == len(column)
        columns[field] = [column[0]] * alike or column
    return columns


def _outlines(
    kind: str, columns: Table, count: int, markers: Sequence[ByteRange], read: ReadAt
) -> Iterator[Any]:
    if kind == "marker":
        rows = zip(columns["index"], columns["text"], markers, strict=True)
        return iter([_marker(index, read(place) if text is None else text) for index, text, place in rows])
    made = _class_of(kind)
    if made is MessageOutline and set(columns["type"]) != {kind}:
        raise ValueError(f"not of the type {kind}")
    return map(
        made._make, zip(*(_column(field, columns[field], count) for field in made._fields), strict=True)
    )


def _column(field: str, column: list[Any], count: int) -> Iterable[Any]:
    unpack = _UNPACKED.get(field)
    if not isinstance(column, list):
        raise TypeError(f"{field} is no column")
    values = column if unpack is None else list(map(unpack, column))
    _check(field, values)
    if len(values) == 1:
        return repeat(values[0], count)
    if len(values) != count:
        raise ValueError(f"{len(values)} values of {field} for {count} entries")
    return values


def _marker_text(marker: CompactionOutline | MarkerOutline, place: ByteRange) -> str | None:
    if isinstance(marker, CompactionOutline) or place.length > _SHORT:
        return None
    return dump_entry(marker).decode()


def _marker(index: int, record: bytes | str) -> CompactionOutline | MarkerOutline:
    marker = outline_of(parse_entry(record))
    if not isinstance(marker, CompactionOutline | MarkerOutline) or marker.index != index:
        raise ValueError(f"not the marker that was entry {index}")
    return marker


def _class_of(kind: str) -> type[MessageOutline] | type[RequestOutline] | type[OtherOutline]:
    if kind in _MESSAGES:
        return MessageOutline
    return {"request": RequestOutline, "aside": OtherOutline}[kind]


# --- fields that JSON does not hold as they are ----------------------------------------------------------


def _touch_rows(touches: Iterable[FileTouch]) -> list[list[Any]]:
    return [[touch.path, touch.action, touch.added, touch.removed] for touch in touches]


def _touches(rows: Iterable[list[Any]]) -> tuple[FileTouch, ...]:
    return tuple(_touch(*row) for row in rows)


@lru_cache(maxsize=4096)
def _touch(path: str, action: Literal["read", "modified"], added: int, removed: int) -> FileTouch:
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _reported(usage: Sequence[int] | None) -> Reported | None:
    if usage is not None:
        _check("tokens", usage)
    return None if usage is None else Reported._make(usage)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    _check("name", names)
    return tuple(names)


def _check(field: str, values: Sequence[Any]) -> None:
    """Raises TypeError or ValueError where these are no values of this field, whoever made the index."""
    kinds = set(map(type, values))
    if not kinds <= _KINDS.get(field, _NUMBER):
        raise TypeError(f"{field} holds something else")
    if int in kinds and not -1 <= min(values) <= max(values) < _ENDLESS:
        raise ValueError(f"{field} is beyond all bounds")


_ENDLESS = 2**53
_NUMBER: frozenset[type] = frozenset({int})
_TEXT: frozenset[type] = frozenset({str})
_KINDS: dict[str, frozenset[type]] = {
    "type": _TEXT,
    "origin": _TEXT,
    "call_id": _TEXT,
    "name": _TEXT,
    "dialect": _TEXT,
    "model": frozenset({str, type(None)}),
    "says": frozenset({bool}),
    "failed": frozenset({bool}),
    "touches": frozenset({tuple}),
    "calls": frozenset({tuple}),
    "usage": frozenset({Reported, type(None)}),
}
"""Of the fields that are no numbers."""


_UNPACKED: dict[str, Callable[[Any], Any]] = {
    "type": intern,
    "name": intern,
    "touches": _touches,
    "calls": _names,
    "usage": _reported,
}


LEAST = 4 * 1024 * 1024
"""Bytes of an event file below which reading all of it is quick enough."""
VERSION = 8
"""Raised when tables change, or what an outline means."""
_ENTRIES = 2_000
"""In a table. Reading one takes some milliseconds, in which no other thread runs."""
_PARTS = 50
"""So many with fewer entries than a table holds are made into one."""
_SEAM = 4096
"""Bytes before the end of a chunk's part of the file that show whether the file is still the same."""
_LARGEST = 8
"""Times the event file: what is larger was not made from it."""
_DIGEST = 32


_Number = Annotated[int, Field(strict=True, ge=-1, lt=2**63)]


class _Seal(Record):
    """Says which part of the event file, from `begin` to `end`, the tables since the previous seal are of."""

    begin: _Number
    end: _Number
    lines: _Number
    last: _Number
    taken: _Number
    damaged: tuple[_Number, ...]
    """Of this part."""
    entries: _Number
    """Of this part."""
    size: _Number
    mtime_ns: Annotated[int, Field(strict=True)]
    """Of the whole file, when this was written."""
    seam: str
    """Digest of the last bytes before `end`."""
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index knows of its file."""

    progress: Progress
    meta: Meta
    outlines: list[Outline]
    places: list[ByteRange]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the index a seal ends."""

    size: int
    entries: int
    progress: Progress
    """All up to here, tables and the event file."""
    digest: bytes
    """Of the last line up to here; empty where there is none."""


_START = _Place(0, 0, Progress(upto=0, lines=0), b"")


class Index:
    """The index of one event file."""

    def __init__(self, events: Path, *, least: int = LEAST) -> None:
        self._events = events
        self._path = events.with_name(INDEX)
        # Beside a file that lies somewhere else than in its session's folder, none is put.
        self._least = least if events.name == EVENTS else sys.maxsize
        self._end = _START
        """As far as this process knows the index."""
        self._small = _START
        """Where the parts begin that are too small to stay as they are."""
        self._parts = 0
        """How many these are."""

    def load(self, file: FileIO) -> Indexed | None:
        """What is known of this open event file; None where nothing is, or what is known is of another."""
        with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
            if known := self._load(file):
                return known
        self._note(_START, 0)
        return None

    def save(self, entries: StoredEntries, progress: Progress, meta: Meta) -> None:
        """Add what came since the last time; `progress` is what reading the whole file would come to. One
        that cannot be written is no loss."""
        if progress.upto < self._least or self._end.progress.upto == progress.upto:
            return
        with suppress(OSError):
            self._save(entries, progress, meta)

    # --- reading -------------------------------------------------------------------------------------

    def _load(self, file: FileIO) -> Indexed | None:
        status = os.fstat(file.fileno())
        if status.st_size < self._least or self._path.stat().st_size > _LARGEST * status.st_size:
            return None
        read = _reader(file)
        newest: _Seal | None = None
        outlines: list[Outline] = []
        places: list[ByteRange] = []
        end = _START
        for content, size, digest in _contents(self._path):
            if "kinds" in content:
                begin = places[-1].offset + places[-1].length if places else 0
                places += places_in(content, begin, status.st_size)
                outlines += outlines_in(content, read)
                continue
            seal = _Seal(**content)
            if (seal.begin, seal.entries) != (end.progress.upto, len(outlines) - end.entries):
                break
            damaged = (*end.progress.damaged, *seal.damaged)
            progress = Progress(seal.end, seal.lines, seal.last, seal.taken, damaged)
            newest, end = seal, _Place(size, len(outlines), progress, digest)
            self._note(end, self._parts + 1)
        if newest is None or not _is_of(newest, status, read) or not _in_order(outlines):
            return None
        meta = Meta.model_validate(newest.meta)
        return Indexed(end.progress, meta, outlines[: end.entries], places[: end.entries])

    # --- writing -------------------------------------------------------------------------------------

    def _save(self, entries: StoredEntries, progress: Progress, meta: Meta) -> None:
        with FileIO(open_regular(self._events), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size != progress.upto:
                return  # somebody else writes
            seam = _seam(_reader(file), progress.upto)
        if not self._is_untouched():
            self._note(_START, 0)
        merges = self._parts >= _PARTS or len(entries) - self._small.entries >= _ENTRIES
        after = self._small if merges else self._end
        seal = _Seal(
            begin=after.progress.upto,
            end=progress.upto,
            lines=progress.lines,
            last=progress.last,
            taken=progress.taken,
            damaged=progress.damaged[len(after.progress.damaged) :],
            entries=len(entries) - after.entries,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            seam=seam,
            meta=meta.model_dump(mode="json"),
        )
        lines = list(_dumped(entries, after, seal))
        size = self._write(lines, after.size)
        end = _Place(size, len(entries), progress, _split(lines[-1])[0])
        self._note(end, 1 if merges else self._parts + 1)

    def _note(self, end: _Place, parts: int) -> None:
        self._end, self._parts = end, parts
        if end is _START or end.entries - self._small.entries >= _ENTRIES:
            self._small, self._parts = end, 0

    def _is_untouched(self) -> bool:
        with suppress(OSError):
            found = self._path.lstat()
            return (found.st_size, found.st_nlink) == (self._end.size, 1) and S_ISREG(found.st_mode)
        return False

    def _write(self, lines: Iterable[bytes], after: int) -> int:
        """Replaces all behind the first `after` bytes of the index with these lines; gives its new size."""
        if after:
            with os.fdopen(open_own(self._path, os.O_RDWR), "r+b") as file:
                file.truncate(after)
                file.seek(after)
                return after + sum(map(file.write, lines))
        data = b"".join(lines)
        put_private(self._path, data)
        return len(data)


def _in_order(outlines: list[Outline]) -> bool:
    indices = [outline.index for outline in outlines]
    return all(map(lt, indices, indices[1:]))


def _is_of(seal: _Seal, status: os.stat_result, read: ReadAt) -> bool:
    as_then = (status.st_size, status.st_mtime_ns) == (seal.size, seal.mtime_ns)
    return (as_then or status.st_size > seal.size) and _seam(read, seal.end) == seal.seam


def _contents(path: Path) -> Iterator[tuple[dict[str, Any], int, bytes]]:
    """The contents of the valid lines, each with where it ends, and its digest."""
    from pydantic_core import from_json

    end, before = 0, b""
    with opened(path) as file:
        for line in file:
            digest, body = _split(line)
            if not line.endswith(b"]\n") or digest != _digest(body, before or _origin()):
                return
            end, before = end + len(line), digest
            yield from_json(body, cache_strings="all"), end, digest


def _dumped(entries: StoredEntries, after: _Place, seal: _Seal) -> Iterator[bytes]:
    before = after.digest or _origin()
    for content in chain(_tables(entries, after.entries), [seal.model_dump()]):
        body = json.dumps(content, separators=(",", ":")).encode()
        before = _digest(body, before)
        yield b'["%s",%s]\n' % (before, body)


def _tables(entries: StoredEntries, first: int) -> Iterator[Table]:
    for start in range(first, len(entries), _ENTRIES):
        stop = min(start + _ENTRIES, len(entries))
        yield table_of(entries.outlines[start:stop], [entries.place(at) for at in range(start, stop)])


def _split(line: bytes) -> tuple[bytes, bytes]:
    return line[2 : 2 + _DIGEST], line[4 + _DIGEST : -2]


def _digest(data: bytes, before: bytes = b"") -> bytes:
    return hashlib.sha256(before + data).hexdigest()[:_DIGEST].encode()


def _origin() -> bytes:
    """What the first line continues: the version, and what a fixed text is estimated at, as outlines hold
    estimates."""
    return b"%d %d" % (VERSION, _estimates())


def _seam(read: ReadAt, end: int) -> str:
    begin = max(0, end - _SEAM)
    return _digest(read(ByteRange(begin, end - begin))).decode()


def _reader(file: FileIO) -> ReadAt:
    def read(place: ByteRange) -> bytes:
        file.seek(place.offset)
        return file.read(place.length)

    return read


@cache
def _estimates() -> int:
    return estimate_tokens("Fold 12 entries: don't! 折りたたみ 접기 压缩。🚀→é\n" * 99)


_AT_A_TIME = 1024 * 1024

_listener: ContextVar[Callable[[float], None]] = ContextVar("_listener", default=lambda share: None)


@contextmanager
def on_read_progress(listener: Callable[[float], None]) -> Iterator[None]:
    """Within it, `listener` gets in this thread what share of a session file is read, each megabyte.
    Whoever waits is many calls away from where files are read; nobody between has a use for it."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A session file that can be read, and appended to."""

    header: SessionHeader
    entries: StoredEntries
    log: Log
    damage: Damage
    describer: Describer
    index: Index


def open_file(path: Path, *, index_from: int = LEAST) -> OpenedFile:
    """What `read_log` finds, with little of it in memory; never writes to the history. A file of `index_from`
    bytes gets an index beside it. Raises FoldlineError."""
    try:
        file = FileIO(open_regular(path), "rb")
        records = Records(path, file)
        return _opened(path, file, records, Index(path, least=index_from))
    except OSError as error:
        raise cannot_be_read(path, error) from None


def _opened(path: Path, file: FileIO, records: Records, index: Index) -> OpenedFile:
    first = line = next(_lines(file, 0), b"")
    header = parse_header(first.rstrip(b"\n"), path)
    known = index.load(file)
    entries = StoredEntries(records)
    if known is None:
        describer, since = Describer(header), Progress(upto=len(first), lines=1)
    else:
        entries.known(known.outlines, known.places)
        describer, since = Describer.after(header, known.meta), known.progress
    reader = LineReader(since)
    for line in _lines(file, since.upto):
        found = reader.take(line)
        if found is not None:
            entries.found(found.entry, found.place)
            describer.add(found.entry)
    read = reader.progress
    log = Log(path, header, read=read, torn=not line.endswith(b"\n"))
    if known is None and log.settled is not None:
        index.save(entries, read, describer.meta())
    return OpenedFile(header, entries, log, Damage(read.damaged), describer, index)


def _lines(file: FileIO, since: int) -> Iterator[bytes]:
    file.seek(since)
    lines = BufferedReader(file, _AT_A_TIME)
    size, reported, upto = os.fstat(file.fileno()).st_size, since, since
    try:
        for line in lines:
            yield line
            upto += len(line)
            if upto - reported >= _AT_A_TIME:
                reported = upto
                _listener.get()(min(1.0, upto / size))  # it may have grown
    finally:
        lines.detach()
