"""Catalog of all sessions on this machine.

Lists and describes sessions, and finds them by id or path.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from pydantic import ValidationError

from foldline.data import EVENTS, archive_dir, matches_id, sessions_dir, typed_path
from foldline.files import is_file, opened, put_private, read_regular
from foldline.protocol import FoldlineError, SessionHeader, Title, system_words
from foldline.text.numbers import some
from foldline.text.shorten import clip_cells

from .loader import open_file
from .log import cannot_be_read, parse_header
from .meta import Meta
from .origin import Folder, Tie
from .paths import META, workdir_key
from .stored import without_gc

_MOST_BYTES = 64 * 1024
"""Maximum number of bytes that are read from a `meta.json`.

If the file is longer, what was read is not valid JSON, and is ignored.
"""
TOO_SHORT = "{ref!r} is too short: give at least {least} characters of the id."
NO_SESSION = "There is no session {ref!r}. `foldline sessions --all` lists the ids."
SEVERAL_SESSIONS = "{ref!r} matches {count} sessions: {names}. {advice}"
GIVE_MORE = "Give more of the id."
GIVE_FOLDER = "Give the folder of one of them."
SEVERAL_FOLDERS = (
    "The name of this folder matches {count} deleted folders with sessions: {folders}. `foldline sessions` "
    "lists the sessions, `foldline -r ID` resumes one."
)


def read_snapshot(events: Path) -> Meta | None:
    """Return the snapshot next to an event file. It may be outdated.

    Returns None if it cannot be read.
    """
    try:
        meta = Meta.model_validate_json(
            read_regular(events.with_name(META), _MOST_BYTES)
        )
    except (OSError, ValidationError):
        return None
    return meta if meta.id and meta.cwd else None


def save_snapshot(events: Path, meta: Meta) -> None:
    """Write the snapshot next to an event file.

    Failures are ignored, because lists can read the log instead.
    """
    with suppress(OSError):
        put_private(events.with_name(META), meta.model_dump_json().encode())


_MOST_DAYS = 10
"""Minimum age, in days, at which a date is shown instead of the age."""


def age(then: datetime, now: datetime) -> str:
    """Format an age, for example `5 min ago`.

    The result is `just now`, `3 h ago`, `yesterday`, `4 days ago` or similar. Older times, and times in the
    future, are shown as dates in the time zone of `now`. The result has at most eleven cells. Both times must
    have a time zone.
    """
    passed = now - then
    if passed < timedelta(minutes=-1) or passed >= timedelta(days=_MOST_DAYS):
        return f"{_local(then, now):%Y-%m-%d}"
    minutes = int(passed.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    date = _local(then, now).date()
    days = (now.date() - date).days
    if minutes < 24 * 60 and (days < 1 or minutes < 12 * 60):
        return f"{minutes // 60} h ago"
    return "yesterday" if days <= 1 else f"{days} days ago"


def file_time(seconds: float) -> datetime:
    """Convert a file's timestamp.

    Returns a time in 1970 if the timestamp is out of range.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _local(then: datetime, now: datetime) -> datetime:
    try:
        return then.astimezone(now.tzinfo)
    except OverflowError:  # out of range in this time zone
        return then


_CLOCK_SKEW = timedelta(days=1)
"""Maximum difference between clocks that is not considered an error.

Machines that share sessions may differ in their clocks and time zones.
"""
_HEADER_BYTES = 1024 * 1024
"""Maximum number of bytes that are read for a header.

A longer header is invalid.
"""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list."""

    path: Path
    """The session's event file."""
    meta: Meta
    tie: Tie = "path"
    """How the session belongs to the listed folder."""
    archived: bool = False

    @property
    def id(self) -> str:
        """Id of the session, which `find_session` accepts.

        This is the name of the session's folder. The id in the header may differ.
        """
        return self.path.parent.name

    @property
    def readable(self) -> bool:
        """Whether the session can be opened.

        If not, `meta.note` contains the reason.
        """
        return bool(self.meta.cwd)

    @property
    def moved_from(self) -> str:
        """Original folder of a session that is listed for another folder.

        Empty for all other sessions.
        """
        return "" if self.tie == "path" else self.meta.cwd


