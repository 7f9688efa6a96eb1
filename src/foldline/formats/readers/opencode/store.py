"""Where opencode keeps its sessions: a folder of JSON files, or, since 1.2, a database.

Both hold what `opencode export` writes as one document; here they become that document. Nothing is written:
no lock and no journal is left beside a database.
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

_SESSIONS, _MESSAGES, _PARTS = "session", "message", "part"
"""The folders of the older store, and the tables of the database."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: str
    path: Path
    """What `read_foreign` reads it by; in a database, its id behind the file's path."""
    title: str
    cwd: str
    updated: int
    """Milliseconds since 1970."""
    parent: str = ""
    """Of a sub-agent's session: the id of the one that started it."""


def is_session_info(document: JsonObject) -> bool:
    """Whether this is the file of a session in the folder: what it is called and where, without messages."""
    return {"id", "directory", "time"} <= document.keys() and not {
        "info",
        "messages",
        "role",
    } & document.keys()


def is_store(folder: Path) -> bool:
    return (folder / _SESSIONS).is_dir() and (folder / _MESSAGES).is_dir()


def exported(stored: StoredSession) -> JsonObject:
    """A session, as one document. Raises FoldlineError where it cannot be read."""
    if stored.path.is_file():
        return exported_files(object_in(stored.path), stored.path)
    return exported_rows(stored.path.parent, stored.id)


def exported_files(info: JsonObject, path: Path) -> JsonObject:
    store = path.parent.parent.parent
    session = info.text("id")
    messages = [
        {"info": message, "parts": _objects(store / _PARTS / message.text("id"))}
        for message in _objects(store / _MESSAGES / session)
    ]
    return JsonObject(info=info, messages=messages)


def stored_in_files(store: Path) -> Iterator[StoredSession]:
    """The sessions of a folder, in no order."""
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
    """The objects in the files of a folder, oldest first: opencode's ids begin with the time."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []
    return [found for path in paths if (found := object_in(path))]


# --- the database -----------------------------------------------------------------------------------


def tables_of(path: Path) -> set[str]:
    """The tables of a database.

    Raises:
        FoldlineError: it cannot be read.
    """
    with _reading(path) as database:
        return {str(row["name"]) for row in _rows(database, "SELECT name FROM sqlite_master")}


def is_opencode_database(tables: set[str]) -> bool:
    return {_SESSIONS, _MESSAGES, _PARTS} <= tables


def stored_in_database(path: Path) -> list[StoredSession]:
    """The sessions of a database, in no order.

    Raises:
        FoldlineError: it cannot be read.
    """
    with _reading(path) as database:
        infos = [_info(row) for row in _rows(database, "SELECT * FROM session")]
    return [_stored(info, path / info.text("id")) for info in infos]


def exported_rows(path: Path, session: str) -> JsonObject:
    """A session of a database, as one document.

    Raises:
        FoldlineError: there is none with that id, or the database cannot be read.
    """
    with _reading(path) as database:
        infos = _rows(database, "SELECT * FROM session WHERE id = ?", session)
        messages = _rows(
            database, "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", session
        )
        parts = _rows(
            database, "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", session
        )
    if not infos:
        raise FoldlineError(f"{path} has no session {session!r}.")
    by_message = grouped((row.text("message_id"), _data(row)) for row in parts)
    return JsonObject(
        info=_info(infos[0]),
        messages=[
            {"info": JsonObject(_data(row), sessionID=session), "parts": by_message.get(row.text("id"), [])}
            for row in messages
        ],
    )


def _data(row: JsonObject) -> JsonObject:
    """What a row says: its columns beside `data` are left out of that."""
    return JsonObject({**_parsed(row["data"]), "id": row.text("id")})


def _parsed(value: Json) -> JsonObject:
    data = value.encode(errors="replace") if isinstance(value, str) else value
    return (parse_object(data) if isinstance(data, bytes) else None) or JsonObject()


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
    """A database opened so that nothing is written: not even the index of its journal.

    Without a journal that holds anything, the file alone is all there is (`immutable`). With one and its
    index, as while opencode runs, both are read where they are. A journal without its index, which SQLite
    would write, is read in a copy.
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
            with _opened(path, "mode=ro" if pending else "mode=ro&immutable=1") as database:
                yield database
    except (sqlite3.Error, OSError) as error:
        raise FoldlineError(f"{path} cannot be read as a database: {error}.") from None


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)) as database:
        database.row_factory = sqlite3.Row
        database.text_factory = lambda data: data.decode(errors="replace")
        yield database
