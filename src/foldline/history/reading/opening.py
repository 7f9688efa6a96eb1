"""Opening a session file: where its entries stand, and their outlines; from its index where there is one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from foldline.files import open_regular
from foldline.protocol import SessionHeader

from ..log import Damage, Log, cannot_be_read, parse_header
from ..meta import Describer
from .index import LEAST, Index
from .lines import LineReader, Progress
from .records import Records
from .stored import StoredEntries

_AT_A_TIME = 1024 * 1024

_listener: ContextVar[Callable[[float], None]] = ContextVar("_listener", default=lambda share: None)


@contextmanager
def heard(listener: Callable[[float], None]) -> Iterator[None]:
    """Within it, `listener` is told in this thread what share of a session file is read, each megabyte.

    Whoever waits is many calls away from where files are read; nobody between them has a use for it.
    """
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
    """What `read_log` finds, with little of it in memory. Never writes to the history.

    A file of `index_from` bytes gets an index beside it, where it has none.

    Raises:
        FoldlineError: there is no such file, it cannot be read, or it is not a session of ours.
    """
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
    size, told, upto = os.fstat(file.fileno()).st_size, since, since
    try:
        for line in lines:
            yield line
            upto += len(line)
            if upto - told >= _AT_A_TIME:
                told = upto
                _listener.get()(min(1.0, upto / size))  # it may have grown
    finally:
        lines.detach()