def list_sessions(
    home: Path,
    cwd: Path | str | None = None,
    *,
    archived: bool = False,
    now: datetime | None = None,
) -> list[SessionInfo]:
    """List sessions, most recently used first.

    A folder's sessions include those from before the folder was moved and, as a guess (`Tie`), those of a
    deleted folder with the same name. Unreadable sessions are listed with a note. Missing snapshots are
    written. If a wrong clock gave a session a time in the future, the session comes last, so that it is not
    resumed by mistake.

    Args:
        cwd: working folder of the sessions. By default, the sessions of all folders are listed.
        archived: whether to list the archive instead.

    Raises:
        FoldlineError: the folder that contains all sessions cannot be listed.
    """
    root = archive_dir(home) if archived else sessions_dir(home)
    infos = [_info(location, archived) for location in _locations(root, cwd)]
    latest_credible = (now or datetime.now(UTC)) + _CLOCK_SKEW

    def recency(info: SessionInfo) -> tuple[bool, datetime, str]:
        updated_at = info.meta.updated_at
        return updated_at <= latest_credible, updated_at, info.id

    return sorted(
        (info for info in infos if info is not None), key=recency, reverse=True
    )


def latest(home: Path, cwd: Path | str) -> SessionInfo | None:
    """Return a folder's most recently used session, if any.

    Sessions that match only by the folder's name are used if there are no others. If a session was imported
    into a folder chosen by the imported file, the session is used only after the user has typed a prompt in
    it.

    Raises:
        FoldlineError: the only sessions are from different deleted folders with this name.
    """
    sessions = list_sessions(home, cwd)
    infos = [info for info in sessions if info.readable and not info.meta.imported]
    certain = next((info for info in infos if info.tie != "name"), None)
    guesses = sorted({info.meta.cwd for info in infos})
    if certain is None and len(guesses) > 1:
        raise FoldlineError(SEVERAL_FOLDERS, count=len(guesses), folders=some(guesses))
    return certain or next(iter(infos), None)


def find_session(home: Path, ref: str) -> Path:
    """Find an event file by session id or path.

    The beginning or end of the id is enough. Archived sessions are included.

    Raises:
        FoldlineError: no session or more than one session matches.
    """
    for path in (typed_path(ref), typed_path(ref) / EVENTS):
        if ref and is_file(path):
            return path
    matches = [
        events for events in _event_files(home) if matches_id(events.parent.name, ref)
    ]
    exact_matches = [events for events in matches if events.parent.name == ref]
    match exact_matches or matches:
        case [events] if exact_matches or len(ref) >= _SHORTEST_REF:
            return events
        case [_]:
            raise FoldlineError(TOO_SHORT, ref=ref, least=_SHORTEST_REF)
        case []:
            raise FoldlineError(NO_SESSION, ref=ref)
        case several:
            raise _ambiguous(ref, several)


def _ambiguous(ref: str, matches: list[Path]) -> FoldlineError:
    names = [events.parent.name for events in matches]
    advice = GIVE_MORE
    if len(set(names)) < len(names):
        names = [str(events.parent) for events in matches]
        advice = GIVE_FOLDER
    return FoldlineError(
        SEVERAL_SESSIONS,
        ref=ref,
        count=len(matches),
        names=some(sorted(names)),
        advice=advice,
    )


def info_of(home: Path, path: Path) -> SessionInfo:
    """Describe the session with this event file.

    Raises:
        FoldlineError: the file does not exist.
    """
    archived = path.is_relative_to(archive_dir(home))
    info = _info(_SessionLocation(str(path)), archived)
    if info is None:
        raise FoldlineError(f"There is no session file {path}.")
    return info


def read_header(path: Path) -> SessionHeader:
    """Read only the header of an event file.

    Raises:
        FoldlineError: the header cannot be read.
    """
    try:
        with opened(path) as file:
            line = file.readline(_HEADER_BYTES)
    except OSError as error:
        raise cannot_be_read(path, error) from None
    return parse_header(line.rstrip(b"\n"), path)


_SHORTEST_REF = 3
"""Minimum length of an abbreviated id, in characters.

A shorter number is more likely to be a row number.
"""


# --- folders on disk --------------------------------------------------------------------------------


