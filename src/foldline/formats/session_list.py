"""Lists other agents' sessions.

Only the beginning and the end of each file are read.

The agent's reader is applied to this excerpt to find the title, folder, first prompt and model. The time
needed therefore does not depend on the size of the file.
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
from foldline.formats.readers.kimi_cli.reader import rotations
from foldline.history.catalog import file_time
from foldline.history.meta import TITLE_CELLS, Meta, describe
from foldline.protocol import FoldlineError, system_words
from foldline.text.shorten import clip_cells

from .base import EPOCH, ForeignSession
from .detection import FOREIGN, Format
from .homes import AGENT_FOLDERS, AGENTS, AgentFolders
from .neighbours import Neighbours

# --- excerpts -----------------------------------------------------------------------------------------

_STEPS: Final = (32 * 1024, 192 * 1024, 1024 * 1024)
"""Sizes of excerpts from the beginning of a file, in bytes.

If an excerpt contains no prompt, the next size is tried. The first is enough for most sessions. Others begin
with long instructions or a pasted image.
"""
_TAIL: Final = 24 * 1024
"""Size of the excerpt from the end of a file, in bytes.

This part contains the newest title and the newest answer.
"""


def excerpts(path: Path, begins_in: Path | None = None) -> Iterator[bytes]:
    """Yield excerpts of increasing length.

    An excerpt consists of whole lines from the beginning and the end of the file.

    Args:
        begins_in: another file, if it contains the beginning of the session.

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
    """Return the last whole lines that begin at byte offset `after` or later."""
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
"""The year 2100 in milliseconds since 1970. Later times are clamped to this value."""
_WHOLE: Final = 4_000_000
"""Maximum size of a JSON document that is read as a whole, in bytes.

Only excerpts of larger documents are read.
"""
_DAMAGED: Final = "Damaged records were left out."
"""The note for a damaged file.

It contains no line numbers, because those in an excerpt differ from those in the file.
"""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """One row of the list.

    `--json` prints the fields in this order.
    """

    id: str
    agent: Format
    title: str
    """The agent's own title or, if there is none, the first prompt.

    Empty if there is no prompt near the beginning.
    """
    cwd: str
    path: Path
    size: int
    """Size of the file in bytes; 0 for a session in a database."""
    updated_at: datetime
    first_prompt: str = ""
    model: str = ""
    note: str = ""
    """A description of a problem with the file, as a sentence."""


def found_sessions(
    agents: Sequence[str] = AGENTS, cwd: Path | None = None, limit: int | None = None
) -> list[FoundSession]:
    """List the sessions of these agents, newest first.

    Damaged and unreadable files are listed with a note.

    Args:
        cwd: working folder of the sessions. By default, the sessions of all folders are listed.
        limit: the maximum number of sessions to return.
    """
    neighbours = Neighbours()
    here = _FolderFilter(cwd) if cwd else None
    sessions: list[FoundSession] = []
    places = [folders for folders in AGENT_FOLDERS if folders.agent in agents]
    files = sorted(
        _files(places), key=lambda file: (file.mtime, str(file.path)), reverse=True
    )
    for file in files:
        if limit is not None and len(sessions) >= limit:
            break
        session = _described(file, neighbours, here)
        if session is not None and (here is None or here.is_it(session.cwd)):
            sessions.append(session)
    sessions += [
        session
        for session in _stored(places)
        if here is None or here.is_it(session.cwd) or session.note
    ]
    sessions.sort(key=lambda session: session.updated_at, reverse=True)
    return sessions[:limit]


@dataclass(frozen=True, slots=True)
class _SessionFile:
    folders: AgentFolders
    path: Path
    size: int
    mtime: float


def _files(places: Sequence[AgentFolders]) -> Iterator[_SessionFile]:
    for folders in places:
        for path in folders.files():
            try:
                status = path.stat()
            except OSError:
                continue  # deleted in the meantime, or a broken link
            if S_ISREG(status.st_mode):
                yield _SessionFile(folders, path, status.st_size, status.st_mtime)


