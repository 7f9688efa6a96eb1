"""A list of other agents' sessions. Only the beginning and the end of each file are read.

A format's reader runs on such an excerpt as on a whole file, so title, folder, first prompt and model are the
reader's own. A file may be of any size: an excerpt costs the same.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from foldline.data import real_path
from foldline.files import opened, read_regular
from foldline.history.catalog import file_time
from foldline.history.meta import TITLE_CELLS, Meta, clip_cells, describe
from foldline.protocol import FoldlineError, system_words

from .base import EPOCH, ForeignSession
from .detection import FOREIGN, Format
from .homes import AGENT_FOLDERS, AGENTS, AgentFolders
from .neighbours import Neighbours
from .readers.kimi_cli.reader import rotations

# --- excerpts -----------------------------------------------------------------------------------------

_STEPS: Final = (32 * 1024, 192 * 1024, 1024 * 1024)
"""Bytes of the beginning that are searched for the first prompt. The first step does for most sessions;
others open with long instructions or a pasted image."""
_TAIL: Final = 24 * 1024
"""Bytes of the end, which holds the newest title and the newest answer."""


def excerpts(path: Path, begins_in: Path | None = None) -> Iterator[bytes]:
    """Yield ever longer excerpts: whole lines of beginning and end.

    Args:
        begins_in: another file, if that holds the beginning of the session.

    Raises:
        OSError: a file cannot be read.
    """
    with opened(begins_in or path) as first, opened(path) as file:
        size = os.fstat(first.fileno()).st_size
        for reach in _STEPS:
            first.seek(0)
            head = first.read(reach)
            is_whole = len(head) >= size
            if not is_whole:
                head = head[: head.rfind(b"\n") + 1]
            if head or is_whole or reach == _STEPS[-1]:
                tail = _last_lines(file, after=0 if begins_in else len(head))
                yield head.removesuffix(b"\n") + b"\n" + tail
            if is_whole:
                break


def _last_lines(file: BinaryIO, after: int) -> bytes:
    """Return the last whole lines that begin at byte `after` or later."""
    size = os.fstat(file.fileno()).st_size
    start = max(after, size - _TAIL)
    file.seek(start)
    tail = file.read()
    if start in (0, after):
        return tail
    return tail.partition(b"\n")[2]


# --- a list -------------------------------------------------------------------------------------------

_CWD: Final = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_LATEST: Final = 4_102_444_800_000
"""The year 2100, in milliseconds since 1970: later times are clamped."""
_WHOLE: Final = 4_000_000
"""Bytes: a session that is one JSON document is read whole up to this size."""
_DAMAGED: Final = "Damaged records are left out."
"""Without their line numbers: an excerpt has other lines than its file."""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """One row of the list. `--json` prints these fields in this order."""

    id: str
    agent: Format
    title: str
    """The agent's own, or the first prompt; empty without a prompt near the beginning."""
    cwd: str
    path: Path
    size: int
    """Of the file, in bytes; 0 for a session in a database."""
    updated_at: datetime
    first_prompt: str = ""
    model: str = ""
    note: str = ""
    """A problem with the file, as a sentence."""


def found_sessions(
    agents: Sequence[str] = AGENTS, cwd: Path | None = None, limit: int | None = None
) -> list[FoundSession]:
    """List the sessions of these agents, newest first.

    Damaged and unreadable files are listed with a note.

    Args:
        cwd: only sessions of this working folder.
        limit: most sessions to return.
    """
    neighbours = Neighbours()
    here = _WorkingFolder(cwd) if cwd else None
    sessions: list[FoundSession] = []
    places = [folders for folders in AGENT_FOLDERS if folders.agent in agents]
    for file in sorted(_files(places), key=lambda file: (file.mtime, str(file.path)), reverse=True):
        if limit is not None and len(sessions) >= limit:
            break
        session = _described(file, neighbours, here)
        if session is not None and (here is None or here.is_it(session.cwd)):
            sessions.append(session)
    stored = _stored(places)
    sessions += [session for session in stored if here is None or here.is_it(session.cwd) or session.note]
    return sorted(sessions, key=lambda session: session.updated_at, reverse=True)[:limit]


