"""Reader for the sessions of opencode, as `opencode export` writes them: one JSON document."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from foldline.history import Damage
from foldline.protocol import FoldlineError, SessionHeader

from .base import ForeignSession, JsonObject, as_list, as_object, as_text, as_time, parse_object
from .opencode_parts import is_summary
from .opencode_reading import Reading

_BOM = b"\xef\xbb\xbf"


def is_opencode(document: JsonObject) -> bool:
    """Whether this is an exported session: info on it, and messages that each have info and parts."""
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
    document, notes = _document(data.removeprefix(_BOM))
    if document is None:
        raise FoldlineError(f"{path} is not JSON from end to end: export the session from opencode again.")
    if not is_opencode(document):
        raise FoldlineError(
            f"{path} is no session of opencode: it has no `info` beside messages with info and parts."
        )
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
    """The ids of the requests to compact that a summary answers."""
    infos = [as_object(as_object(message).get("info")) for message in messages]
    return frozenset(as_text(info.get("parentID")) for info in infos if is_summary(info))
