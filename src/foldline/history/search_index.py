"""The index of the search across sessions: trigrams in SQLite, made from the event files, without their text.

It can be thrown away at any time (docs/decisions/0018-search-index.md).
"""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import MISSING, astuple, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from foldline.context.moments import entry_text
from foldline.context.text_search import casefolded
from foldline.data import EVENTS
from foldline.files import create_private, opened
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
    Revert,
    Title,
    ToolResultMessage,
    UserMessage,
)

from .catalog import subfolders
from .children import CHILDREN, tree_of
from .log import BLANK, FORMAT_VERSION, entry_in, our_header
from .meta import TITLE_CELLS, aware, clip_cells, prompt_line
from .search import LARGEST_NUMBER

if TYPE_CHECKING:
    import sqlite3


T = TypeVar("T")

BESIDE = ("-wal", "-shm", "-journal")
"""Ends the names of the files SQLite keeps beside its own."""
SCHEMA = 1
"""To be raised when what is stored changes, or how texts are casefolded or clipped; old ones are replaced."""
BLOCK_BITS = 20
"""An entry's number is its block's number, which begins with a time, and its place in it."""
TRIGRAMS = "trigram case_sensitive 1"
PADDING = "\n\n"
"""Behind each text, so that its last characters begin trigrams, too."""

_TABLES = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, name TEXT NOT NULL, cwd TEXT NOT NULL,
    title TEXT NOT NULL, prompt TEXT NOT NULL, updated TEXT NOT NULL,
    taken INTEGER NOT NULL, mark BLOB NOT NULL, last_index INTEGER NOT NULL, clipped INTEGER NOT NULL,
    size INTEGER NOT NULL, mtime INTEGER NOT NULL
);
CREATE TABLE blocks (id INTEGER PRIMARY KEY, session INTEGER, said INTEGER NOT NULL);
CREATE INDEX blocks_of ON blocks (session);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, entry INTEGER NOT NULL, kind TEXT NOT NULL, offset INTEGER NOT NULL
);
"""
_BUSY_SECONDS = 10.0
_IN_USE = {"SQLITE_BUSY", "SQLITE_LOCKED"}
_NO_PLACE = {
    "SQLITE_READONLY",
    "SQLITE_IOERR",
    "SQLITE_FULL",
    "SQLITE_CANTOPEN",
    "SQLITE_PERM",
    "SQLITE_NOLFS",
}


class IndexLost(Exception):
    """The index is empty now: what was begun with it is begun again."""


class IndexInUse(FoldlineError):
    """Another process kept the index to itself for too long."""


class Store:
    """Opens the database for each piece of work, so that any thread and any process may have its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        """Why the index is not kept on disk, as a piece of a sentence; empty where it is."""
        self._memory: sqlite3.Connection | None = None
        self._one_at_a_time = threading.RLock()
        """For memory only: there is one connection."""
        self._discarded = 0

    def run(self, work: "Callable[[sqlite3.Connection], T]") -> T:
        """What `work` returns, given a connection in autocommit. Raises IndexLost where the file was of no
        use (the next run has another, empty one), IndexInUse where another process holds it."""
        import sqlite3

        memory = self._memory
        if memory is not None:
            with self._one_at_a_time:
                return work(memory)
        seen = _identity(self.path)
        try:
            with self._opened() as database:
                return work(database)
        except (sqlite3.Error, OSError) as error:
            with self._one_at_a_time:
                self._recover(error, seen)
            raise IndexLost from error

    @contextmanager
    def _opened(self) -> "Iterator[sqlite3.Connection]":
        import sqlite3

        _create_private(self.path)
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as database:
            try:
                database.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _error_name(error) not in _IN_USE:  # somebody is just doing the same
                    raise
            database.execute("PRAGMA synchronous = NORMAL")
            _prepare(database)
            yield database

    def _recover(self, error: Exception, seen: object) -> None:
        """Make sure that the next run has something to work with. `seen` is the file that failed."""
        name = _error_name(error)
        if name in _IN_USE:
            raise IndexInUse(
                f"The search index {self.path} is in use by another process: try again."
            ) from error
        if name in _NO_PLACE or isinstance(error, OSError) or self._discarded:
            self._to_memory(error)
            return
        self._discarded += 1
        try:
            if _identity(self.path) == seen:  # else somebody else has made a new one already
                for suffix in (*BESIDE, ""):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as refused:
            self._to_memory(refused)

    def _to_memory(self, error: Exception) -> None:
        import sqlite3

        if self._memory is not None:
            return
        self.trouble = (getattr(error, "strerror", None) or str(error)).lower()
        database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _prepare(database)
        self._memory = database


