"""The sessions that lie in other agents' folders: listing them lightly, and finding one by its id."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

from foldline.data import real_path
from foldline.files import read_regular
from foldline.history.catalog.listing import file_time
from foldline.history.meta import TITLE_CELLS, Meta, clip_cells, describe
from foldline.protocol import FoldlineError, system_words

from ..base import ForeignSession, Json, as_text
from ..known import FOREIGN, Format
from .beside import Beside, Neighbours
from .excerpt import excerpts
from .places import AGENTS, PLACES, Place, begins_in, place_of

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
"""A folder in a record, as JSON."""
_NAMED = 4
"""How many of several sessions an error names."""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """One line of a list of another agent's sessions, from the beginning and the end of its file."""

    agent: Format
    id: str
    path: Path
    size: int
    """Of the file, in bytes; 0 where it has none of its own."""
    updated_at: datetime
    """When it was last written to."""
    cwd: str = ""
    title: str = ""
    """The agent's own, else the first prompt; empty where nothing was typed near the beginning."""
    first_prompt: str = ""
    model: str = ""
    note: str = ""
    """What is wrong with the file; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class _File:
    place: Place
    path: Path
    size: int
    mtime: float


def found_sessions(
    agents: Sequence[str], cwd: Path | None = None, limit: int | None = None
) -> list[FoundSession]:
    """The sessions of these agents, of one working folder or of all, the one last written to first.

    Only reads, and little of each file. What is torn or foreign is listed with a note, and fails nothing;
    the sessions of sub-agents are left out.
    """
    files = sorted(_files(agents), key=lambda file: (file.mtime, str(file.path)), reverse=True)
    neighbours, here = Neighbours(), _Here(cwd) if cwd else None
    found: list[FoundSession] = []
    for file in files:
        if limit is not None and len(found) >= limit:
            break
        session = _described(file, neighbours, here)
        if session is not None and (here is None or here.is_it(session.cwd)):
            found.append(session)
    found += [row for row in _stored(agents) if here is None or here.is_it(row.cwd) or row.note]
    return sorted(found, key=lambda session: session.updated_at, reverse=True)[:limit]


def find_found(ref: str) -> Path:
    """The file of the session that `AGENT:ID` names; the beginning or the end of an id will do.

    Raises:
        FoldlineError: no session, or more than one, answers to that.
    """
    agent, _, wanted = ref.partition(":")
    place = place_of(agent)
    if place is None:
        raise FoldlineError(
            f"There is no agent {agent!r}: Foldline knows the folders of {', '.join(AGENTS)}."
        )
    ids = place.ids()
    answering = [
        path for path, name in ids.items() if wanted and (name.startswith(wanted) or name.endswith(wanted))
    ]
    exact = [path for path in answering if ids[path] == wanted]
    match exact or answering:
        case [path]:
            return path
        case []:
            raise FoldlineError(
                f"There is no session {ref!r}: `foldline sessions --from {agent} --all` lists the ids."
            )
        case several:
            names = ", ".join(sorted(ids[path] for path in several)[:_NAMED])
            more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
            raise FoldlineError(
                f"{len(several)} sessions answer to {ref!r}: {names}{more}; say more of the id."
            )


def _files(agents: Sequence[str]) -> Iterator[_File]:
    for place in PLACES:
        for path in place.files() if place.agent in agents else ():
            try:
                status = path.stat()
            except OSError:
                continue  # gone since, or a link to nowhere
            if S_ISREG(status.st_mode):
                yield _File(place, path, status.st_size, status.st_mtime)


def _stored(agents: Sequence[str]) -> Iterator[FoundSession]:
    """The sessions in stores that say themselves what they hold."""
    for place in PLACES:
        if place.agent not in agents:
            continue
        try:
            for one in place.stored():
                if not one.parent:
                    updated = datetime.fromtimestamp(min(one.updated, _LATEST) / 1000, UTC)
                    yield FoundSession(place.agent, one.id, one.path, 0, updated, one.cwd, one.title)
        except FoldlineError as error:
            folder = place.folders()[0]
            yield FoundSession(place.agent, folder.name, folder, 0, _EPOCH, note=str(error))


class _Here:
    """Tells whether a recorded folder is this one, links followed."""

    def __init__(self, folder: Path) -> None:
        self._real = real_path(folder)
        self._known = {self._real: True, str(folder): True, "": False}

    def is_it(self, recorded: str) -> bool:
        if recorded not in self._known:
            self._known[recorded] = self._leads_here(recorded)
        return self._known[recorded]

    def _leads_here(self, recorded: str) -> bool:
        try:
            return real_path(recorded) == self._real
        except OSError:  # no file system has such a path, or it may not be followed
            return False

    def may_be_in(self, excerpt: bytes) -> bool:
        """Whether any record names it: what spares a reader the sessions of all other folders."""
        return any(self.is_it(as_text(_text(found))) for found in _CWD.findall(excerpt))


def _text(quoted: bytes) -> Json:
    try:
        return json.loads(quoted)
    except ValueError:
        return None


# --- one session ------------------------------------------------------------------------------------


def _described(file: _File, neighbours: Neighbours, here: _Here | None) -> FoundSession | None:
    """What a list shows of a file; None where it is a sub-agent's, or cannot be of the folder asked for."""
    place, path = file.place, file.path
    session_id = place.id_of(path)
    beside = neighbours.of(place.agent, path, session_id)
    meta, note = Meta(id=session_id, cwd="", created_at=_EPOCH, updated_at=_EPOCH), ""
    try:
        whole = path.suffix == ".json" and file.size <= _WHOLE
        for excerpt in [read_regular(path)] if whole else excerpts(path, place.marks, begins_in(path)):
            if beside.by_agent or (place.by_agent and place.by_agent in excerpt.partition(b"\n")[0]):
                return None
            if here is not None and not here.is_it(beside.cwd) and not here.may_be_in(excerpt):
                return None
            read = _read(place, excerpt, path)
            meta, note = describe(read.header, read.entries), _DAMAGED if read.damage else ""
            if meta.first_prompt:
                break
    except FoldlineError as error:
        note = str(error) if file.size else f"{path} is empty."
    except OSError as error:
        note = f"{path} cannot be read: {system_words(error)}."
    return _row(file, session_id, meta, beside, note)


def _read(place: Place, excerpt: bytes, path: Path) -> ForeignSession:
    """What the reader says of these lines. It is not to read what comes before them in other files."""
    goes_on = place.agent in ("codex", "kimi-cli")
    alone = Path(os.devnull, path.parent.name, path.name) if goes_on else path
    reader = next(known for known in FOREIGN if known.name == place.agent)
    return reader.read(excerpt, alone)


def _row(file: _File, session_id: str, meta: Meta, beside: Beside, note: str) -> FoundSession:
    return FoundSession(
        agent=file.place.agent,
        id=session_id,
        path=file.path,
        size=file.size,
        updated_at=file_time(file.mtime),
        cwd=meta.cwd or beside.cwd,
        title=clip_cells(beside.title, TITLE_CELLS) or meta.title,
        first_prompt=meta.first_prompt,
        model=meta.model,
        note=note,
    )


_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST = 4_102_444_800_000
"""The year 2100, in milliseconds since 1970: later moments are no moments."""
_WHOLE = 4_000_000
"""Bytes up to which a session that is one document is read whole: no piece of one can be."""
_DAMAGED = "Damaged records are left out."
"""Which ones is not known here: an excerpt has other lines than its file."""
