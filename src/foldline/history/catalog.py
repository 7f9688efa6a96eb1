"""All sessions on this machine: listing them, finding one by what people type, what lists show of each."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from pydantic import ValidationError

from foldline.context.numbers import some
from foldline.data import EVENTS, archive_dir, sessions_dir, typed_path
from foldline.files import is_file, opened, put_private, read_regular
from foldline.protocol import FoldlineError, SessionHeader, Title, system_words

from .index import LEAST, open_file
from .log import LoadedLog, cannot_be_read, parse_header, parse_log, read_log
from .meta import Describer, Meta, clip_cells, describe
from .origin import Folder, Tie, parent_of
from .paths import META, workdir_key
from .stored import without_gc

_MOST_BYTES = 64 * 1024


def read_snapshot(events: Path) -> Meta | None:
    """The snapshot beside an event file, fresh or stale; None where there is none, or it is unreadable."""
    try:
        meta = Meta.model_validate_json(read_regular(events.with_name(META), _MOST_BYTES))
    except (OSError, ValidationError):
        return None
    return meta if meta.id and meta.cwd else None


def save_snapshot(events: Path, meta: Meta) -> None:
    """Keep it beside the event file, in one step. One that cannot be written is no loss: lists then read the
    history."""
    with suppress(OSError):
        put_private(events.with_name(META), meta.model_dump_json().encode())


_DAYS_SAID = 10
"""Days that are counted; what is older has a date."""


def age(then: datetime, now: datetime) -> str:
    """`just now`, `5 min ago`, `3 h ago`, `yesterday`, `4 days ago`, then the date, as of a moment ahead; at
    most eleven cells. Both know their time zone; dates are those of `now`'s."""
    passed = now - then
    if passed < timedelta(minutes=-1) or passed >= timedelta(days=_DAYS_SAID):
        return f"{_local(then, now):%Y-%m-%d}"
    minutes = int(passed.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    days = (now.date() - _local(then, now).date()).days
    if minutes < 24 * 60 and (days < 1 or minutes < 12 * 60):
        return f"{minutes // 60} h ago"
    return "yesterday" if days <= 1 else f"{days} days ago"


def file_time(seconds: float) -> datetime:
    """The time of a file, which may be anything; 1970 where the calendar has none like it."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _local(then: datetime, now: datetime) -> datetime:
    try:
        return then.astimezone(now.tzinfo)
    except OverflowError:  # at the edge of the calendar, where this zone has no time any more
        return then


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
    """The sessions of one working folder, or all, or those archived, the one last written to first.

    To a folder belong also sessions held in it at another path, and, marked as a guess, those of a folder
    that is gone and had its name. What cannot be read is listed with a note. A missing snapshot is made.
    Sessions of the future, left by a clock that was wrong, come last: nobody continues one by mistake.

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

    Sessions tied to it only by the folder's name count where there are no others. One imported from another
    folder counts once something was said in it here: whoever wrote it chose the folder it names. Raises
    FoldlineError where several folders could be meant.
    """
    infos = [info for info in list_sessions(home, cwd) if info.readable and not info.meta.imported]
    sure = next((info for info in infos if info.tie != "name"), None)
    guesses = sorted({info.meta.cwd for info in infos})
    if sure is None and len(guesses) > 1:
        raise FoldlineError(
            f"Sessions of {len(guesses)} folders of this name could be meant, and all of these are gone: "
            f"{some(guesses)}. `foldline sessions` lists them, `foldline -r ID` resumes one."
        )
    return sure or next(iter(infos), None)


def find_session(home: Path, ref: str) -> Path:
    """The event file of a session, archived or not, by its id, either end of its id, or a path. Raises
    FoldlineError where none, or more than one, answers to that."""
    for path in (typed_path(ref), typed_path(ref) / EVENTS):
        if ref and is_file(path):
            return path
    found = [
        events
        for events in _kept(home)
        if ref and (events.parent.name.startswith(ref) or events.parent.name.endswith(ref))
    ]
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
            raise FoldlineError(f"{len(several)} sessions answer to {ref!r}: {some(names)}; {more}.")


def info_of(home: Path, path: Path) -> SessionInfo:
    """What a list shows of the session with this event file. Raises FoldlineError where it is gone."""
    info = _info(_Found(str(path)), path.is_relative_to(archive_dir(home)))
    if info is None:
        raise FoldlineError(f"There is no session file {path}.")
    return info


def read_header(path: Path) -> SessionHeader:
    """The header of an event file, without what comes behind it. Raises FoldlineError."""
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


def forks_of(home: Path, session_id: str) -> list[tuple[int, SessionInfo]]:
    """The sessions that are copies of this one, each with the last entry that came along."""
    found = []
    for info in list_sessions(home):
        with suppress(FoldlineError):
            parent = parent_of(read_header(info.path))
            if parent is not None and parent.id == session_id:
                found.append((parent.index, info))
    return found


# --- folders on disk --------------------------------------------------------------------------------


class _Found(NamedTuple):
    """A place where a session is."""

    events: str
    tie: Tie = "path"
    problem: str = ""
    """Why its folder cannot be looked into; then it may be the place of several."""


def _kept(home: Path) -> Iterator[Path]:
    for root in (sessions_dir(home), archive_dir(home)):
        for found in _found(root, None):
            if is_file(found.events):
                yield Path(found.events)


def _found(root: Path, cwd: Path | str | None) -> Iterator[_Found]:
    """What below `root` belongs to a folder. Sessions that were held there need not be looked into."""
    folder = Folder(cwd) if cwd is not None else None
    own = str(root / workdir_key(cwd)) if cwd is not None else None
    for key in subfolders(str(root)):
        whole = folder is None or key == own
        try:
            sessions = subfolders(key)
        except FoldlineError as problem:
            if whole:
                yield _Found(os.path.join(key, EVENTS), problem=str(problem))  # noqa: PTH118
            continue
        for session in sessions:
            events = os.path.join(session, EVENTS)  # noqa: PTH118 - many thousand times
            tie = "path" if whole or folder is None else tie_to(folder, Path(events))
            if tie is not None:
                yield _Found(events, tie)


def tie_to(folder: Folder, events: Path) -> Tie | None:
    """What ties the session with this event file to a folder; None where nothing does."""
    try:
        return folder.tie(read_header(events))
    except FoldlineError:
        return None


def subfolders(folder: str) -> list[str]:
    """Paths of the folders in it, without those that begin with a dot: such are being deleted. Raises
    FoldlineError."""
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
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not found.problem:
            return None
        problem = found.problem or f"{events.parent} cannot be read: {system_words(error)}."
        return SessionInfo(events, _unreadable(events, problem), archived=archived)
    if not S_ISREG(status.st_mode):
        return None
    meta = read_snapshot(events)
    if meta is None or meta.size != status.st_size:
        meta = _rebuilt(events, meta)
    return SessionInfo(events, meta, found.tie, archived)


def _rebuilt(events: Path, earlier: Meta | None) -> Meta:
    """The description made from the history, saved for the next list. Needs no lock: a snapshot is replaced
    in one step, and a stale one is not believed."""
    try:
        meta = rebuilt(events, earlier)
    except FoldlineError as error:
        return _unreadable(events, str(error))
    if not events.parent.is_symlink():
        save_snapshot(events, meta)
    return meta


def _unreadable(events: Path, note: str) -> Meta:
    written = file_time(0)
    with suppress(OSError):
        written = file_time(events.stat().st_mtime)
    return Meta(id=events.parent.name, cwd="", created_at=written, updated_at=written, note=note)


_MOST_CELLS = 200
"""Of a title that is kept. Lists show less of it."""


def title_entry(text: str) -> Title | None:
    """The entry that gives a session this title, on one line of bearable length; None where nothing could be
    shown."""
    kept = clip_cells(text, _MOST_CELLS)
    return Title(title=kept) if kept else None


def rebuilt(events: Path, earlier: Meta | None) -> Meta:
    """The description of an event file. After an `earlier` one, only what was appended since is read."""
    caught_up = _caught_up(events, earlier) if earlier is not None else None
    if caught_up is not None:
        return caught_up
    with suppress(OSError):
        if events.stat().st_size >= LEAST:  # by its index: who lists a session mostly opens it next
            with without_gc():
                opened = open_file(events)
            return opened.describer.meta(opened.log.size, str(opened.damage))
    loaded = read_log(events)
    return describe(loaded.header, loaded.entries, loaded.size, str(loaded.damage))


def _caught_up(events: Path, earlier: Meta) -> Meta | None:
    """None where only the whole history says: it has damaged lines, or is not the file described."""
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