def _create_private(path: Path) -> None:
    """SQLite gives its other files the mode of this one. One that exists is never opened here: closing it
    would let go of the locks SQLite holds on it in this process."""
    with suppress(FileExistsError):
        os.close(create_private(path))
    for suffix in ("", *BESIDE):
        with suppress(FileNotFoundError):
            if not S_ISREG(os.lstat(f"{path}{suffix}").st_mode):
                raise OSError(errno.EINVAL, f"{path.name}{suffix} is no file")


def sound(row: "tuple[object, ...]", kinds: Sequence[type]) -> "tuple[Any, ...]":
    """A row, where its values are of these types and no number is below -1: a damaged file holds anything.
    Raises sqlite3.DatabaseError."""
    import sqlite3

    for value, kind in zip(row, kinds, strict=True):
        if type(value) is not kind or (isinstance(value, int) and value < -1):
            raise sqlite3.DatabaseError("not what was written")
    return row


def _prepare(database: "sqlite3.Connection") -> None:
    """Create the tables where there are none."""
    import sqlite3

    if _version(database) == SCHEMA:
        return
    with transaction(database):
        if _version(database) == SCHEMA:
            return  # another process was quicker
        if database.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise sqlite3.DatabaseError("of another version")
        for statement in _TABLES.split(";"):
            database.execute(statement)
        # Where this SQLite has no FTS5, or no trigrams (they came with 3.34), every entry is a candidate.
        with suppress(sqlite3.OperationalError):
            options = f"content = '', detail = none, columnsize = 0, tokenize = '{TRIGRAMS}'"
            database.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, {options})")
        database.execute(f"PRAGMA user_version = {SCHEMA}")


def _version(database: "sqlite3.Connection") -> int:
    [version] = database.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def transaction(database: "sqlite3.Connection") -> Iterator[None]:
    """All of it or nothing. Waits for other writers before it begins."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def has_trigrams(database: "sqlite3.Connection") -> bool:
    found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'said'").fetchone()
    return found is not None


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _error_name(error: Exception) -> str:
    """`SQLITE_IOERR` for `SQLITE_IOERR_WRITE`: the class of the error without its detail."""
    name = getattr(error, "sqlite_errorname", "")
    return "_".join(name.split("_")[:2])


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
class IndexedSession:
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
class IndexedEntry:
    """One entry that can be found."""

    offset: int
    index: int
    kind: str
    text: str
    """Casefolded."""


@dataclass(frozen=True, slots=True)
class SessionPiece:
    """Some of a session that is not in the index yet."""

    before: IndexedSession
    after: IndexedSession
    anew: bool
    """Whether what the index holds of this session is of another file, and goes."""
    said: tuple[IndexedEntry, ...]
    second: int
    """When the newest of it was said, in seconds since 1970."""
    bytes: int
    """Of the event file."""


# --- what there is ----------------------------------------------------------------------------------


def session_files(home: Path) -> dict[str, os.stat_result]:
    """All event files below the data folder, by their folder, but for what cannot be looked into."""
    found = {}
    for key in (key for root in ROOTS for key in subfolders(str(home / root))):
        with suppress(FoldlineError):
            for folder in subfolders(key):
                for events in tree_of(Path(folder, EVENTS)):
                    name = events.parent.relative_to(home).as_posix()
                    if is_place(name):
                        with suppress(OSError):  # not a session, or gone in this moment
                            found[name] = events.stat()
    return found


def is_place(folder: str) -> bool:
    """Whether this may be the folder of a session, or of a subagent's, below the data folder."""
    root, *names = folder.split("/")
    below = [name == CHILDREN for name in names[2::2]]
    whole = len(names) >= 2 and len(names) % 2 == 0 and all(below)
    return root in ROOTS and whole and all(name and _is_ours(name) for name in names)


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


def read_piece(
    home: Path, known: IndexedSession, most: int, stopped: Callable[[], bool]
) -> SessionPiece | None:
    """About `most` bytes of a session from where the index ends; None where it cannot be read. Damaged
    records are left out; a last line without its end waits for it."""
    try:
        with opened(home / known.folder / EVENTS) as file:
            return _piece(file, known, most, stopped)
    except OSError:
        return None


