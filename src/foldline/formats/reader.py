"""Reads session files of any format.

Each session is checked against the file's own counts, and can be followed as its file grows.
"""

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.files import is_file, is_folder, read_regular
from foldline.history import EVENTS, Session, parse_log, typed_path
from foldline.history.children import named_child
from foldline.history.follower import NoLongerFollowed
from foldline.history.lock import Holder
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
    SystemMessage,
    Unknown,
    system_words,
)
from foldline.sequences import same_start
from foldline.view.items import is_preamble
from foldline.view.projection import Projection

from .base import Counted, ForeignSession
from .detection import FOREIGN, FORMATS, UnreadableFile, detect
from .parts import by_kind

_OF_FOLDERS = (EVENTS, "context.jsonl", "opencode.db", "CURRENT")
"""Names of files that identify a folder as a session's folder.

The first of them that exists is read.
"""
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
"""The first bytes of a zip file.

Only zip files written by `foldline export` can be read.
"""
UNKNOWN_FORMAT = "Unknown format {format!r}. Foldline reads {formats}."
UNREADABLE = "{path} {what}. {instead}."
NO_SESSION_IN_FOLDER = (
    "{path} has no {files}. Name a session file, or the folder of a session."
)
UNKNOWN_DATABASE = (
    "{file} is a database, but not of a known agent. Foldline reads {formats}."
)
NO_MESSAGES = "The session has no messages."
NOTHING_READ = (
    "{path} has {count} records of {title}, but none could be read as a message: this version of the format "
    "is not supported (types of records: {kinds})."
)
MESSAGES_DIFFER = (
    "According to the file, the last request had {counted:,} messages, but the view at that point has "
    "{shown:,}: a change to the context was not recognised."
)
TOKENS_DIFFER = (
    "The provider counted {reported:,} tokens in the last request, but the view at that point has about "
    "{read:,}: the model saw {comparison} than the view shows."
)
GONE = "{path} was moved or deleted."
TOO_LARGE = (
    "{path} has changed, but is too large to follow. Open it again to see the changes."
)
STILL_SHOWN = "What has been read so far is still shown."


