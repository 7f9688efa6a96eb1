"""Reads any session file, checks it against its own counts, and follows it as it grows."""

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.context.projection import Projection
from foldline.context.view import is_preamble
from foldline.files import is_file, is_folder, read_regular
from foldline.history import EVENTS, Session, parse_log, typed_path
from foldline.history.children import named_child
from foldline.history.follower import NoLongerFollowed
from foldline.history.lock import Holder
from foldline.protocol import AssistantMessage, Entry, FoldlineError, SystemMessage, Unknown, system_words
from foldline.sequences import same_start

from .base import Counted, ForeignSession
from .detection import FOREIGN, FORMATS, Unreadable, detect
from .parts import by_kind

_OF_FOLDERS = (EVENTS, "context.jsonl", "opencode.db", "CURRENT")
"""The file to read in the folder of a session."""
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
"""Begins a zip file: of all files that are read, only our sessions as one file are any."""


def read_foreign(path: Path | str, format: str | None = None) -> ForeignSession:
    """Read the session in a file or in a session's folder.

    `format` is one of `FORMATS` and overrides detection.

    Raises:
        FoldlineError: no such file, no session, a format without a reader, or many records and no message.
    """
    path = typed_path(os.fspath(path))
    if format is not None and format not in FORMATS:
        raise FoldlineError(f"There is no format {format!r}: Foldline reads {_readable()}.")
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
    if isinstance(name, Unreadable):
        raise FoldlineError(f"{path} {name.what}: {name.instead or f'Foldline reads {_readable()}'}.")
    for candidate in FOREIGN:
        if candidate.name == name:
            return checked(candidate.read(data, path), candidate.title, path)
    loaded = parse_log(data, path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    return ForeignSession("foldline", loaded.header, loaded.entries, loaded.damage, notes)


def _subagent(session: ForeignSession, path: Path) -> ForeignSession:
    """Return the subagent that the end of the path names."""
    children = list(session.children)
    for child in children:
        children += child.session.children
    sessions = {child.id: child.session for child in children}
    return replace(sessions[named_child(path.parent, path.name, sessions)], format=session.format)


def session_file(path: Path) -> Path:
    """Return the file to read in the folder of a session.

    The folder is one of ours, of klaude-code, kimi-cli, Copilot CLI or mistral-vibe, or opencode's folder of
    sessions, of which the newest is read.

    Raises:
        FoldlineError: it is another folder.
    """
    if not is_folder(path):
        return path
    file = file_in(path) or _newest_stored(path)
    if file is None:
        *others, last = _OF_FOLDERS
        without = f"{', '.join(others)} or {last}"
        raise FoldlineError(
            f"{path} is a folder without {without}: name a session file, or the folder of a session."
        )
    return file


def file_in(folder: Path) -> Path | None:
    """Return the file by which a folder is the folder of one session."""
    return next((folder / name for name in _OF_FOLDERS if is_file(folder / name)), None)


def file_of(path: Path) -> Path:
    """Return the file of a session named by `FILE` or `FILE/ID`."""
    return path.parent if is_file(path.parent) else path


def as_utf8(data: bytes) -> bytes:
    """Return a text as UTF-8 without a BOM. PowerShell's `>` writes UTF-16."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    for opening, encoding in _BARE_UTF16.items():
        if data.startswith(opening):
            return data.decode(encoding, "replace").encode()
    return data.removeprefix(BOM_UTF8)


_BARE_UTF16 = {b"{\0": "utf-16-le", b"[\0": "utf-16-le", b"\0{": "utf-16-be", b"\0[": "utf-16-be"}
"""Beginnings of JSON in UTF-16 without a BOM."""


def _begins(path: Path, magic: bytes) -> bool:
    try:
        return read_regular(path, len(magic)) == magic
    except OSError:
        return False


def _read_database(path: Path) -> ForeignSession:
    from .detection import refused_database
    from .readers.opencode.reader import read_opencode_database
    from .readers.opencode.store import is_opencode_database, tables_of

    file = file_of(path)
    tables = tables_of(file)
    if is_opencode_database(tables):
        read = read_opencode_database(file, path.name if file != path else "")
        return checked(read, "opencode", path)
    refusal = refused_database(tables)
    if refusal is None:
        raise FoldlineError(
            f"{file} is a database, but of no agent known here: Foldline reads {_readable()}."
        )
    raise FoldlineError(f"{file} seems to be {refusal.name}, which cannot be read yet: {refusal.instead}.")


def _newest_stored(folder: Path) -> Path | None:
    if not (is_folder(folder / "session") or is_folder(folder / "storage")):
        return None
    from .readers.opencode.reader import newest_of
    from .readers.opencode.store import is_store, stored_in_files

    store = next((place for place in (folder, folder / "storage") if is_store(place)), None)
    return newest_of(stored_in_files(store), folder).path if store else None


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise FoldlineError(f"There is no file {path}.") from None
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None


def _readable() -> str:
    *others, last = (
        foreign.title if foreign.title == foreign.name else f"{foreign.title} ({foreign.name})"
        for foreign in FOREIGN
    )
    return f"its own sessions (foldline) and those of {', '.join(others)} and {last}"


_MANY = 10
"""A session of so many records without a message was misread, not left empty."""
_SLACK = 0.25, 3
"""The part and the number by which two counts of messages may differ: agents join neighbours as they send."""
_OVERHEAD = 80_000
"""Tokens of system prompt and tools beside a session's text: the most recorded were 59,000 (Claude Code)."""
_TOO_FEW = 0.4, 15_000
"""The part of a report, and the tokens, that what was read may fall short of it, overhead aside. Estimates of
recorded sessions that were read rightly fell short by a quarter."""
_TOO_MANY = 1.3, 3_000
"""How much what was read may exceed a report: a factor, and tokens on top."""
_LEAST_REPORT = 1_000
"""A smaller report is not of a coding agent's request: some are of a stream that had only begun."""


def checked(session: ForeignSession, title: str, path: Path) -> ForeignSession:
    """Add a note on each of the file's counts that differs from the view.

    Args:
        title: the agent.

    Raises:
        FoldlineError: it has many records, but no message.
    """
    projection, differences = _projected(session)
    if any(not is_preamble(item.message) for item in projection.view) or projection.markers:
        return replace(session, notes=(*session.notes, *differences), projection=projection)
    unread = [entry for entry in session.entries if isinstance(entry, Unknown)]
    if len(unread) >= _MANY:
        kinds = by_kind(entry.type.partition(".")[2] for entry in unread)
        raise FoldlineError(
            f"{path} has {len(unread)} records of {title}, and none of them became a message: this version "
            f"of the format is not known here (kinds of records: {kinds})."
        )
    return replace(session, notes=(*session.notes, "There is no message in it."))


def _projected(session: ForeignSession) -> tuple[Projection, Sequence[str]]:
    """Return the projection, and notes on differing counts of messages and tokens."""
    projection = Projection()
    newest = session.counted[-1] if session.counted else None
    messages = ""
    report: tuple[AssistantMessage, int, int] | None = None
    overhead = _OVERHEAD
    for entry in session.entries:
        if newest is not None and entry.index >= newest.before:
            messages, newest = _messages_note(projection, newest), None
        if isinstance(entry, AssistantMessage) and entry.usage and entry.usage.input >= _LEAST_REPORT:
            read, thought = projection.tokens, projection.thinking
            report = entry, read, thought
            overhead = min(overhead, max(0, entry.usage.input - read - thought))
        projection.append(entry)
    if newest is not None:
        messages = _messages_note(projection, newest)
    in_view = {item.message.index for item in projection.view}
    tokens = _tokens_note(*report, overhead) if report and report[0].index in in_view else ""
    return projection, [note for note in (messages, tokens) if note]


def _messages_note(projection: Projection, counted: Counted) -> str:
    systems = [item.message for item in projection.view if isinstance(item.message, SystemMessage)]
    shown = len(projection.view) - sum(message.origin == "prompt" for message in systems)
    part, number = _SLACK
    if abs(shown - counted.messages) <= max(number, part * counted.messages):
        return ""
    return (
        f"By the file's own count, the last request had {counted.messages:,} messages; the view there has "
        f"{shown:,}: something that changed the context was not understood."
    )


def _tokens_note(answer: AssistantMessage, read: int, thought: int, overhead: int) -> str:
    """Compare a report with estimates of the view before it: text and reasoning."""
    reported = answer.usage.input if answer.usage else 0
    factor, more = _TOO_MANY
    part, fewer = _TOO_FEW
    missing = reported - read - thought - overhead
    if read > factor * reported + more:
        conclusion = "the model saw less than the view shows"
    elif missing > max(fewer, part * reported):
        conclusion = "the model saw more than the view shows"
    else:
        return ""
    return (
        f"The last request had {reported:,} tokens by the provider's count, what was read of it comes to "
        f"about {read:,}: {conclusion}."
    )


LIMIT = 8_000_000
"""Bytes up to which a file is read again as it changes: this takes a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Reread:
    size: int
    changed_at: int
    """As the file system counts, in ns."""
    session: ForeignSession | None


class Rereader:
    """Follows a foreign session in its file, which other agents do not lock.

    As the file grows, the newest entries may change, since records are not entries; `session` is then a new
    object.
    """

    holder: Holder | None = None

    def __init__(self, path: Path, format: str | None, session: Session) -> None:
        """Follow a session that was read from the file as this format."""
        self.session = session
        self._path = path
        self._format = format
        status = file_of(path).stat()
        self._last = Reread(status.st_size, status.st_mtime_ns, None)

    @classmethod
    def read(cls, path: Path, format: str | None) -> "Rereader":
        """Read the file. Raises FoldlineError."""
        session = read_foreign(path, format)
        return cls(
            path, session.format, Session.from_entries(session.header, session.entries, damage=session.damage)
        )

    def child(self, id: str) -> "Rereader":
        """Read one of its subagents. Raises FoldlineError."""
        return self.read(self._path / id, self._format)

    def look(self) -> Reread:
        """Read the file again if it changed, without taking it in. Runs in a thread.

        Raises:
            NoLongerFollowed: it is gone, too large, or no session any more.
        """
        try:
            status = file_of(self._path).stat()
        except OSError:
            raise NoLongerFollowed(f"{self._path} was moved or deleted: what was read of it stays.") from None
        if (status.st_size, status.st_mtime_ns) == (self._last.size, self._last.changed_at):
            return Reread(status.st_size, status.st_mtime_ns, None)
        if status.st_size > LIMIT:
            raise NoLongerFollowed(f"{self._path} has changed: open it again to see it as it is now.")
        try:
            session = read_foreign(self._path, self._format)
        except FoldlineError as error:
            raise NoLongerFollowed(f"{error} What was read before stays.") from None
        return Reread(status.st_size, status.st_mtime_ns, session)

    def take(self, look: Reread) -> list[Entry]:
        """Take in a new reading; return the entries from the first change on."""
        self._last = look
        if look.session is None:
            return []
        before, now = list(self.session.entries), list(look.session.entries)
        same = same_start(before, now)
        if same < len(before):
            self.session = Session.from_entries(look.session.header, now, damage=look.session.damage)
        else:
            self.session.damage = look.session.damage
            self.session.take_in(now[same:])
        return now[same:]
