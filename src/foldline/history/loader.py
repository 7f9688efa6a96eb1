"""Opens a session file.

Cached outlines are used. Only the rest of the log is parsed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from foldline.files import open_regular
from foldline.protocol import SessionHeader

from .log import Damage, EventLog, LineReader, Progress, cannot_be_read, parse_header
from .meta import Describer
from .outline_cache import SMALLEST_LOG, OutlineCache
from .stored import Records, StoredEntries

_BUFFER = 1024 * 1024
"""Number of bytes that are read at a time.

Progress is reported after each of these reads.
"""

_listener: ContextVar[Callable[[float], None]] = ContextVar(
    "_listener", default=lambda share: None
)


@contextmanager
def on_read_progress(listener: Callable[[float], None]) -> Iterator[None]:
    """Report the progress of reading session files.

    Only reads inside the `with` block and in the same thread are reported. A context variable is used, so
    that the many functions between the caller and the reading loop do not need a parameter.

    Args:
        listener: called after each megabyte with the fraction of the file that has been read, from 0 to 1.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """An open session file, for reading and appending."""

    header: SessionHeader
    entries: StoredEntries
    log: EventLog
    damage: Damage
    describer: Describer
    cache: OutlineCache


def open_file(path: Path, *, cache_from: int = SMALLEST_LOG) -> OpenedFile:
    """Open a session file without keeping its text in memory.

    The log is never written to. The entries are the same as those returned by `read_log`.

    Args:
        cache_from: minimum size, in bytes, of a log whose outlines are cached.

    Raises:
        FoldlineError: the file cannot be read, or is not a session file.
    """
    try:
        file = FileIO(open_regular(path), "rb")
        records = Records(path, file)
        return _load(path, file, records, OutlineCache(path, smallest_log=cache_from))
    except OSError as error:
        raise cannot_be_read(path, error) from None


def _load(
    path: Path, file: FileIO, records: Records, cache: OutlineCache
) -> OpenedFile:
    first_line = next(_lines(file, 0), b"")
    header = parse_header(first_line.rstrip(b"\n"), path)
    entries = StoredEntries(records)
    cached = cache.load(file)
    if cached is None:
        describer = Describer(header)
        start = Progress(upto=len(first_line), lines=1)
    else:
        entries.extend(cached.outlines, cached.places)
        describer = Describer(header, cached.stamp.meta)
        start = cached.stamp.progress
    reader = LineReader(start)

    def take(line: bytes) -> None:
        located = reader.take(line)
        if located is not None:
            entries.add_read(located.entry, located.place)
            describer.add(located.entry)

    torn_line = b""
    for line in _lines(file, start.upto):
        if not line.endswith(b"\n"):
            torn_line = line
            break
        take(line)
    # Leave out an incomplete last line. Otherwise each opening would parse the whole log until an append.
    cache.save(entries, len(entries), reader.progress, describer.meta())
    if torn_line:
        take(torn_line)
    progress = reader.progress
    is_torn = bool(torn_line) or not first_line.endswith(b"\n")
    log = EventLog(path, header, read=progress, torn=is_torn)
    return OpenedFile(
        header=header,
        entries=entries,
        log=log,
        damage=Damage(progress.damaged),
        describer=describer,
        cache=cache,
    )


def _lines(file: FileIO, start: int) -> Iterator[bytes]:
    """Yield the lines from byte `start` onward, and report the progress."""
    file.seek(start)
    size = os.fstat(file.fileno()).st_size
    position = start
    reported = start
    lines = BufferedReader(file, _BUFFER)
    try:
        for line in lines:
            yield line
            position += len(line)
            if position - reported >= _BUFFER:
                reported = position
                _listener.get()(min(1.0, position / size))  # the file may have grown
    finally:
        lines.detach()
