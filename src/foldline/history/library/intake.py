"""Reads event files for the search index: what was appended since, a piece at a time."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from foldline.context.earlier import original
from foldline.context.matching import fold
from foldline.data import EVENTS
from foldline.files import opened
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
    Revert,
    SessionHeader,
    Title,
    ToolResultMessage,
    UserMessage,
    parse_entry,
    system_words,
)

from ..log import FORMAT_VERSION
from ..meta import TITLE_CELLS, clip_cells, prompt_line
from ..search import LARGEST_NUMBER

ROOTS = ("sessions", "archive")
ARCHIVE = ROOTS[1]

_LONGEST_RECORD = 64 * 2**20
"""Bytes. A longer line is not searched: it would have to be held in memory."""
_LONGEST_HEADER = 2**16
_HEAD, _TAIL = 150_000, 50_000
"""Characters of a longer entry that are searched: what tools return can be a file of any size."""
_MARKED = 4096
"""Bytes before the place up to which a file is known, by which it is known again."""
_RECALL = ("history_search", "history_read")
"""Tools that only repeat what the session says elsewhere."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the index knows of one session, and how far."""

    folder: str
    """Below the data folder: `sessions/<workdir key>/<id>`."""
    name: str = ""
    cwd: str = ""
    title: str = ""
    prompt: str = ""
    """First line of the first thing the user typed."""
    updated: str = ""
    """When its newest entry was written, as ISO 8601."""
    taken: int = 0
    """Bytes of the event file that are in the index."""
    mark: bytes = b""
    """A digest of the last of them."""
    last_index: int = -1
    clipped: int = 0
    """Entries of which only beginning and end are searched."""
    size: int = -1
    """Bytes and time of the event file when it was read to its end; -1 before that."""
    mtime: int = -1


@dataclass(frozen=True, slots=True)
class Said:
    """One entry that can be found."""

    offset: int
    index: int
    kind: str
    text: str
    """Folded."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a session that is not in the index yet."""

    before: Known
    after: Known
    anew: bool
    """Whether what the index holds of this session is of another file, and goes."""
    said: tuple[Said, ...]
    second: int
    """When the newest of it was said, in seconds since 1970."""
    bytes: int
    """Of the event file."""


# --- what there is ----------------------------------------------------------------------------------


def session_files(home: Path) -> dict[str, os.stat_result]:
    """All event files below the data folder, by the folder they are in, but for what cannot be looked into.

    Raises:
        FoldlineError: the folder of all sessions cannot be listed.
    """
    found = {}
    for root in ROOTS:
        try:
            keys = _subfolders(home / root)
        except OSError as error:
            why = system_words(error)
            raise FoldlineError(f"The sessions in {home / root} cannot be listed: {why}.") from None
        for key in keys:
            folders: list[str] = []
            with suppress(OSError):
                folders = _subfolders(home / root / key)
            for folder in folders:
                try:
                    found[f"{root}/{key}/{folder}"] = (home / root / key / folder / EVENTS).stat()
                except OSError:
                    continue  # not a session, or gone in this moment
    return found


def _subfolders(folder: Path) -> list[str]:
    """The folders in it, but for those that are on their way out, and those whose names are no text."""
    try:
        with os.scandir(folder) as items:
            return [item.name for item in items if _is_ours(item.name) and item.is_dir()]
    except FileNotFoundError:
        return []


def is_place(folder: str) -> bool:
    """Whether this may be the folder of a session, below the data folder."""
    root, *names = folder.split("/")
    return root in ROOTS and len(names) == 2 and all(name and _is_ours(name) for name in names)


