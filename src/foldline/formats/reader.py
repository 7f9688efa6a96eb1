"""Read any session file, hold it against what it says itself, and read it anew as it grows."""

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
"""What a session is read by that is a folder."""
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"
"""Begins a zip file: of all files that are read, only our sessions as one file are any."""


def read_foreign(path: Path | str, format: str | None = None) -> ForeignSession:
    """The session in a file, or in a session folder of ours, or in one of ours as one file. Only reads.

    `format` is one of `FORMATS` and overrides detection.

    Raises:
        FoldlineError: no such file, not a session, of a format without a reader, or one of many records in
            which the reader found no message.
    """
    path = typed_path(os.fspath(path))
    if format is not None and format not in FORMATS:
        raise FoldlineError(f"There is no format {format!r}: Foldline reads {_known()}.")
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
        raise FoldlineError(f"{path} {name.what}: {name.instead or f'Foldline reads {_known()}'}.")
    for known in FOREIGN:
        if known.name == name:
            return checked(known.read(data, path), known.title, path)
    loaded = parse_log(data, path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    return ForeignSession("foldline", loaded.header, loaded.entries, loaded.damage, notes)


def _subagent(found: ForeignSession, path: Path) -> ForeignSession:
    """The subagent of this session whose id the path ends in."""
    below = list(found.children)
    for child in below:
        below += child.session.children
    sessions = {child.id: child.session for child in below}
    return replace(sessions[named_child(path.parent, path.name, sessions)], format=found.format)


def session_file(path: Path) -> Path:
    """The file to read a session by, where this is the folder of one: of ours, of klaude-code, kimi-cli,
    Copilot CLI or mistral-vibe; of opencode's folder of sessions, the newest.

    Raises:
        FoldlineError: it is another folder.
    """
    if not is_folder(path):
        return path
    found = next((path / name for name in _OF_FOLDERS if is_file(path / name)), None)
    if found is None and (is_folder(path / "session") or is_folder(path / "storage")):
        found = _newest_stored(path)
    if found is None:
        *others, last = _OF_FOLDERS
        without = f"{', '.join(others)} or {last}"
        raise FoldlineError(
            f"{path} is a folder without {without}: name a session file, or the folder of a session."
        )
    return found


def file_of(path: Path) -> Path:
    """The file that a session is in. One of several in it, in a database or of a subagent, is named by its id
    behind the file."""
    return path.parent if is_file(path.parent) else path


def as_utf8(data: bytes) -> bytes:
    """A text file as UTF-8, without a mark of its encoding. PowerShell's `>` writes UTF-16."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    for opening, encoding in _BARE_UTF16.items():
        if data.startswith(opening):
            return data.decode(encoding, "replace").encode()
    return data.removeprefix(BOM_UTF8)


_BARE_UTF16 = {b"{\0": "utf-16-le", b"[\0": "utf-16-le", b"\0{": "utf-16-be", b"\0[": "utf-16-be"}
"""How JSON in UTF-16 begins where no mark says so."""


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
        raise FoldlineError(f"{file} is a database, but of no agent known here: Foldline reads {_known()}.")
    raise FoldlineError(f"{file} seems to be {refusal.name}, which cannot be read yet: {refusal.instead}.")


def _newest_stored(folder: Path) -> Path | None:
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


def _known() -> str:
    *others, last = (
        known.title if known.title == known.name else f"{known.title} ({known.name})" for known in FOREIGN
    )
    return f"its own sessions (foldline) and those of {', '.join(others)} and {last}"


_MANY = 10
"""Records from which on a session without a message is none that was opened and left, but one misread."""
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
"""Tokens below which a report is none of a coding agent's request: some stand for a stream that had begun."""


def checked(found: ForeignSession, title: str, path: Path) -> ForeignSession:
    """The session, with a note on each count of the file's own that differs from the view.

    `title` is whose session it is.

    Raises:
        FoldlineError: it has many records, and none became a message for the model.
    """
    projection, differences = _projected(found)
    if any(not is_preamble(item.message) for item in projection.view) or projection.markers:
        return replace(found, notes=(*found.notes, *differences))
    unread = [entry for entry in found.entries if isinstance(entry, Unknown)]
    if len(unread) >= _MANY:
        kinds = by_kind(entry.type.partition(".")[2] for entry in unread)
        raise FoldlineError(
            f"{path} has {len(unread)} records of {title}, and none of them became a message: this version "
            f"of the format is not known here (kinds of records: {kinds})."
        )
    return replace(found, notes=(*found.notes, "There is no message in it."))


def _projected(found: ForeignSession) -> tuple[Projection, Sequence[str]]:
    projection = Projection()
    newest = found.counted[-1] if found.counted else None
    messages = ""
    report: tuple[AssistantMessage, int, int] | None = None
    overhead = _OVERHEAD
    for entry in found.entries:
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
    """`read` and `thought` are estimates of the view before the answer: its text, and its reasoning."""
    reported = answer.usage.input if answer.usage else 0
    factor, more = _TOO_MANY
    part, fewer = _TOO_FEW
    missing = reported - read - thought - overhead
    if read > factor * reported + more:
        rest = "the model saw less than the view shows"
    elif missing > max(fewer, part * reported):
        rest = "the model saw more than the view shows"
    else:
        return ""
    return (
        f"The last request had {reported:,} tokens by the provider's count, what was read of it comes to "
        f"about {read:,}: {rest}."
    )


LIMIT = 8_000_000
"""Bytes up to which a file is read anew: a tenth of a second, beside what the reader does."""


@dataclass(frozen=True, slots=True)
class Reread:
    size: int
    changed_at: int
    """As the file system counts, in ns."""
    found: ForeignSession | None


class Rereader:
    """A foreign session and its file. Other agents lock nothing: who writes is not known.

    Their records do not map to entries one by one, so that the newest entries may change as the file grows;
    `session` is then another one.
    """

    holder: Holder | None = None

    def __init__(self, path: Path, format: str | None, session: Session) -> None:
        """`session` is what `read_foreign` made of the file, as this format."""
        self.session = session
        self._path = path
        self._format = format
        status = file_of(path).stat()
        self._known = Reread(status.st_size, status.st_mtime_ns, None)

    @classmethod
    def read(cls, path: Path, format: str | None) -> "Rereader":
        """Reads it. Raises FoldlineError."""
        found = read_foreign(path, format)
        return cls(path, found.format, Session.from_entries(found.header, found.entries, damage=found.damage))

    def child(self, id: str) -> "Rereader":
        """The same of one of its subagents. Raises FoldlineError."""
        return self.read(self._path / id, self._format)

    def look(self) -> Reread:
        """What the file holds now, without taking it in: for a thread. One `stat` where nothing changed.

        Raises:
            NoLongerFollowed: it is gone, too large to be read again and again, or not what it was.
        """
        try:
            status = file_of(self._path).stat()
        except OSError:
            raise NoLongerFollowed(f"{self._path} was moved or deleted: what was read of it stays.") from None
        if (status.st_size, status.st_mtime_ns) == (self._known.size, self._known.changed_at):
            return Reread(status.st_size, status.st_mtime_ns, None)
        if status.st_size > LIMIT:
            raise NoLongerFollowed(f"{self._path} has changed: open it again to see it as it is now.")
        try:
            found = read_foreign(self._path, self._format)
        except FoldlineError as error:
            raise NoLongerFollowed(f"{error} What was read before stays.") from None
        return Reread(status.st_size, status.st_mtime_ns, found)

    def take(self, look: Reread) -> list[Entry]:
        """Take in what was seen; the entries beyond those that are as they were."""
        self._known = look
        if look.found is None:
            return []
        before, now = list(self.session.entries), list(look.found.entries)
        same = same_start(before, now)
        if same < len(before):
            self.session = Session.from_entries(look.found.header, now, damage=look.found.damage)
        else:
            self.session.damage = look.found.damage
            self.session.take_in(now[same:])
        return now[same:]