class _SessionLocation(NamedTuple):
    """A location at which a session may be stored."""

    events: str
    tie: Tie = "path"
    problem: str = ""
    """Reason why the folder cannot be listed.

    If this is set, the location stands for all sessions in the folder.
    """


def _event_files(home: Path) -> Iterator[Path]:
    for root in (sessions_dir(home), archive_dir(home)):
        for location in _locations(root, None):
            if is_file(location.events):
                yield Path(location.events)


def _locations(root: Path, cwd: Path | str | None) -> Iterator[_SessionLocation]:
    """Yield the locations of a folder's sessions below `root`.

    Sessions stored under the folder's own key are yielded without opening them.
    """
    folder = Folder(cwd) if cwd is not None else None
    own_key = str(root / workdir_key(cwd)) if cwd is not None else None
    for key in subfolders(str(root)):
        belongs = folder is None or key == own_key
        try:
            sessions = subfolders(key)
        except FoldlineError as problem:
            if belongs:
                yield _SessionLocation(os.path.join(key, EVENTS), problem=str(problem))  # noqa: PTH118
            continue
        for session in sessions:
            events = os.path.join(session, EVENTS)  # noqa: PTH118 - called many thousand times
            tie = "path" if belongs or folder is None else tie_to(folder, Path(events))
            if tie is not None:
                yield _SessionLocation(events, tie)


def tie_to(folder: Folder, events: Path) -> Tie | None:
    """Return how a session belongs to a folder.

    Returns None if it does not belong to the folder.
    """
    try:
        return folder.tie(read_header(events))
    except FoldlineError:
        return None


def subfolders(folder: str) -> list[str]:
    """List the paths of a folder's subfolders.

    Hidden subfolders are left out, because they are being deleted.

    Raises:
        FoldlineError: the folder cannot be listed.
    """
    try:
        with os.scandir(folder) as items:
            visible = [item for item in items if not item.name.startswith(".")]
            return [item.path for item in visible if _is_folder(item)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FoldlineError(
            f"The sessions in {folder} cannot be listed: {system_words(error)}."
        ) from None


def _is_folder(item: "os.DirEntry[str]") -> bool:
    try:
        return item.is_dir()
    except OSError:
        return False  # a circular link, or a link to an inaccessible folder


# --- one line of a list -----------------------------------------------------------------------------


def _info(location: _SessionLocation, archived: bool) -> SessionInfo | None:
    """Describe a session.

    Returns None if it does not exist.
    """
    events = Path(location.events)
    try:
        status = os.stat(location.events)  # noqa: PTH116 - called many thousand times
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not location.problem:
            return None
        problem = (
            location.problem
            or f"{events.parent} cannot be read: {system_words(error)}."
        )
        return SessionInfo(events, _unreadable(events, problem), archived=archived)
    if not S_ISREG(status.st_mode):
        return None
    meta = read_snapshot(events)
    if meta is None or meta.size != status.st_size:
        meta = _rebuilt(events)
    return SessionInfo(events, meta, location.tie, archived)


def _rebuilt(events: Path) -> Meta:
    """Describe a session from its log, and save the description as a snapshot.

    No lock is needed, because snapshots are replaced atomically, and the log's size shows whether a snapshot
    is outdated.
    """
    try:
        meta = rebuilt(events)
    except FoldlineError as error:
        return _unreadable(events, str(error))
    if not events.parent.is_symlink():
        save_snapshot(events, meta)
    return meta


def _unreadable(events: Path, note: str) -> Meta:
    changed_at = file_time(0)
    with suppress(OSError):
        changed_at = file_time(events.stat().st_mtime)
    return Meta(
        id=events.parent.name,
        cwd="",
        created_at=changed_at,
        updated_at=changed_at,
        note=note,
    )


_MOST_CELLS = 200
"""Maximum length of a stored title, in cells.

Longer titles are cut off. Lists shorten titles further.
"""


def title_entry(text: str) -> Title | None:
    """Return the entry that sets a title. The title is joined to one line.

    Returns None if the title would be empty.
    """
    title = clip_cells(text, _MOST_CELLS)
    return Title(title=title) if title else None


def rebuilt(events: Path) -> Meta:
    """Describe an event file by reading it."""
    with without_gc():
        opened_file = open_file(events)
    return opened_file.describer.meta(opened_file.log.size, str(opened_file.damage))
