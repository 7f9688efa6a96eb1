"""Reader for the sessions ("rollouts") of Codex.

A file tells most things twice: as an item of the model's context, and as an event for the interface. The
items are read; events give what items lack: usage, what patches changed, what was typed, turns taken back.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from foldline.protocol import FoldlineError, SessionHeader

from .base import ForeignSession, JsonLine, JsonObject, as_list, as_object, as_text, as_time, json_lines
from .codex_items import Row, told_in
from .codex_lineage import Lineage, lineage
from .codex_reading import Reading

_ROWS = (
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
    "world_state",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
)
_BARE_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
"""What stands in the files of early 2025 without a row around it."""


def is_codex(records: Sequence[JsonObject]) -> bool:
    """Whether these are rows of a Codex session."""
    return any(_is_row(record) or _is_bare_header(record) for record in records)


def _is_row(record: JsonObject) -> bool:
    return record.get("type") in _ROWS and isinstance(record.get("payload"), dict)


def _is_bare_header(record: JsonObject) -> bool:
    return "type" not in record and (
        record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()
    )


def read_codex(data: bytes, path: Path) -> ForeignSession:
    """A Codex session.

    An index is the place of a row among the lines, plus one for every entry so far that shared a row with
    another: a row may hold several messages. What came before a fork, in other files, counts before it.

    Raises:
        FoldlineError: no line of the file is a row of Codex.
    """
    lines, damage = json_lines(data)
    if not is_codex([line.record for line in lines]):
        raise FoldlineError(
            f"{path} has no rows of Codex: no line has a type such as `response_item` and a payload."
        )
    before = Lineage()
    head = next((line for line in lines if line.record.get("type") == "session_meta"), None)
    if head is not None and (before := lineage(as_object(head.record.get("payload")), path)).lines:
        own = [
            replace(line, position=line.position + len(before.lines)) for line in lines if line is not head
        ]
        lines = [replace(head, position=0), *before.lines, *own]
    rows = [_row(line) for line in lines]
    about = next((row for row in rows if row.kind == "session_meta"), None)
    reading = Reading(
        prompts=_typed(rows), said=_said(rows), damaged=bool(damage), goes_back=_goes_back(rows)
    )
    for row in rows:
        reading.read(row)
    notes = [f"{damage}."] if damage else []
    origin = as_text(about.payload.get("forked_from_id")) if about else ""
    notes += [f"The session was forked from {origin}."] if origin else []
    notes += before.notes
    header = _header(about, rows, path)
    return ForeignSession("codex", header, reading.done(), damage, (*notes, *reading.notes()))


def _row(line: JsonLine) -> Row:
    record = line.record
    at = as_time(record.get("timestamp"))
    if isinstance(record.get("payload"), dict):
        return Row(line.position, as_text(record.get("type")), record["payload"], record, at)
    kind = "response_item" if record.get("type") in _BARE_ITEMS else ""
    return Row(line.position, "session_meta" if _is_bare_header(record) else kind, record, record, at)


def _header(about: Row | None, rows: Sequence[Row], path: Path) -> SessionHeader:
    payload = about.payload if about else {}
    times = (as_time(payload.get("timestamp")), *(row.at for row in rows))
    folders = (payload.get("cwd"), *(row.payload.get("cwd") for row in rows if row.kind == "turn_context"))
    return SessionHeader(
        id=as_text(payload.get("id")) or path.stem,
        created_at=next((time for time in times if time is not None), datetime.fromtimestamp(0, UTC)),
        cwd=next(filter(None, map(as_text, folders)), ""),
    )


def _typed(rows: Sequence[Row]) -> frozenset[str]:
    """What the user typed, as the events of the interface say."""
    typed = [text for row in rows for text in told_in(row, "user_message", "UserMessage")]
    return frozenset(typed) - {""}


def _said(rows: Sequence[Row]) -> frozenset[str]:
    """The texts of all messages that are items."""
    contents = [as_list(row.payload.get("content")) for row in rows if row.kind == "response_item"]
    return frozenset(as_text(as_object(piece).get("text")) for content in contents for piece in content)


def _goes_back(rows: Sequence[Row]) -> bool:
    return any(row.is_event("thread_rolled_back") for row in rows)