def read_foreign(path: Path | str, format: str | None = None) -> ForeignSession:
    """Read the session in a file or folder.

    `format` is one of `FORMATS`, and overrides the detected format.

    Raises:
        FoldlineError: the file does not exist, contains no session, has a format without a reader, or has
            many records but no message.
    """
    path = typed_path(os.fspath(path))
    if format is not None and format not in FORMATS:
        raise FoldlineError(UNKNOWN_FORMAT, format=format, formats=_readable())
    path = session_file(path)
    if format in (None, "opencode") and _begins(file_of(path), _SQLITE):
        return _read_database(path)
    if file_of(path) != path:
        return _subagent(read_foreign(path.parent, format), path)
    data = as_utf8(_read(path))
    if data.startswith(_ZIP) and format in (None, "foldline"):
        from .bundle import read_bundled

        return read_bundled(data, path)
    name = format or detect(data)
    if isinstance(name, UnreadableFile):
        instead = name.instead or f"Foldline reads {_readable()}"
        raise FoldlineError(UNREADABLE, path=path, what=name.what, instead=instead)
    for candidate in FOREIGN:
        if candidate.name == name:
            return checked(candidate.read(data, path), candidate.title, path)
    loaded = parse_log(data, path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    return ForeignSession(
        "foldline",
        loaded.header,
        loaded.entries,
        loaded.damage,
        notes,
    )


def _subagent(session: ForeignSession, path: Path) -> ForeignSession:
    """Return the subagent with the id that is the last part of the path."""
    children = list(session.children)
    for child in children:
        children += child.session.children
    sessions = {child.id: child.session for child in children}
    return replace(
        sessions[named_child(path.parent, path.name, sessions)], format=session.format
    )


def session_file(path: Path) -> Path:
    """Return the file to read in a session's folder.

    The session may come from Foldline, klaude-code, kimi-cli, Copilot CLI or mistral-vibe. The folder may
    also be opencode's, which contains all of its sessions; the newest one is read.

    Raises:
        FoldlineError: the folder is none of these.
    """
    if not is_folder(path):
        return path
    file = file_in(path) or _newest_stored(path)
    if file is None:
        *others, last = _OF_FOLDERS
        files = f"{', '.join(others)} or {last}"
        raise FoldlineError(NO_SESSION_IN_FOLDER, path=path, files=files)
    return file


def file_in(folder: Path) -> Path | None:
    """Return the file that identifies this folder as a session's folder, if any."""
    return next((folder / name for name in _OF_FOLDERS if is_file(folder / name)), None)


def file_of(path: Path) -> Path:
    """Return the session file for a path of the form `FILE` or `FILE/ID`."""
    return path.parent if is_file(path.parent) else path


def as_utf8(data: bytes) -> bytes:
    """Convert text to UTF-8 without a BOM.

    The text may be UTF-16, which PowerShell's `>` writes.
    """
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    for opening, encoding in _BARE_UTF16.items():
        if data.startswith(opening):
            return data.decode(encoding, "replace").encode()
    return data.removeprefix(BOM_UTF8)


_BARE_UTF16 = {
    b"{\0": "utf-16-le",
    b"[\0": "utf-16-le",
    b"\0{": "utf-16-be",
    b"\0[": "utf-16-be",
}
"""The first bytes of UTF-16 JSON without a BOM, with the corresponding encoding."""


def _begins(path: Path, magic: bytes) -> bool:
    try:
        return read_regular(path, len(magic)) == magic
    except OSError:
        return False


def _read_database(path: Path) -> ForeignSession:
    from foldline.formats.readers.opencode.reader import read_opencode_database
    from foldline.formats.readers.opencode.store import is_opencode_database, tables_of

    from .detection import refused_database

    file = file_of(path)
    tables = tables_of(file)
    if is_opencode_database(tables):
        read = read_opencode_database(file, path.name if file != path else "")
        return checked(read, "opencode", path)
    refusal = refused_database(tables)
    if refusal is None:
        raise FoldlineError(UNKNOWN_DATABASE, file=file, formats=_readable())
    what = f"seems to be {refusal.name}, which cannot be read yet"
    raise FoldlineError(UNREADABLE, path=file, what=what, instead=refusal.instead)


def _newest_stored(folder: Path) -> Path | None:
    if not (is_folder(folder / "session") or is_folder(folder / "storage")):
        return None
    from foldline.formats.readers.opencode.reader import newest_of
    from foldline.formats.readers.opencode.store import is_store, stored_in_files

    for store in (folder, folder / "storage"):
        if is_store(store):
            return newest_of(stored_in_files(store), folder).path
    return None


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise FoldlineError(f"There is no file {path}.") from None
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None


def _readable() -> str:
    *others, last = (
        foreign.title
        if foreign.title == foreign.name
        else f"{foreign.title} ({foreign.name})"
        for foreign in FOREIGN
    )
    return f"its own sessions (foldline) and those of {', '.join(others)} and {last}"


_MANY = 10
"""A session with at least this many records but no message was probably misread, and is rejected."""
_SLACK = 0.25, 3
"""Maximum difference between two message counts.

The limit is given as a fraction and as a number of messages; the larger of the two
applies. Counts differ because agents merge adjacent messages when they send them.
"""
_OVERHEAD = 80_000
"""Maximum size of a request's system prompt and tools, in tokens.

The largest known size is 59,000 tokens (Claude Code).
"""
_TOO_FEW = 0.4, 15_000
"""Maximum amount by which the estimate may be too low, after subtracting the overhead.

The limit is given as a fraction of the reported tokens and as a number of tokens; the larger of the two
applies. In recorded sessions that were read correctly, estimates were up to a quarter too low.
"""
_TOO_MANY = 1.3, 3_000
"""Maximum estimate, relative to the reported tokens.

The limit is the reported number multiplied by the factor, plus the number of tokens.
"""
_LEAST_REPORT = 1_000
"""Minimum number of reported tokens.

Smaller reports are ignored, because they cannot describe a coding agent's whole request.
"""


def checked(session: ForeignSession, title: str, path: Path) -> ForeignSession:
    """Add notes on counts in the file that differ from the view.

    Args:
        title: the agent's name.

    Raises:
        FoldlineError: the session has many records, but no message.
    """
    projection, differences = _projected(session)
    if (
        any(not is_preamble(item.message) for item in projection.view)
        or projection.markers
    ):
        return replace(
            session, notes=(*session.notes, *differences), projection=projection
        )
    unread = [entry for entry in session.entries if isinstance(entry, Unknown)]
    if len(unread) >= _MANY:
        kinds = by_kind(entry.type.partition(".")[2] for entry in unread)
        raise FoldlineError(
            NOTHING_READ, path=path, count=len(unread), title=title, kinds=kinds
        )
    return replace(session, notes=(*session.notes, NO_MESSAGES))


def _projected(session: ForeignSession) -> tuple[Projection, Sequence[str]]:
    """Return the projection, and notes on differences from the file's own counts.

    The numbers of messages and of tokens are compared.
    """
    projection = Projection()
    newest = session.counted[-1] if session.counted else None
    messages = ""
    report: tuple[AssistantMessage, int, int] | None = None
    overhead = _OVERHEAD
    for entry in session.entries:
        if newest is not None and entry.index >= newest.before:
            messages = _messages_note(projection, newest)
            newest = None
        if (
            isinstance(entry, AssistantMessage)
            and entry.usage
            and entry.usage.input >= _LEAST_REPORT
        ):
            read = projection.tokens
            thought = projection.thinking
            report = entry, read, thought
            overhead = min(overhead, max(0, entry.usage.input - read - thought))
        projection.append(entry)
    if newest is not None:
        messages = _messages_note(projection, newest)
    in_view = {item.message.index for item in projection.view}
    notes = [messages]
    if report and report[0].index in in_view:
        notes.append(_tokens_note(*report, overhead))
    return projection, list(filter(None, notes))


def _messages_note(projection: Projection, counted: Counted) -> str:
    systems = [
        item.message
        for item in projection.view
        if isinstance(item.message, SystemMessage)
    ]
    shown = len(projection.view) - sum(
        message.origin == "prompt" for message in systems
    )
    part, number = _SLACK
    if abs(shown - counted.messages) <= max(number, part * counted.messages):
        return ""
    return MESSAGES_DIFFER.format(counted=counted.messages, shown=shown)


def _tokens_note(
    answer: AssistantMessage, read: int, thought: int, overhead: int
) -> str:
    """Return a note if the reported tokens do not match the view before the answer.

    Returns an empty string if they match.

    Args:
        read: estimated tokens of the view, without reasoning.
        thought: estimated tokens of the reasoning.
        overhead: size of the system prompt and the tools, in tokens.
    """
    reported = answer.usage.input if answer.usage else 0
    factor, more = _TOO_MANY
    part, fewer = _TOO_FEW
    missing = reported - read - thought - overhead
    if read > factor * reported + more:
        comparison = "less"
    elif missing > max(fewer, part * reported):
        comparison = "more"
    else:
        return ""
    return TOKENS_DIFFER.format(reported=reported, read=read, comparison=comparison)


LIMIT = 8_000_000
"""Maximum size of a file that is followed, in bytes.

Reading this much takes a tenth of a second.
"""


@dataclass(frozen=True, slots=True)
class Reread:
    version: tuple[int, int]
    """The file's size, and its modification time in nanoseconds."""
    session: ForeignSession | None


def _version(path: Path) -> tuple[int, int]:
    status = file_of(path).stat()
    return status.st_size, status.st_mtime_ns


class Rereader:
    """Follows another agent's session as its file grows.

    The file may change at any time, because other agents do not lock their files.

    If new records change existing entries, `session` is replaced by a new object.
    """

    holder: Holder | None = None

    def __init__(self, path: Path, format: str | None, session: Session) -> None:
        """Follow a session that was read from this file in this format."""
        self.session = session
        self._path = path
        self._format = format
        self._last = Reread(_version(path), None)

    @classmethod
    def read(cls, path: Path, format: str | None) -> "Rereader":
        """Read the file and follow its session. Raises FoldlineError."""
        session = read_foreign(path, format)
        return cls(
            path,
            session.format,
            Session.from_entries(
                session.header, session.entries, damage=session.damage
            ),
        )

    def child(self, id: str) -> "Rereader":
        """Read and follow one of the session's subagents. Raises FoldlineError."""
        return self.read(self._path / id, self._format)

    def look(self) -> Reread:
        """Read the file again if it has changed.

        Call this in a thread, and pass the result to `take`.

        Raises:
            NoLongerFollowed: the file is gone, is too large, or no longer contains a session.
        """
        try:
            version = _version(self._path)
        except OSError:
            gone = GONE.format(path=self._path)
            raise NoLongerFollowed(f"{gone} {STILL_SHOWN}") from None
        if version == self._last.version:
            return Reread(version, None)
        if version[0] > LIMIT:
            raise NoLongerFollowed(TOO_LARGE.format(path=self._path))
        try:
            session = read_foreign(self._path, self._format)
        except FoldlineError as error:
            raise NoLongerFollowed(f"{error} {STILL_SHOWN}") from None
        return Reread(version, session)

    def take(self, look: Reread) -> list[Entry]:
        """Apply the result of `look`.

        Returns the first changed entry and all entries after it.
        """
        self._last = look
        if look.session is None:
            return []
        before = list(self.session.entries)
        now = list(look.session.entries)
        same = same_start(before, now)
        if same < len(before):
            self.session = Session.from_entries(
                look.session.header, now, damage=look.session.damage
            )
        else:
            self.session.damage = look.session.damage
            self.session.take_in(now[same:])
        return now[same:]
