"""`index.jsonl`: where the entries of a large session stand, and their outlines, so that it opens at once.

It is made from the event file and can be deleted at any time. Each line is a digest and a content: a table of
entries, or the seal under the tables before it, which says what part of which file they are of. The digest is
of the content and of all before it: a line that is torn, or stands where it was not written, counts for
nothing, and so does all behind it; and what has no seal, or is not of this file.

Each save adds a part, table and seal; small parts are made into one from time to time, so that an index that
grew turn by turn is read as fast as one that was written at once.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import FileIO
from itertools import chain
from operator import lt
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

from pydantic import Field

from foldline.context.outline import Outline
from foldline.context.tokens import estimate_tokens
from foldline.data import EVENTS
from foldline.files import open_own, open_regular, opened, put_private
from foldline.protocol.base import Record

from ..meta import Meta
from ..paths import INDEX
from .index_tables import Table, outlines_in, places_in, table_of
from .lines import Place, Progress
from .stored import StoredEntries

LEAST = 4 * 1024 * 1024
"""Bytes of an event file below which reading all of it is quick enough."""
VERSION = 5
"""Raised when tables change, or what an outline means."""
_ENTRIES = 2_000
"""In a table. Reading one takes some milliseconds, in which no other thread goes on."""
_PARTS = 50
"""So many with fewer entries than a table holds are made into one."""
_SEAM = 4096
"""Bytes before the end of a chunk's part of the file that show whether the file is still the same."""
_LARGEST = 8
"""Times the event file: what is larger was not made from it."""
_DIGEST = 32


_Number = Annotated[int, Field(strict=True, ge=-1, lt=2**63)]


class _Seal(Record):
    """What the tables since the seal before say: the part of the file from `begin` to `end`."""

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
    places: list[Place]


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
        """Add what came since the last time. One that cannot be written is no loss.

        `progress` is what reading the whole file would come to.
        """
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
        places: list[Place] = []
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
        """The index goes to there, the last so many parts of it being small ones."""
        self._end, self._parts = end, parts
        if end is _START or end.entries - self._small.entries >= _ENTRIES:
            self._small, self._parts = end, 0

    def _is_untouched(self) -> bool:
        """Whether the file still ends where we left it, and is nobody else's under another name."""
        with suppress(OSError):
            found = self._path.lstat()
            return (found.st_size, found.st_nlink) == (self._end.size, 1) and S_ISREG(found.st_mode)
        return False

    def _write(self, lines: Iterable[bytes], after: int) -> int:
        """Write these behind so many bytes, in place of all that is there; how many there are then."""
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


def _is_of(seal: _Seal, status: os.stat_result, read: Callable[[Place], bytes]) -> bool:
    """Whether the file is the one the seal was written about, as it was then or grown since."""
    as_then = (status.st_size, status.st_mtime_ns) == (seal.size, seal.mtime_ns)
    return (as_then or status.st_size > seal.size) and _seam(read, seal.end) == seal.seam


def _contents(path: Path) -> Iterator[tuple[dict[str, Any], int, bytes]]:
    """What the lines say that are whole and in their place, each with where it ends, and its digest."""
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
    """The tables of all entries behind this place, and the seal under them."""
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
    """The digest of a line and its content."""
    return line[2 : 2 + _DIGEST], line[4 + _DIGEST : -2]


def _digest(data: bytes, before: bytes = b"") -> bytes:
    digest = hashlib.sha256(before)
    digest.update(data)
    return digest.hexdigest()[:_DIGEST].encode()


def _origin() -> bytes:
    """What the first line continues, so that an index of others does not even begin. Outlines hold estimates:
    it tells what a fixed text is estimated at."""
    return b"%d %d" % (VERSION, _estimates())


def _seam(read: Callable[[Place], bytes], end: int) -> str:
    begin = max(0, end - _SEAM)
    return _digest(read(Place(begin, end - begin))).decode()


def _reader(file: FileIO) -> Callable[[Place], bytes]:
    def read(place: Place) -> bytes:
        file.seek(place.offset)
        return file.read(place.length)

    return read


@cache
def _estimates() -> int:
    return estimate_tokens("Fold 12 entries: don't! 折りたたみ 접기 压缩。🚀→é\n" * 99)
