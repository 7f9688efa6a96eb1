"""Reads opencode's stored sessions: a folder of JSON files or, since 1.2, a database.

Sessions from either are converted to the document that `opencode export` would write. Nothing is changed, and
no lock or journal is created next to a database.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from urllib.parse import quote

from foldline.formats.base import Json, JsonObject, object_in, parse_object
from foldline.protocol import FoldlineError
from foldline.sequences import grouped

# Names of folders in the older store, and of tables in the database:
_SESSIONS = "session"
_MESSAGES = "message"
_PARTS = "part"


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: str
    path: Path
    """The session's file, or the database's path followed by the session's id."""
    title: str
    cwd: str
    updated: int
    """The time of the last change, in milliseconds since 1970."""
    parent: str = ""
    """The id of the session that started this one as a subagent.

    Empty for other sessions.
    """


def is_session_info(document: JsonObject) -> bool:
    """Return whether this is a session file of the older store."""
    has_fields = {"id", "directory", "time"} <= document.keys()
    return has_fields and document.keys().isdisjoint(("info", "messages", "role"))


def is_store(folder: Path) -> bool:
    return (folder / _SESSIONS).is_dir() and (folder / _MESSAGES).is_dir()


def exported(stored: StoredSession) -> JsonObject:
    """Return a stored session as one document.

    Raises:
        FoldlineError: the session cannot be read.
    """
    if stored.path.is_file():
        return exported_files(object_in(stored.path), stored.path)
    return exported_rows(stored.path.parent, stored.id)


def exported_files(info: JsonObject, path: Path) -> JsonObject:
    store = path.parent.parent.parent
    session = info.text("id")
    messages: list[Json] = []
    for message in _objects(store / _MESSAGES / session):
        parts = _objects(store / _PARTS / message.text("id"))
        messages.append({"info": message, "parts": parts})
    return JsonObject(info=info, messages=messages)


def stored_in_files(store: Path) -> Iterator[StoredSession]:
    """Yield the sessions in a folder, in no particular order."""
    for path in store.glob(f"{_SESSIONS}/*/*.json"):
        info = object_in(path)
        if is_session_info(info):
            yield _stored(info, path)


def _stored(info: JsonObject, path: Path) -> StoredSession:
    return StoredSession(
        id=info.text("id"),
        path=path,
        title=info.text("title"),
        cwd=info.text("directory"),
        updated=info.count("time", "updated"),
        parent=info.text("parentID"),
    )


def _objects(folder: Path) -> list[JsonObject]:
    """Return the JSON objects in a folder, oldest first.

    opencode's file names begin with the time.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []
    return list(filter(None, map(object_in, paths)))


# --- the database -----------------------------------------------------------------------------------


def tables_of(path: Path) -> set[str]:
    """Return the names of a database's tables.

    Raises:
        FoldlineError: the database cannot be read.
    """
    with _reading(path) as database:
        return {
            str(row["name"])
            for row in _rows(database, "SELECT name FROM sqlite_master")
        }


def is_opencode_database(tables: set[str]) -> bool:
    return {_SESSIONS, _MESSAGES, _PARTS} <= tables


def stored_in_database(path: Path) -> list[StoredSession]:
    """Return the sessions in a database, in no particular order.

    Raises:
        FoldlineError: the database cannot be read.
    """
    with _reading(path) as database:
        infos = [_info(row) for row in _rows(database, "SELECT * FROM session")]
    return [_stored(info, path / info.text("id")) for info in infos]


def exported_rows(path: Path, session: str) -> JsonObject:
    """Return a session in a database as one document.

    Raises:
        FoldlineError: there is no session with that id, or the database cannot be read.
    """
    with _reading(path) as database:
        infos = _rows(database, "SELECT * FROM session WHERE id = ?", session)
        messages = _rows(
            database,
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            session,
        )
        parts = _rows(
            database,
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id",
            session,
        )
    if not infos:
        raise FoldlineError(f"{path} has no session {session!r}.")
    parts_of = grouped((row.text("message_id"), _data(row)) for row in parts)
    documents: list[Json] = []
    for row in messages:
        info = JsonObject(_data(row), sessionID=session)
        documents.append({"info": info, "parts": parts_of.get(row.text("id"), [])})
    return JsonObject(info=_info(infos[0]), messages=documents)


def _data(row: JsonObject) -> JsonObject:
    """Return the JSON object in a row, with the row's id added."""
    return JsonObject({**_parsed(row["data"]), "id": row.text("id")})


def _parsed(value: Json) -> JsonObject:
    if isinstance(value, str):
        value = value.encode(errors="replace")
    return (parse_object(value) if isinstance(value, bytes) else None) or JsonObject()


def _info(row: JsonObject) -> JsonObject:
    return JsonObject(
        id=row.text("id"),
        parentID=row.text("parent_id"),
        directory=row.text("directory"),
        title=row.text("title"),
        time={"created": row.get("time_created"), "updated": row.get("time_updated")},
        revert=_parsed(row.get("revert")),
    )


def _rows(database: sqlite3.Connection, query: str, *values: str) -> list[JsonObject]:
    return [JsonObject(row) for row in database.execute(query, values)]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database without writing anything next to it.

    Not even a journal index is written. Without a journal, the file is complete and is opened as `immutable`.
    While opencode is running, there is a journal with an index; both are read in place. If a journal has no
    index, SQLite would create one, so copies of the database and the journal are read instead.
    """
    journal, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    try:
        pending = journal.is_file() and journal.stat().st_size > 0
        if pending and not index.is_file():
            with TemporaryDirectory(prefix="foldline-") as folder:
                for file in (path, journal):
                    copyfile(file, Path(folder, file.name))
                with _opened(Path(folder, path.name), "mode=rw") as database:
                    yield database
        else:
            with _opened(
                path, "mode=ro" if pending else "mode=ro&immutable=1"
            ) as database:
                yield database
    except (sqlite3.Error, OSError) as error:
        raise FoldlineError(f"{path} cannot be read as a database: {error}.") from None


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)
    ) as database:
        database.row_factory = sqlite3.Row
        database.text_factory = lambda data: data.decode(errors="replace")
        yield database
