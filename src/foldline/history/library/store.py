"""The database of the search across sessions: a file that can be thrown away, or memory where none can be.

It holds what was taken in of each session, where each entry stands in its event file, and which trigrams it
holds; no text (docs/decisions/0018-search-index.md).
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

from foldline.files import create_private
from foldline.protocol import FoldlineError

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

BESIDE = ("-wal", "-shm", "-journal")
"""Ends the names of the files SQLite keeps beside its own."""
SCHEMA = 1
"""To be raised when what is stored changes, or how texts are folded or clipped: older files are made anew."""
BLOCK_BITS = 20
"""An entry's number is its block's number, which begins with a time, and its place in it."""
TRIGRAMS = "trigram case_sensitive 1"

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
        """What `work` returns, given a connection in autocommit.

        Raises:
            IndexLost: the file was of no use, or cannot be written; the next run has another, empty one.
            IndexInUse: another process holds it.
        """
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
    """SQLite gives its other files the mode of this one. A file that exists is never opened here: closing it
    would let go of the locks SQLite holds on it in this process.

    Raises:
        OSError: something else than a file is there, or the disk refused.
    """
    with suppress(FileExistsError):
        os.close(create_private(path))
    for suffix in ("", *BESIDE):
        with suppress(FileNotFoundError):
            if not S_ISREG(os.lstat(f"{path}{suffix}").st_mode):
                raise OSError(errno.EINVAL, f"{path.name}{suffix} is no file")


def sound(row: "tuple[object, ...]", kinds: Sequence[type]) -> "tuple[Any, ...]":
    """A row, where its values are of these types and no number is below -1.

    Raises:
        sqlite3.DatabaseError: they are not: a file that is damaged holds anything.
    """
    import sqlite3

    for value, kind in zip(row, kinds, strict=True):
        if type(value) is not kind or (isinstance(value, int) and value < -1):
            raise sqlite3.DatabaseError("not what was written")
    return row


def _prepare(database: "sqlite3.Connection") -> None:
    """Create the tables where there are none.

    Raises:
        sqlite3.DatabaseError: what is there is of another version.
    """
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