def _stored(places: Sequence[AgentFolders]) -> Iterator[FoundSession]:
    for folders in places:
        try:
            for session in folders.stored():
                if session.parent:
                    continue  # a subagent's session
                updated = datetime.fromtimestamp(
                    min(session.updated, _LATEST) / 1000, UTC
                )
                yield FoundSession(
                    session.id,
                    folders.agent,
                    session.title,
                    session.cwd,
                    session.path,
                    0,
                    updated,
                )
        except FoldlineError as error:
            folder = folders.folders()[0]
            yield FoundSession(
                folder.name,
                folders.agent,
                "",
                "",
                folder,
                0,
                EPOCH,
                note=str(error),
            )


class _FolderFilter:
    """Compares recorded folders with one folder.

    Symbolic links are resolved before the comparison.
    """

    def __init__(self, folder: Path) -> None:
        self._real = real_path(folder)
        self._known = {self._real: True, str(folder): True, "": False}

    def is_it(self, recorded: str) -> bool:
        if recorded not in self._known:
            try:
                self._known[recorded] = real_path(recorded) == self._real
            except OSError:  # the path is invalid or cannot be accessed
                self._known[recorded] = False
        return self._known[recorded]

    def may_be_in(self, excerpt: bytes) -> bool:
        """Return whether any record in an excerpt mentions the folder."""
        return any(map(self._is_quoted, _CWD.findall(excerpt)))

    def _is_quoted(self, text: bytes) -> bool:
        try:
            return self.is_it(str(json.loads(text)))
        except ValueError:
            return False


def _described(
    file: _SessionFile, neighbours: Neighbours, here: _FolderFilter | None
) -> FoundSession | None:
    """Return the row for a file.

    Returns None if the file does not belong in the list.
    """
    folders = file.folders
    path = file.path
    session_id = folders.id_of(path)
    stored = neighbours.of(folders.agent, path, session_id)
    meta = Meta(id=session_id, cwd="", created_at=EPOCH, updated_at=EPOCH)
    note = ""
    try:
        for excerpt in _excerpts_of(file):
            mark = folders.subagent_mark
            if stored.by_agent or (mark and mark in excerpt.partition(b"\n")[0]):
                return None
            if (
                here is not None
                and not here.is_it(stored.cwd)
                and not here.may_be_in(excerpt)
            ):
                return None
            session = _read(folders, excerpt, path)
            meta = describe(session.header, session.entries)
            note = _DAMAGED if session.damage else ""
            if meta.first_prompt:
                break
    except FoldlineError as error:
        note = (
            str(error).replace(str(_alone(path)), str(path))
            if file.size
            else f"{path} is empty."
        )
    except OSError as error:
        note = f"{path} cannot be read: {system_words(error)}."
    return FoundSession(
        agent=folders.agent,
        id=session_id,
        path=path,
        size=file.size,
        updated_at=file_time(file.mtime),
        cwd=meta.cwd or stored.cwd,
        title=clip_cells(stored.title, TITLE_CELLS) or meta.title,
        first_prompt=meta.first_prompt,
        model=meta.model,
        note=note,
    )


def _excerpts_of(file: _SessionFile) -> Iterator[bytes]:
    path = file.path
    if path.suffix == ".json" and file.size <= _WHOLE:
        yield read_regular(path)
    elif path.name == "context.jsonl":
        # kimi-cli has the beginning in another file, the oldest state of the context.
        yield from excerpts(path, next(iter(rotations(path)), None))
    else:
        yield from excerpts(path)


def _read(folders: AgentFolders, excerpt: bytes, path: Path) -> ForeignSession:
    """Apply the agent's reader to an excerpt.

    The session's other files are not read.
    """
    reads_neighbours = folders.agent in ("claude-code", "codex", "kimi-cli")
    reader = next(foreign for foreign in FOREIGN if foreign.name == folders.agent)
    return reader.read(excerpt, _alone(path) if reads_neighbours else path)


def _alone(path: Path) -> Path:
    """Return a path with the same name in a folder that does not exist."""
    return Path(os.devnull, path.parent.name, path.name)
