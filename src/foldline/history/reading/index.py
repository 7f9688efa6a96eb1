"""`index.jsonl`: where the entries of a large session stand, and their outlines, so that it opens at once.

It is made from the event file and can be deleted at any time. Each line is a chunk: a digest, and what it is
the digest of. A chunk that is torn, or is not of this file, counts for nothing, and all behind it.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from io import FileIO
from pathlib import Path

from foldline.context.outline import Outline
from foldline.context.tokens import estimate_tokens

from ..meta import Meta
from ..paths import EVENTS, INDEX
from ..small_files import open_regular
from .index_rows import Row, outline_in, row_of
from .lines import Place, Progress
from .stored import StoredEntries

LEAST = 4 * 1024 * 1024
"""Bytes of an event file below which reading all of it is quick enough."""
VERSION = 3
"""Raised when rows change, or what an outline means."""
_SEAM = 4096
"""Bytes before the end of a chunk's part of the file that show whether the file is still the same."""
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One line of an index: what the part of the file from `begin` to `end` holds."""

    version: int
    estimates: int
    """What a fixed text was estimated at: outlines hold estimates."""
    begin: int
    end: int
    lines: int
    last: int
    taken: int
    damaged: tuple[int, ...]
    """Of this part."""
    size: int
    mtime_ns: int
    """Of the whole file, when this was written."""
    seam: str
    """Digest of the last bytes before `end`."""
    meta: Meta
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index knows of its file."""

    progress: Progress
    meta: Meta
    outlines: list[Outline]
    places: list[Place]


class Index:
    """The index of one event file."""

    def __init__(self, events: Path, *, least: int = LEAST) -> None:
        self._events = events
        self._path = events.with_name(INDEX)
        # Beside a file that lies somewhere else than in its session's folder, none is put.
        self._least = least if events.name == EVENTS else sys.maxsize
        self._rows = 0
        """How many entries the chunks on disk hold."""
        self._progress: Progress | None = None
        """How far they go; None where there are none that count."""
        self._size = 0
        """Bytes of the index as this process knows it."""

    def load(self, file: FileIO) -> Indexed | None:
        """What is known of this open event file; None where nothing is, or what is known is of another."""
        with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
            return self._load(file)
        return None

    def save(self, entries: StoredEntries, progress: Progress, meta: Meta) -> None:
        """Add what came since the last time. One that cannot be written is no loss.

        `progress` is what reading the whole file would come to.
        """
        if progress.upto < self._least or (self._progress and self._progress.upto == progress.upto):
            return
        with suppress(OSError):
            self._save(entries, progress, meta)

    # --- reading -------------------------------------------------------------------------------------

    def _load(self, file: FileIO) -> Indexed | None:
        status = os.fstat(file.fileno())
        if status.st_size < self._least:
            return None
        read = _reader(file)
        chunks: list[_Chunk] = []
        outlines: list[Outline] = []
        places: list[Place] = []
        size = 0
        for chunk, end in _chunks(self._path):
            if chunks and chunk.begin != chunks[-1].end:
                break
            outlines += [outline_in(row, read) for row in chunk.rows]
            places += [Place(row[0], row[1]) for row in chunk.rows]
            chunks.append(chunk)
            size = end
        if not chunks or not _is_of(chunks[-1], status, read):
            return None
        newest = chunks[-1]
        damaged = tuple(line for chunk in chunks for line in chunk.damaged)
        self._progress = Progress(newest.end, newest.lines, newest.last, newest.taken, damaged)
        self._rows, self._size = len(outlines), size
        return Indexed(self._progress, newest.meta, outlines, places)

    # --- writing -------------------------------------------------------------------------------------

    def _save(self, entries: StoredEntries, progress: Progress, meta: Meta) -> None:
        with self._events.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if status.st_size != progress.upto:
                return  # somebody else writes
            seam = _seam(_reader(file), progress.upto)
        known = self._progress if self._is_untouched() else None
        begin = known.upto if known else 0
        first = self._rows if known else 0
        chunk = _Chunk(
            version=VERSION,
            estimates=_estimates(),
            begin=begin,
            end=progress.upto,
            lines=progress.lines,
            last=progress.last,
            taken=progress.taken,
            damaged=progress.damaged[len(known.damaged) if known else 0 :],
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            seam=seam,
            meta=meta,
            rows=[row_of(entries.outlines[at], entries.place(at)) for at in range(first, len(entries))],
        )
        line = _dumped(chunk)
        self._write(line, append=known is not None)
        self._size = len(line) + (self._size if known else 0)
        self._progress, self._rows = progress, len(entries)

    def _is_untouched(self) -> bool:
        """Whether the file still ends where we left it."""
        with suppress(OSError):
            return self._progress is not None and self._path.stat().st_size == self._size
        return False

    def _write(self, line: bytes, *, append: bool) -> None:
        target = self._path if append else self._path.with_name(f".{INDEX}.{os.getpid()}")
        flags = (
            os.O_WRONLY | (os.O_APPEND if append else os.O_CREAT | os.O_TRUNC) | getattr(os, "O_BINARY", 0)
        )
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
                file.write(line)
            if not append:
                target.replace(self._path)
        finally:
            if not append:
                target.unlink(missing_ok=True)


def _is_of(chunk: _Chunk, status: os.stat_result, read: Callable[[Place], bytes]) -> bool:
    """Whether the file is the one the chunk was written about, as it was then or grown since."""
    as_then = (status.st_size, status.st_mtime_ns) == (chunk.size, chunk.mtime_ns)
    return (as_then or status.st_size > chunk.size) and _seam(read, chunk.end) == chunk.seam


def _chunks(path: Path) -> Iterator[tuple[_Chunk, int]]:
    """The chunks that are whole and of this version, each with where it ends."""
    from pydantic_core import from_json

    end = 0
    with os.fdopen(open_regular(path), "rb") as file:
        for line in file:
            end += len(line)
            digest, body = line[2 : 2 + _DIGEST], line[4 + _DIGEST : -2]
            if not line.endswith(b"]\n") or digest != _digest(body):
                return
            content = from_json(body, cache_strings="all")
            if (content["version"], content["estimates"]) != (VERSION, _estimates()):
                return
            yield _Chunk(**{**content, "meta": Meta.model_validate(content["meta"])}), end


def _dumped(chunk: _Chunk) -> bytes:
    content = {field.name: getattr(chunk, field.name) for field in fields(chunk)}
    content["meta"] = chunk.meta.model_dump(mode="json")
    body = json.dumps(content, separators=(",", ":")).encode()
    return b'["%s",%s]\n' % (_digest(body), body)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:_DIGEST].encode()


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
