"""All sessions on this machine: listing them, and finding one by what people type."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from foldline.data import EVENTS, archive_dir, sessions_dir, typed_path
from foldline.files import is_file, read_regular
from foldline.protocol import FoldlineError, SessionHeader, system_words

from ..log import cannot_be_read, parse_header
from ..meta import Meta
from ..paths import workdir_key
from .ages import file_time
from .folders import Folder, Tie
from .rebuilding import rebuilt
from .snapshot import read_snapshot, save_snapshot

_CLOCKS_APART = timedelta(days=1)
"""What two machines that share their sessions, and their time zones, may differ by."""
_HEADER_BYTES = (4 * 1024, 1024 * 1024)
"""What is read for a header: enough for any of ours, and for any at all."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of a list of sessions."""

    path: Path
    """The session's event file."""
    meta: Meta
    tie: Tie = "path"
    """What ties it to the folder that was asked for."""
    archived: bool = False

    @property
    def id(self) -> str:
        """The name of its folder: what `find_session` finds it by, also where its header says otherwise."""
        return self.path.parent.name

    @property
    def readable(self) -> bool:
        """Whether it can be opened; where not, `meta.note` says why."""
        return bool(self.meta.cwd)

    @property
    def moved_from(self) -> str:
        """The folder it was held in, where that is not the one it is listed for; else empty."""
        return "" if self.tie == "path" else self.meta.cwd


def list_sessions(
    home: Path, cwd: Path | str | None = None, *, archived: bool = False, now: datetime | None = None
) -> list[SessionInfo]:
    """The sessions of one working folder, or all, the one last written to first; or those that were archived.

    To a folder belong also the sessions that were held in it at another path, and, marked as a guess, those
    of a folder that is gone and had its name. What is damaged or cannot be read is listed with a note, and
    fails nothing. No history is touched; a snapshot that was missing is made. Sessions of the future, which
    a clock that was wrong has left, come last: nobody continues one of them by mistake.

    Raises:
        FoldlineError: the folder of all sessions cannot be listed.
    """
    root = archive_dir(home) if archived else sessions_dir(home)
    infos = [info for found in _found(root, cwd) if (info := _info(found, archived))]
    believed = (now or datetime.now(UTC)) + _CLOCKS_APART
    return sorted(
        infos,
        key=lambda info: (info.meta.updated_at <= believed, info.meta.updated_at, info.id),
        reverse=True,
    )


def latest(home: Path, cwd: Path | str) -> SessionInfo | None:
    """The session of this folder that was last written to; None where none can be opened.

    Sessions that only a folder's name ties to this one count where there are no others. One that was imported
    from another folder counts once something was said in it here: whoever wrote it chose the folder it names.

    Raises:
        FoldlineError: they were held in several folders, so that nobody can say which is meant.
    """
    infos = [info for info in list_sessions(home, cwd) if info.readable and not info.meta.imported]
    sure = next((info for info in infos if info.tie != "name"), None)
    guesses = sorted({info.meta.cwd for info in infos})
    if sure is None and len(guesses) > 1:
        raise FoldlineError(
            f"Sessions of {len(guesses)} folders of this name could be meant, and all of these are gone: "
            f"{_some(guesses)}. `foldline sessions` lists them, `foldline -r ID` resumes one."
        )
    return sure or next(iter(infos), None)


def find_session(home: Path, ref: str) -> Path:
    """The event file of a session, by its id, the beginning or end of its id, or a path to it.

    Ids find archived sessions, too.

    Raises:
        FoldlineError: no session, or more than one, answers to that.
    """
    for path in (typed_path(ref), typed_path(ref) / EVENTS):
        if ref and is_file(path):
            return path
    found = [events for events in _kept(home) if _answers(events.parent.name, ref)]
    exact = [events for events in found if events.parent.name == ref]
    match exact or found:
        case [events] if exact or len(ref) >= _LEAST_OF_AN_ID:
            return events
        case [_]:
            raise FoldlineError(f"{ref!r} is too little: say at least {_LEAST_OF_AN_ID} characters of an id.")
        case []:
            raise FoldlineError(f"There is no session {ref!r}: `foldline sessions --all` lists the ids.")
        case several:
            alike = len({events.parent.name for events in several}) < len(several)
            names = sorted(str(events.parent) if alike else events.parent.name for events in several)
            more = "name one by its folder" if alike else "say more of the id"
            raise FoldlineError(f"{len(several)} sessions answer to {ref!r}: {_some(names)}; {more}.")


