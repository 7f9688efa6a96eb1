"""What a list shows of a session, from its history, where the snapshot is missing or of an earlier state."""

from contextlib import suppress
from pathlib import Path

from foldline.files import opened
from foldline.history.reading.records import uncollected
from foldline.protocol import FoldlineError

from ..log import LoadedLog, parse_log, read_log
from ..meta import Describer, Meta, describe
from ..reading.index import LEAST
from ..reading.opening import open_file


def rebuilt(events: Path, earlier: Meta | None) -> Meta:
    """The description of an event file. After an `earlier` one, only what was appended since is read.

    Raises:
        FoldlineError: there is no such file, it cannot be read, or it is not a session of ours.
    """
    caught_up = _caught_up(events, earlier) if earlier is not None else None
    if caught_up is not None:
        return caught_up
    return _of_a_large(events) or _of_all(events)


def _of_a_large(events: Path) -> Meta | None:
    """By its index, which is made where there is none: who lists a session mostly opens it next."""
    with suppress(OSError):
        if events.stat().st_size >= LEAST:
            with uncollected():
                opened = open_file(events)
            return opened.describer.meta(opened.log.size, str(opened.damage))
    return None


def _of_all(events: Path) -> Meta:
    loaded = read_log(events)
    return describe(loaded.header, loaded.entries, loaded.size, str(loaded.damage))


def _caught_up(events: Path, earlier: Meta) -> Meta | None:
    """None where only the whole history tells: there is damage, whose lines are to be counted, or it is not
    the file that was described."""
    if earlier.note or not earlier.size:
        return None
    appended = _appended(events, earlier.size)
    if appended is None or appended.damage or appended.header.id != earlier.id:
        return None
    describer = Describer.after(appended.header, earlier)
    for entry in appended.entries:
        describer.add(entry)
    return describer.meta(appended.size)


def _appended(events: Path, size: int) -> LoadedLog | None:
    """The header, and what stands behind the first `size` bytes; its `size` is that of the whole file."""
    try:
        with opened(events) as file:
            header = file.readline()
            file.seek(max(size - 1, len(header) - 1))
            line_end, tail = file.read(1), file.read()
            whole = file.tell()
        loaded = parse_log(header + tail, events)
    except (OSError, FoldlineError):
        return None  # reading all of it says why
    if line_end != b"\n" or len(header) > size:
        return None
    return LoadedLog(loaded.header, loaded.entries, loaded.damage, loaded.last_index, whole, loaded.torn)
