"""Reader for the sessions of opencode, as `opencode export` writes them, one JSON document, and as they are
stored (`opencode_store.py`)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.history import Damage
from foldline.protocol import FoldlineError, SessionHeader

from .base import ForeignSession, JsonObject, as_list, as_object, as_text, as_time, parse_object
from .opencode_parts import is_summary
from .opencode_reading import Reading
from .opencode_store import (
    StoredSession,
    exported_files,
    exported_rows,
    is_session_info,
    stored_in_database,
    stored_in_files,
)


def is_opencode(document: JsonObject) -> bool:
    """Whether this is an exported session, info on it and messages that each have info and parts; or a stored
    one, of which the messages lie beside it."""
    if is_session_info(document):
        return True
    messages = document.get("messages")
    if not isinstance(document.get("info"), dict) or not isinstance(messages, list):
        return False
    if not messages:
        return {"id", "directory"} <= as_object(document.get("info")).keys()
    return any(_is_message(message) for message in messages)


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("info"), dict)
        and isinstance(value.get("parts"), list)
    )


def read_opencode(data: bytes, path: Path) -> ForeignSession:
    """An opencode session.

    An index counts entries: a message of opencode may be several of ours.

    Raises:
        FoldlineError: the file is not a whole JSON document, or not such a session.
    """
    document, notes = _document(data)
    if document is None:
        raise FoldlineError(f"{path} is not JSON from end to end: export the session from opencode again.")
    if not is_opencode(document):
        raise FoldlineError(
            f"{path} is no session of opencode: it has no `info` beside messages with info and parts."
        )
    if is_session_info(document):
        return _from_store(exported_files(document, path), path, stored_in_files(path.parent.parent.parent))
    return _session(document, path, notes)


def read_opencode_database(path: Path, session: str) -> ForeignSession:
    """A session of opencode's database; the newest that no sub-agent held, where none is named.

    Raises:
        FoldlineError: there is no such session, or the database cannot be read.
    """
    stored = stored_in_database(path)
    if session:
        return _from_store(exported_rows(path, session), path, stored)
    newest = newest_of(stored, path)
    read = _from_store(exported_rows(path, newest.id), path, stored)
    return replace(read, notes=(*several_note(stored, newest), *read.notes))


def newest_of(stored: Iterable[StoredSession], path: Path) -> StoredSession:
    """The session last worked on, sub-agents' apart.

    Raises:
        FoldlineError: there is none.
    """
    newest = max((one for one in stored if not one.parent), key=lambda one: one.updated, default=None)
    if newest is None:
        raise FoldlineError(f"{path} holds no session of opencode.")
    return newest


def several_note(stored: Iterable[StoredSession], read: StoredSession) -> tuple[str, ...]:
    others = sum(not one.parent for one in stored) - 1
    many = f"Of its {others + 1} sessions, {read.id} was read, the newest: "
    return (f"{many}`foldline sessions --from opencode --all` lists them.",) if others else ()


def _from_store(document: JsonObject, path: Path, stored: Iterable[StoredSession]) -> ForeignSession:
    session = as_text(as_object(document.get("info")).get("id"))
    agents = [one.title or one.id for one in stored if session and one.parent == session]
    left_out = f"Left out: the sessions of its sub-agents: {', '.join(sorted(agents))}."
    return _session(document, path, [left_out] if agents else [])


def _session(document: JsonObject, path: Path, notes: list[str]) -> ForeignSession:
    info, messages = as_object(document.get("info")), as_list(document.get("messages"))
    reading = Reading(_completed_folds(messages), as_object(info.get("revert")))
    reading.title(as_text(info.get("title")))
    odd = 0
    for message in messages:
        if _is_message(message):
            reading.read(as_object(message["info"]), [as_object(part) for part in message["parts"]])
        else:
            odd += 1
    notes += [f"Messages without info and parts, left out: {odd}."] if odd else []
    origin = as_text(info.get("parentID"))
    notes += [f"It is a sub-session of {origin}."] if origin else []
    times = (
        as_object(info.get("time")),
        *(as_object(as_object(m).get("info")).get("time") for m in messages),
    )
    created = (as_time(as_object(time).get("created")) for time in times)
    header = SessionHeader(
        id=as_text(info.get("id")) or path.stem,
        created_at=next((time for time in created if time is not None), datetime.fromtimestamp(0, UTC)),
        cwd=as_text(info.get("directory")),
    )
    return ForeignSession("opencode", header, reading.done(), Damage(), (*notes, *reading.notes()))


def _document(data: bytes) -> tuple[JsonObject | None, list[str]]:
    """The document, also where some bytes of it are no text any more."""
    document = parse_object(data)
    if document is not None:
        return document, []
    mended = parse_object(data.decode(errors="replace").encode())
    return mended, ["Some bytes of the file are no UTF-8 text: each became a replacement character."]


def _completed_folds(messages: Sequence[object]) -> frozenset[str]:
    """The ids of the requests to compact that a summary answers. A summary that answers anything else is an
    answer like any other."""
    asked, answered = set(), set()
    for message in map(as_object, messages):
        info = as_object(message.get("info"))
        if is_summary(info):
            answered.add(as_text(info.get("parentID")))
        elif any(as_object(part).get("type") == "compaction" for part in as_list(message.get("parts"))):
            asked.add(as_text(info.get("id")))
    return frozenset((asked & answered) - {""})