def _piece(
    file: BinaryIO, known: IndexedSession, most: int, stopped: Callable[[], bool]
) -> SessionPiece | None:
    status = os.fstat(file.fileno())
    anew = not known.taken or status.st_size < known.taken or _mark(file, known.taken) != known.mark
    now = _begun(file, known.folder) if anew else replace(known, size=-1, mtime=-1)
    if now is None:
        return None
    said: list[IndexedEntry] = []
    second = 0
    begin = end = now.taken
    file.seek(begin)
    for offset, line in _lines(file, end):
        end = offset + len(line)
        entry = entry_in(line.strip(BLANK))
        if entry is not None and now.last_index < entry.index <= LARGEST_NUMBER:
            now = _told(now, entry)
            second = max(second, int(aware(entry.at).timestamp())) if entry.at else second
            kind, text = searchable_text(entry)
            if text:
                said.append(IndexedEntry(offset, entry.index, kind, casefolded(text)))
                now = replace(now, clipped=now.clipped + (len(text) > _HEAD + _TAIL))
        if end - begin >= most or stopped():
            break
    else:
        now = replace(now, size=status.st_size, mtime=changed_at(status))
    after = replace(now, taken=end, mark=_mark(file, end))
    return SessionPiece(known, after, anew, tuple(said), second, end - begin)


def _begun(file: BinaryIO, folder: str) -> IndexedSession | None:
    """A session of which only the header is known; None where this is not one of ours."""
    file.seek(0)
    line = file.readline(_LONGEST_HEADER)
    header = our_header(line)
    if header is None or not line.endswith(b"\n") or header.version > FORMAT_VERSION:
        return None
    name = folder.rsplit("/", 1)[-1]
    return IndexedSession(
        folder, name, header.cwd, updated=aware(header.created_at).isoformat(), taken=len(line)
    )


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


def _mark(file: BinaryIO, place: int) -> bytes:
    file.seek(max(0, place - _MARKED))
    return hashlib.blake2b(file.read(min(place, _MARKED)), digest_size=16).digest()


def _told(known: IndexedSession, entry: Entry) -> IndexedSession:
    """The session with this entry taken in."""
    updated = aware(entry.at).isoformat() if entry.at else known.updated
    known = replace(known, last_index=entry.index, updated=updated)
    match entry:
        case Title():
            return replace(known, title=clip_cells(entry.title, TITLE_CELLS) or known.title)
        case UserMessage(origin="typed") if not known.prompt:
            return replace(known, prompt=prompt_line(entry))
        case _:
            return known


# --- what is searched -------------------------------------------------------------------------------


def searchable_text(entry: Entry) -> tuple[str, str]:
    """An entry's kind, and what of it can be found; empty where nothing. Summaries only repeat."""
    match entry:
        case Title():
            return entry.type, entry.title
        case ToolResultMessage() if entry.name in _RECALL:
            return entry.type, ""
        case UserMessage() | AssistantMessage() | ToolResultMessage() | Revert():
            return entry.type, _clipped(entry_text(entry, without_calls=_RECALL) or "")
        case _:
            return entry.type, ""


def _clipped(text: str) -> str:
    if len(text) <= _HEAD + _TAIL:
        return text
    left_out = text.count("\n", _HEAD, len(text) - _TAIL)
    return text[:_HEAD] + "\n" * max(1, left_out) + text[-_TAIL:]


def entry_at(file: BinaryIO, offset: int) -> Entry | None:
    """The entry of the record that begins there; None where none does any more."""
    file.seek(offset)
    return entry_in(file.readline(_LONGEST_RECORD).strip(BLANK))


_FIELDS = [field.name for field in fields(IndexedSession)]
_COLUMNS = ", ".join(_FIELDS)
_TYPES = [type(field.default) if field.default is not MISSING else str for field in fields(IndexedSession)]
_DEAD_AT_LEAST = 20_000
"""Entries that are gone, but still in the trigrams, before it is worth making all anew."""


def all_known(database: "sqlite3.Connection") -> dict[str, IndexedSession]:
    """What the index knows, by folder."""
    found = map(_known, database.execute(f"SELECT {_COLUMNS} FROM sessions"))  # noqa: S608 (names of ours)
    return {known.folder: known for known in found}


def session_of(database: "sqlite3.Connection", block: int) -> IndexedSession | None:
    """The session that a block belongs to; None where it is gone."""
    row = database.execute(
        f"SELECT {_COLUMNS} FROM blocks JOIN sessions ON sessions.id = blocks.session "  # noqa: S608 (names of ours)
        "WHERE blocks.id = ?",
        (block,),
    ).fetchone()
    return None if row is None else _known(row)


def _known(row: "tuple[object, ...]") -> IndexedSession:
    import sqlite3

    known = IndexedSession(*sound(row, _TYPES))
    if not (is_place(known.folder) and is_moment(known.updated)):
        raise sqlite3.DatabaseError("not what was written")
    return known


def give_up(database: "sqlite3.Connection") -> None:
    """Raises sqlite3.DatabaseError: an index that takes nothing in is of no use, though it reads well."""
    import sqlite3

    raise sqlite3.DatabaseError("it takes nothing in")