def info_of(home: Path, path: Path) -> SessionInfo:
    """What a list shows of the session with this event file.

    Raises:
        FoldlineError: it is gone.
    """
    info = _info(_Found(str(path)), path.is_relative_to(archive_dir(home)))
    if info is None:
        raise FoldlineError(f"There is no session file {path}.")
    return info


def read_header(path: Path) -> SessionHeader:
    """The header of an event file, without reading what comes behind it.

    Raises:
        FoldlineError: it cannot be read, or is not a session of ours.
    """
    line = b""
    for most in _HEADER_BYTES:
        try:
            line, line_end, _ = read_regular(path, most).partition(b"\n")
        except OSError as error:
            raise cannot_be_read(path, error) from None
        if line_end:
            break
    return parse_header(line, path)


_LEAST_OF_AN_ID = 3
"""Characters that name a session: a mere digit is more likely the number of a row."""


def _answers(session_id: str, ref: str) -> bool:
    return bool(ref) and (session_id.startswith(ref) or session_id.endswith(ref))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


# --- folders on disk --------------------------------------------------------------------------------


class _Found(NamedTuple):
    """A place where a session is."""

    events: str
    tie: Tie = "path"
    problem: str = ""
    """Why its folder cannot be looked into; then it may be the place of several."""


def _kept(home: Path) -> Iterator[Path]:
    """The event files of all sessions, archived ones included."""
    for root in (sessions_dir(home), archive_dir(home)):
        for found in _found(root, None):
            if is_file(found.events):
                yield Path(found.events)


def _found(root: Path, cwd: Path | str | None) -> Iterator[_Found]:
    """What below `root` belongs to a folder. Sessions that were held there need not be looked into."""
    folder = Folder(cwd) if cwd is not None else None
    own = str(root / workdir_key(cwd)) if cwd is not None else None
    for key in _subfolders(str(root)):
        whole = folder is None or key == own
        try:
            sessions = _subfolders(key)
        except FoldlineError as problem:
            if whole:
                yield _Found(os.path.join(key, EVENTS), problem=str(problem))  # noqa: PTH118
            continue
        for session in sessions:
            events = os.path.join(session, EVENTS)  # noqa: PTH118 - many thousand times
            tie = "path" if whole or folder is None else _tie(folder, events)
            if tie is not None:
                yield _Found(events, tie)


def _tie(folder: Folder, events: str) -> Tie | None:
    try:
        return folder.tie(read_header(Path(events)))
    except FoldlineError:
        return None


def _subfolders(folder: str) -> list[str]:
    """The folders in it, but for those whose name begins with a dot: such are on their way out."""
    try:
        with os.scandir(folder) as found:
            return [item.path for item in found if item.name[0] != "." and _is_folder(item)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FoldlineError(f"The sessions in {folder} cannot be listed: {system_words(error)}.") from None


def _is_folder(item: "os.DirEntry[str]") -> bool:
    try:
        return item.is_dir()
    except OSError:
        return False  # a link that leads in a circle, or to where we may not look


# --- one line of a list -----------------------------------------------------------------------------


def _info(found: _Found, archived: bool) -> SessionInfo | None:
    """None where there is no session, or none any more."""
    events = Path(found.events)
    try:
        status = os.stat(found.events)  # noqa: PTH116 - many thousand times
    except FileNotFoundError:
        if not found.problem:
            return None
        return SessionInfo(events, _unreadable(events, found.problem), archived=archived)
    except OSError as error:
        problem = found.problem or f"{events.parent} cannot be read: {system_words(error)}."
        return SessionInfo(events, _unreadable(events, problem), archived=archived)
    if not S_ISREG(status.st_mode):
        return None
    meta = read_snapshot(events)
    if meta is None or meta.size != status.st_size:
        meta = _rebuilt(events, meta)
    return SessionInfo(events, meta, found.tie, archived)


def _rebuilt(events: Path, earlier: Meta | None) -> Meta:
    """What the history itself says. It is kept for the next list: a long one takes its time.

    Nobody who writes to the session is in the way of that, or it in theirs: a snapshot is replaced in one
    step, and one that is of the past is not believed.
    """
    try:
        meta = rebuilt(events, earlier)
    except FoldlineError as error:
        return _unreadable(events, str(error))
    if not events.parent.is_symlink():
        save_snapshot(events, meta)
    return meta


def _unreadable(events: Path, note: str) -> Meta:
    written = _modified(events)
    return Meta(id=events.parent.name, cwd="", created_at=written, updated_at=written, note=note)


def _modified(path: Path) -> datetime:
    try:
        return file_time(path.stat().st_mtime)
    except OSError:
        return file_time(0)
