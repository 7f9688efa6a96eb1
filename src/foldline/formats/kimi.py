"""Reader for the sessions of kimi-cli (context and wire files) and of Kimi Code, its successor (wire files).

A context file is what the model sees. kimi-cli moves it aside, as `context_1.jsonl` and so on, before it
folds, rewinds or clears. A wire file is what the screen was told; that of Kimi Code is the session itself.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from foldline.files import read_regular
from foldline.history import Damage
from foldline.protocol import Entry, FoldlineError, SessionHeader

from .base import ForeignSession, JsonLine, JsonObject, as_text, json_lines
from .beside import Neighbours
from .detection import Noted
from .kimi_code import read_code_wire
from .kimi_context import Generation, read_context, rotations
from .kimi_wire import read_wire

_CONTEXT_ROLES = ("_system_prompt", "_checkpoint", "_usage")
_CODE_TYPES = ("context.", "turn.", "config.", "profile.", "llm.", "tools.", "permission.")
"""How the types of Kimi Code's records start, which mostly have a time."""
_CODE_RECORDS = (
    "config.update",
    "context.append_loop_event",
    "context.append_message",
    "context.apply_compaction",
    "llm.request",
    "llm.tools_snapshot",
    "profile.bind",
    "turn.prompt",
)
"""Those that are nobody else's."""


def is_kimi(records: Sequence[JsonObject]) -> bool:
    """Whether records are those of a context or wire file. One of plain messages only is a chat."""
    return any(
        record.get("role") in _CONTEXT_ROLES or _is_wire(record) or _is_code_wire(record)
        for record in records
    )


def _is_wire(record: JsonObject) -> bool:
    message = record.get("message")
    return (record.get("type") == "metadata" and "protocol_version" in record) or (
        "timestamp" in record and isinstance(message, dict) and {"type", "payload"} <= message.keys()
    )


def _is_code_wire(record: JsonObject) -> bool:
    kind = as_text(record.get("type"))
    return kind in _CODE_RECORDS or ("time" in record and kind.startswith(_CODE_TYPES))


def read_kimi(data: bytes, path: Path) -> ForeignSession:
    """A session. Where a context file has earlier states beside it, they are its beginning.

    An index is the place of a record in its file; earlier states count before it, each with one more for what
    ended it.

    Raises:
        FoldlineError: no record of the file is kimi-cli's.
    """
    lines, damage = json_lines(data)
    if any(_is_code_wire(line.record) for line in lines):
        return _session(path, read_code_wire(lines), damage)
    if any(_is_wire(line.record) for line in lines):
        return _session(path, read_wire(lines), damage)
    if not any("role" in line.record for line in lines):
        raise FoldlineError(f"{path} has no record of kimi-cli: neither messages nor events of a wire.")
    return _context(lines, damage, path)


def _context(lines: list[JsonLine], damage: Damage, path: Path) -> ForeignSession:
    earlier, notes = [], []
    for file in rotations(path):
        try:
            before, damaged = json_lines(read_regular(file))
        except OSError as error:
            notes.append(f"{file.name}, an earlier state, cannot be read ({error.strerror}).")
            continue
        if damaged:
            notes.append(f"{file.name}: {damaged}.")
        earlier.append(Generation(file.name, before))
    noted = read_context([*earlier, Generation(path.name, lines)], by_agent=_is_sub_agent(path))
    return _session(path, Noted(noted.entries, (*notes, *noted.notes)), damage)


def _is_sub_agent(path: Path) -> bool:
    """Whether the prompts of a file come from another agent, by where kimi-cli keeps such files."""
    name, _, _ = path.stem.rpartition("_")
    return "subagents" in path.parts or name.endswith(("_sub", "_read"))


def session_id_of(path: Path) -> str:
    """A session is called as its folder; files outside of such a folder have names of their own."""
    if path.parts[-3:-1] == ("agents", "main"):
        return path.parents[2].name
    return path.parent.name if path.stem in ("context", "wire") and path.parent.name else path.stem


def _session(path: Path, noted: Noted, damage: Damage) -> ForeignSession:
    name = session_id_of(path)
    created = next((entry.at for entry in noted.entries if entry.at), datetime.fromtimestamp(0, UTC))
    cwd = noted.cwd or Neighbours().of("kimi-cli", path, name).cwd
    header = SessionHeader(id=name, created_at=created, cwd=cwd)
    notes = ([f"{damage}."] if damage else []) + list(noted.notes)
    return ForeignSession("kimi-cli", header, list[Entry](noted.entries), damage, tuple(notes), noted.counted)