def is_moment(text: str) -> bool:
    """Whether this is a time as it is kept of a session."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_ours(name: str) -> bool:
    return name[0] != "." and not any("\ud800" <= char <= "\udfff" for char in name)


def changed_at(status: os.stat_result) -> int:
    """When a file was last written to, in ns; what a database cannot hold is the far future."""
    return min(status.st_mtime_ns, LARGEST_NUMBER)


# --- reading on -------------------------------------------------------------------------------------


def read_piece(home: Path, known: Known, most: int, stopped: Callable[[], bool]) -> Piece | None:
    """About `most` bytes of a session from where the index ends; None where it cannot be read.

    Damaged records are left out, as they are in the history. A last line without its end waits for it.
    """
    try:
        with opened(home / known.folder / EVENTS) as file:
            return _piece(file, known, most, stopped)
    except OSError:
        return None


def _piece(file: BinaryIO, known: Known, most: int, stopped: Callable[[], bool]) -> Piece | None:
    status = os.fstat(file.fileno())
    anew = not known.taken or status.st_size < known.taken or _mark(file, known.taken) != known.mark
    now = _begun(file, known.folder) if anew else replace(known, size=-1, mtime=-1)
    if now is None:
        return None
    said: list[Said] = []
    second = 0
    begin = end = now.taken
    file.seek(begin)
    for offset, line in _lines(file, end):
        end = offset + len(line)
        entry = _entry(line)
        if entry is not None and now.last_index < entry.index <= LARGEST_NUMBER:
            now = _told(now, entry)
            second = max(second, int(_zoned(entry.at).timestamp())) if entry.at else second
            kind, text = searched(entry)
            if text:
                said.append(Said(offset, entry.index, kind, fold(text)))
                now = replace(now, clipped=now.clipped + (len(text) > _HEAD + _TAIL))
        if end - begin >= most or stopped():
            break
    else:
        now = replace(now, size=status.st_size, mtime=changed_at(status))
    after = replace(now, taken=end, mark=_mark(file, end))
    return Piece(known, after, anew, tuple(said), second, end - begin)


def _begun(file: BinaryIO, folder: str) -> Known | None:
    """A session of which only the header is known; None where this is not one of ours."""
    file.seek(0)
    line = file.readline(_LONGEST_HEADER)
    try:
        header = SessionHeader.model_validate_json(line)
    except ValidationError:
        return None
    if not line.endswith(b"\n") or not 1 <= header.version <= FORMAT_VERSION:
        return None
    name = folder.rsplit("/", 1)[-1]
    return Known(folder, name, header.cwd, updated=_zoned(header.created_at).isoformat(), taken=len(line))


def _lines(file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines from here on, and where each begins. One too long to be held counts as empty."""
    while line := file.readline(_LONGEST_RECORD):
        if len(line) == _LONGEST_RECORD and not line.endswith(b"\n"):
            while (more := file.readline(2**20)) and not more.endswith(b"\n"):
                pass
            if not more:
                return
            offset = file.tell()
            yield offset, b""
        elif line.endswith(b"\n"):
            yield offset, line
            offset += len(line)
        else:
            return


def _entry(line: bytes) -> Entry | None:
    record = line.strip(b"\0 \t\r\n")
    if not record:
        return None
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        return None


def _mark(file: BinaryIO, place: int) -> bytes:
    file.seek(max(0, place - _MARKED))
    return hashlib.blake2b(file.read(min(place, _MARKED)), digest_size=16).digest()


def _told(known: Known, entry: Entry) -> Known:
    """What the index knows of a session once it has seen this entry, too."""
    updated = _zoned(entry.at).isoformat() if entry.at else known.updated
    known = replace(known, last_index=entry.index, updated=updated)
    match entry:
        case Title():
            return replace(known, title=clip_cells(entry.title, TITLE_CELLS) or known.title)
        case UserMessage(origin="typed") if not known.prompt:
            return replace(known, prompt=prompt_line(entry))
        case _:
            return known


def _zoned(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# --- what is searched -------------------------------------------------------------------------------


def searched(entry: Entry) -> tuple[str, str]:
    """An entry's kind, and what of it can be found; empty where nothing. A fold's summary only repeats."""
    match entry:
        case Title():
            return entry.type, entry.title
        case ToolResultMessage() if entry.name in _RECALL:
            return entry.type, ""
        case UserMessage() | AssistantMessage() | ToolResultMessage() | Revert():
            return entry.type, _clipped(original(entry, without_calls=_RECALL) or "")
        case _:
            return entry.type, ""


def _clipped(text: str) -> str:
    """Beginning and end of a long text. Its lines keep their numbers."""
    if len(text) <= _HEAD + _TAIL:
        return text
    left_out = text.count("\n", _HEAD, len(text) - _TAIL)
    return text[:_HEAD] + "\n" * max(1, left_out) + text[-_TAIL:]


def entry_at(file: BinaryIO, offset: int) -> Entry | None:
    """The entry of the record that begins there; None where none does any more."""
    file.seek(offset)
    return _entry(file.readline(_LONGEST_RECORD))