def add(database: "sqlite3.Connection", pieces: Sequence[SessionPiece]) -> int:
    """Take these pieces in, all or none; how many were refused, because another process was quicker."""
    refused = 0
    trigrams = has_trigrams(database)
    with transaction(database):
        for piece in pieces:
            row = database.execute(
                "SELECT id, taken, mark FROM sessions WHERE folder = ?", (piece.before.folder,)
            ).fetchone()
            session, taken, mark = row or (None, 0, b"")
            if (taken, mark) != (piece.before.taken, piece.before.mark):
                refused += 1
                continue
            if piece.anew and session is not None:
                _empty(database, session)
            _add_said(database, piece, _put(database, piece.after), trigrams)
    return refused


def _put(database: "sqlite3.Connection", known: IndexedSession) -> int:
    updates = ", ".join(f"{name} = excluded.{name}" for name in _FIELDS)
    holes = ", ".join("?" * len(_FIELDS))
    database.execute(
        f"INSERT INTO sessions ({_COLUMNS}) VALUES ({holes}) ON CONFLICT (folder) DO UPDATE SET {updates}",  # noqa: S608 (names of ours)
        astuple(known),
    )
    [session] = database.execute("SELECT id FROM sessions WHERE folder = ?", (known.folder,)).fetchone()
    return int(session)


def _add_said(database: "sqlite3.Connection", piece: SessionPiece, session: int, trigrams: bool) -> None:
    if not piece.said:
        return
    first = _new_block(database, piece, session) << BLOCK_BITS
    database.executemany(
        "INSERT INTO entries (id, entry, kind, offset) VALUES (?, ?, ?, ?)",
        [(first + nth, said.index, said.kind, said.offset) for nth, said in enumerate(piece.said)],
    )
    if trigrams:
        database.executemany(
            "INSERT INTO said (rowid, text) VALUES (?, ?)",
            ((first + nth, said.text + PADDING) for nth, said in enumerate(piece.said)),
        )


def _new_block(database: "sqlite3.Connection", piece: SessionPiece, session: int) -> int:
    """A number for a block, never used before: its time, or the next that is free."""
    at = min(max(piece.second, 0), 2**40)
    [block] = database.execute(
        "SELECT :at WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE id = :at) UNION ALL "
        "SELECT id + 1 FROM blocks AS taken WHERE id >= :at "
        "AND NOT EXISTS (SELECT 1 FROM blocks WHERE id = taken.id + 1) LIMIT 1",
        {"at": at},
    ).fetchone()
    database.execute(
        "INSERT INTO blocks (id, session, said) VALUES (?, ?, ?)", (block, session, len(piece.said))
    )
    return int(block)


def move(database: "sqlite3.Connection", moved: Sequence[tuple[str, str]]) -> None:
    """Sessions that were archived, or taken back, from one folder to another."""
    with transaction(database):
        for before, after in moved:
            database.execute("UPDATE OR IGNORE sessions SET folder = ? WHERE folder = ?", (after, before))


def remove(database: "sqlite3.Connection", folders: Sequence[str]) -> None:
    """Sessions that are gone."""
    with transaction(database):
        for folder in folders:
            row = database.execute("SELECT id FROM sessions WHERE folder = ?", (folder,)).fetchone()
            if row is not None:
                _empty(database, row[0])
                database.execute("DELETE FROM sessions WHERE id = ?", row)


def _empty(database: "sqlite3.Connection", session: int) -> None:
    for (block,) in database.execute("SELECT id FROM blocks WHERE session = ?", (session,)).fetchall():
        first = block << BLOCK_BITS
        database.execute("DELETE FROM entries WHERE id >= ? AND id < ?", (first, first + (1 << BLOCK_BITS)))
    database.execute("UPDATE blocks SET session = NULL WHERE session = ?", (session,))


def clear_if_mostly_dead(database: "sqlite3.Connection") -> bool:
    """Empty the index where more of its trigrams belongs to what is gone than to what is there."""
    with transaction(database):
        dead, alive = database.execute(
            "SELECT coalesce(sum(said) FILTER (WHERE session IS NULL), 0), "
            "coalesce(sum(said) FILTER (WHERE session IS NOT NULL), 0) FROM blocks"
        ).fetchone()
        if dead < max(alive, _DEAD_AT_LEAST):
            return False
        for table in ("sessions", "blocks", "entries"):
            database.execute(f"DELETE FROM {table}")  # noqa: S608 (a name of ours)
        if has_trigrams(database):
            database.execute("INSERT INTO said (said) VALUES ('delete-all')")
        return True
