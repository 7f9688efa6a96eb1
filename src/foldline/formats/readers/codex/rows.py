"""The rows of a Codex session, with those in other files: the beginning of a fork, and subagents."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from foldline.files import read_regular
from foldline.formats.base import JsonLine, JsonObject, bytes_in, json_lines, parse_object
from foldline.protocol import system_words

_BARE_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
"""Items that files of early 2025 have without a row around them."""
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{3,127}")
_HOMES = ("sessions", "archived_sessions")
_MOST_FILES = 1_000
"""Most files of one history."""


@dataclass(frozen=True, slots=True)
class Row:
    position: int
    kind: str
    payload: JsonObject
    record: JsonObject
    at: datetime | None

    def is_event(self, name: str) -> bool:
        return self.kind == "event_msg" and self.payload.kind == name

    @property
    def completed(self) -> JsonObject:
        """The completed item in an event of paginated sessions."""
        return self.payload.object("item") if self.is_event("item_completed") else JsonObject()

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts of a prompt: all of it, then its pieces."""
        if self.is_event("user_message"):
            return (self.payload.text("message"),)
        if self.completed.kind != "UserMessage":
            return ()
        pieces = [piece.text("text") for piece in self.completed.objects("content")]
        return ("".join(pieces), *pieces)


def row_of(line: JsonLine) -> Row:
    record = line.record
    if isinstance(record.get("payload"), dict):
        return Row(line.position, record.kind, record.object("payload"), record, line.at)
    kind = "response_item" if record.kind in _BARE_ITEMS else ""
    if is_bare_header(record):
        kind = "session_meta"
    return Row(line.position, kind, record, record, line.at)


def is_bare_header(record: JsonObject) -> bool:
    if "type" in record:
        return False
    return record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()


# --- the beginning in other files ---------------------------------------------------------------------


def with_beginning(lines: list[JsonLine], path: Path) -> tuple[list[JsonLine], list[str]]:
    """Return the lines of the whole history, and notes.

    Since 0.145 the file of a fork or of a reverted thread holds only its own lines. Its `history_base` names
    the file before it, by the id at the end of its name, and how much of that counts, in bytes and by the
    ordinals of records. Files only grow, so that a chain of them is the whole history.
    """
    header = _header(lines)
    if header is None:
        return lines, []
    notes: list[str] = []
    pieces: list[list[JsonLine]] = []
    files = [path]
    first: JsonLine | None = header
    while first and (base := first.record.object("payload", "history_base")):
        before = _lines_before(base, files, notes)
        first = _header(before)
        pieces.append([line for line in before if not _is_header(line)])
    earlier = [line.record for piece in reversed(pieces) for line in piece]
    if not earlier:
        return lines, notes
    history = [JsonLine(place, record) for place, record in enumerate([header.record, *earlier])]
    own = [replace(line, position=line.position + len(earlier)) for line in lines if line is not header]
    return history + own, notes


def _lines_before(base: JsonObject, files: list[Path], notes: list[str]) -> list[JsonLine]:
    """Return the lines before those of the last file.

    Their file is appended to `files`, and what a reader should know to `notes`.
    """
    name = base.text("thread_id")
    file = next(files_of(name, files[-1]), None)
    if file is None or file in files or len(files) > _MOST_FILES:
        notes.append(
            f"The beginning of the session is missing: it lies in the file whose name ends in {name}.jsonl, "
            f"which is neither beside {files[-1].name} nor among Codex's sessions (one that ends in .zst: "
            "unpack it)."
        )
        return []
    try:
        data = read_regular(file)
    except OSError as error:
        notes.append(f"Its beginning, {file}, cannot be read: {system_words(error)}.")
        return []
    end = base.get("end_byte_offset")
    if not (isinstance(end, int) and 0 < end <= len(data) and data[end - 1 : end] == b"\n"):
        notes.append(f"{file.name} is not what it was: it is read by the ordinals of its records.")
        end = len(data)
    lines, damage = json_lines(data[:end])
    if damage:
        notes.append(f"{file.name}: {damage}.")
    files.append(file)
    notes.append(f"The session begins in {file.name}.")
    last = base.get("end_ordinal_exclusive")
    limit = last if isinstance(last, int) else math.inf
    return [line for line in lines if _ordinal(line) < limit]


def newer_file_note(header: JsonObject, path: Path) -> list[str]:
    """Return a note if a revert began a newer file."""
    name = header.text("id")
    if not _ID.fullmatch(name) or name not in path.name:
        return []
    newest = max((file.name for file in path.parent.glob(f"*{name}_*.jsonl")), default="")
    return [f"The thread was reverted, and goes on in {newest}."] if newest > path.name else []


def _is_header(line: JsonLine) -> bool:
    return line.kind == "session_meta"


def _header(lines: Iterable[JsonLine]) -> JsonLine | None:
    return next(filter(_is_header, lines), None)


def _ordinal(line: JsonLine) -> int:
    """Return the ordinal of a record, -1 without one."""
    ordinal = line.record.get("ordinal")
    return ordinal if isinstance(ordinal, int) else -1


def files_of(thread_id: str, path: Path) -> Iterator[Path]:
    """Yield session files by id, the nearest first."""
    if not _ID.fullmatch(thread_id):
        return
    pattern = f"*{thread_id}.jsonl"
    paths = sorted(path.parent.glob(pattern))
    home = next((folder.parent for folder in path.parents if folder.name in _HOMES), None)
    yield from filter(Path.is_file, paths)
    if home is not None:
        for name in _HOMES:
            yield from filter(Path.is_file, sorted((home / name).rglob(pattern)))


# --- subagents, which have files of their own --------------------------------------------------------


def subagent_files(thread_id: str, parent: str, path: Path) -> Iterator[tuple[Path, JsonObject]]:
    """Yield the subagent's file and header if it names this parent."""
    for file in files_of(thread_id, path):
        first = parse_object(bytes_in(file).partition(b"\n")[0]) or JsonObject()
        payload = first.object("payload")
        header = JsonObject({**payload, **payload.object("source", "subagent", "thread_spawn")})
        if parent and header.text("parent_thread_id") == parent:
            yield file, header
            return


def subagent_calls(rows: Iterable[Row]) -> dict[str, str]:
    """Return the calls that started subagents, by thread id.

    Each version has them in other rows.
    """
    started: dict[str, str] = {}
    spawns: set[str] = set()
    for row in rows:
        payload = row.completed or row.payload
        call_id = payload.text("call_id")
        if payload.kind in ("sub_agent_activity", "SubAgentActivity") and payload.get("kind") == "started":
            started[payload.text("agent_thread_id")] = payload.first("event_id", "id")
        elif row.is_event("collab_agent_spawn_end"):
            started[payload.text("new_thread_id")] = call_id
        elif payload.kind == "function_call" and payload.get("name") == "spawn_agent":
            spawns.add(call_id)
        elif payload.kind == "function_call_output" and call_id in spawns:
            output = parse_object(payload.text("output").encode()) or JsonObject()
            started.setdefault(output.text("agent_id"), call_id)
    return {thread_id: call for thread_id, call in started.items() if thread_id}