@dataclass(frozen=True, slots=True)
class _File:
    folders: AgentFolders
    path: Path
    size: int
    mtime: float


def _files(places: Sequence[AgentFolders]) -> Iterator[_File]:
    for folders in places:
        for path in folders.files():
            try:
                status = path.stat()
            except OSError:
                continue  # deleted since, or a broken link
            if S_ISREG(status.st_mode):
                yield _File(folders, path, status.st_size, status.st_mtime)


def _stored(places: Sequence[AgentFolders]) -> Iterator[FoundSession]:
    for folders in places:
        try:
            for session in folders.stored():
                if session.parent:
                    continue  # a subagent's
                updated = datetime.fromtimestamp(min(session.updated, _LATEST) / 1000, UTC)
                title, cwd = session.title, session.cwd
                yield FoundSession(session.id, folders.agent, title, cwd, session.path, 0, updated)
        except FoldlineError as error:
            folder = folders.folders()[0]
            yield FoundSession(folder.name, folders.agent, "", "", folder, 0, EPOCH, note=str(error))


class _WorkingFolder:
    """Compares recorded folders with one folder, links followed."""

    def __init__(self, folder: Path) -> None:
        self._real = real_path(folder)
        self._known = {self._real: True, str(folder): True, "": False}

    def is_it(self, recorded: str) -> bool:
        if recorded not in self._known:
            try:
                self._known[recorded] = real_path(recorded) == self._real
            except OSError:  # no file system has such a path, or it may not be followed
                self._known[recorded] = False
        return self._known[recorded]

    def may_be_in(self, excerpt: bytes) -> bool:
        """Return whether any record names the folder."""
        return any(map(self._is_quoted, _CWD.findall(excerpt)))

    def _is_quoted(self, text: bytes) -> bool:
        try:
            return self.is_it(str(json.loads(text)))
        except ValueError:
            return False


def _described(file: _File, neighbours: Neighbours, here: _WorkingFolder | None) -> FoundSession | None:
    """Return the row for a file, if it belongs in the list."""
    folders = file.folders
    path = file.path
    session_id = folders.id_of(path)
    beside = neighbours.of(folders.agent, path, session_id)
    meta = Meta(id=session_id, cwd="", created_at=EPOCH, updated_at=EPOCH)
    note = ""
    try:
        for excerpt in _excerpts_of(file):
            mark = folders.subagent_mark
            if beside.by_agent or (mark and mark in excerpt.partition(b"\n")[0]):
                return None
            if here is not None and not here.is_it(beside.cwd) and not here.may_be_in(excerpt):
                return None
            session = _read(folders, excerpt, path)
            meta = describe(session.header, session.entries)
            note = _DAMAGED if session.damage else ""
            if meta.first_prompt:
                break
    except FoldlineError as error:
        note = str(error).replace(str(_alone(path)), str(path)) if file.size else f"{path} is empty."
    except OSError as error:
        note = f"{path} cannot be read: {system_words(error)}."
    return FoundSession(
        agent=folders.agent,
        id=session_id,
        path=path,
        size=file.size,
        updated_at=file_time(file.mtime),
        cwd=meta.cwd or beside.cwd,
        title=clip_cells(beside.title, TITLE_CELLS) or meta.title,
        first_prompt=meta.first_prompt,
        model=meta.model,
        note=note,
    )


def _excerpts_of(file: _File) -> Iterator[bytes]:
    path = file.path
    if path.suffix == ".json" and file.size <= _WHOLE:
        yield read_regular(path)
    elif path.name == "context.jsonl":  # kimi-cli: the beginning is in the oldest state, another file
        yield from excerpts(path, next(iter(rotations(path)), None))
    else:
        yield from excerpts(path)


def _read(folders: AgentFolders, excerpt: bytes, path: Path) -> ForeignSession:
    """Run the agent's reader on these lines alone."""
    reads_neighbours = folders.agent in ("claude-code", "codex", "kimi-cli")
    reader = next(known for known in FOREIGN if known.name == folders.agent)
    return reader.read(excerpt, _alone(path) if reads_neighbours else path)


def _alone(path: Path) -> Path:
    """Return a path of this name in a missing folder."""
    return Path(os.devnull, path.parent.name, path.name)
