"""Reads the rows of a Codex session, including those in other files.

Such files contain the beginning of a fork, or subagents.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from foldline.files import read_regular
from foldline.formats.base import (
    JsonLine,
    JsonObject,
    bytes_in,
    json_lines,
    parse_object,
)
from foldline.protocol import system_words

_BARE_ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "local_shell_call",
)
"""Types of items that early-2025 files contain without an enclosing row."""
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{3,127}")
_HOMES = ("sessions", "archived_sessions")
_MOST_FILES = 1_000
"""Maximum number of files that make up one history.

Earlier files are not read.
"""
BEGINNING_MISSING = (
    "The beginning of the session is missing. The file whose name ends in {name}.jsonl was not found next to "
    "{file} or among Codex's sessions. If it exists with the suffix .zst, decompress it."
)
BEGINNING_UNREADABLE = "The beginning of the session, {file}, cannot be read: {reason}."
CHANGED = "{file} has been changed since, so the ordinals of its records are used."
BEGINS_IN = "The session begins in {file}."
REVERTED = "The session was reverted and continues in {file}."


@dataclass(frozen=True, slots=True)
class RolloutRow:
    position: int
    kind: str
    payload: JsonObject
    record: JsonObject
    at: datetime | None

    def is_event(self, name: str) -> bool:
        return self.kind == "event_msg" and self.payload.kind == name

    @property
    def completed(self) -> JsonObject:
        """The completed item in an event. Only paginated sessions have these events."""
        return (
            self.payload.object("item")
            if self.is_event("item_completed")
            else JsonObject()
        )

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts of a prompt: the whole text, then its pieces."""
        if self.is_event("user_message"):
            return (self.payload.text("message"),)
        if self.completed.kind != "UserMessage":
            return ()
        pieces = [piece.text("text") for piece in self.completed.objects("content")]
        return ("".join(pieces), *pieces)


def row_of(line: JsonLine) -> RolloutRow:
    record = line.record
    payload = record
    kind = ""
    if isinstance(record.get("payload"), dict):
        payload = record.object("payload")
        kind = record.kind
    elif is_bare_header(record):
        kind = "session_meta"
    elif record.kind in _BARE_ITEMS:
        kind = "response_item"
    return RolloutRow(line.position, kind, payload, record, line.at)


def is_bare_header(record: JsonObject) -> bool:
    if "type" in record:
        return False
    return (
        record.get("record_type") == "state"
        or {"id", "timestamp", "instructions"} <= record.keys()
    )


# --- the beginning in other files ---------------------------------------------------------------------


def with_beginning(
    lines: list[JsonLine], path: Path
) -> tuple[list[JsonLine], list[str]]:
    """Return the lines of the whole history, and notes for the user.

    Since version 0.145, the file of a fork or of a reverted session contains only its own lines. Its
    `history_base` refers to the previous file by the id at the end of that file's name. It also limits how
    much of the previous file is used, by a number of bytes and by record ordinals. Codex only appends to
    files, so the chain of these files is the whole history.
    """
    header = _header(lines)
    if header is None:
        return lines, []
    notes: list[str] = []
    pieces: list[list[JsonLine]] = []
    files = [path]
    first: JsonLine | None = header
    while first:
        base = first.record.object("payload", "history_base")
        if not base:
            break
        before = _lines_before(base, files, notes)
        first = _header(before)
        pieces.append([line for line in before if not _is_header(line)])
    records = [header.record]
    for piece in reversed(pieces):
        records += [line.record for line in piece]
    shift = len(records) - 1
    if shift == 0:
        return lines, notes
    history = [JsonLine(place, record) for place, record in enumerate(records)]
    own = [
        replace(line, position=line.position + shift)
        for line in lines
        if line is not header
    ]
    return history + own, notes


def _lines_before(
    base: JsonObject, files: list[Path], notes: list[str]
) -> list[JsonLine]:
    """Return the lines that precede those in the last file of `files`.

    Appends the file that contains these lines to `files`, and notes for the user to `notes`.
    """
    name = base.text("thread_id")
    file = next(files_of(name, files[-1]), None)
    if file is None or file in files or len(files) > _MOST_FILES:
        notes.append(BEGINNING_MISSING.format(name=name, file=files[-1].name))
        return []
    try:
        data = read_regular(file)
    except OSError as error:
        reason = system_words(error)
        notes.append(BEGINNING_UNREADABLE.format(file=file, reason=reason))
        return []
    end = base.count("end_byte_offset")
    if 0 < end <= len(data) and data[end - 1 : end] == b"\n":
        data = data[:end]
    else:
        notes.append(CHANGED.format(file=file.name))
    lines, damage = json_lines(data)
    if damage:
        notes.append(f"{file.name}: {damage}.")
    files.append(file)
    notes.append(BEGINS_IN.format(file=file.name))
    limit = base.get("end_ordinal_exclusive")
    if not isinstance(limit, int):
        return lines
    return [line for line in lines if _ordinal(line) < limit]


def newer_file_note(header: JsonObject, path: Path) -> list[str]:
    """Return a note if the session continues in a newer file after a revert."""
    name = header.text("id")
    if not _ID.fullmatch(name) or name not in path.name:
        return []
    newest = max([path, *path.parent.glob(f"*{name}_*.jsonl")])
    if newest == path:
        return []
    return [REVERTED.format(file=newest.name)]


def _is_header(line: JsonLine) -> bool:
    return line.kind == "session_meta"


def _header(lines: Iterable[JsonLine]) -> JsonLine | None:
    return next(filter(_is_header, lines), None)


def _ordinal(line: JsonLine) -> int:
    """Return a record's ordinal, or -1 if it is missing."""
    ordinal = line.record.get("ordinal")
    return ordinal if isinstance(ordinal, int) else -1


def files_of(thread_id: str, path: Path) -> Iterator[Path]:
    """Yield the session files with this id, starting with those in the same folder as `path`."""
    if not _ID.fullmatch(thread_id):
        return
    pattern = f"*{thread_id}.jsonl"
    paths = sorted(path.parent.glob(pattern))
    yield from filter(Path.is_file, paths)
    for folder in path.parents:
        if folder.name in _HOMES:
            for name in _HOMES:
                paths = sorted((folder.parent / name).rglob(pattern))
                yield from filter(Path.is_file, paths)
            break


# --- subagents, which have files of their own --------------------------------------------------------


def subagent_files(
    thread_id: str, parent: str, path: Path
) -> Iterator[tuple[Path, JsonObject]]:
    """Yield a subagent's file and header, if the header names this parent."""
    for file in files_of(thread_id, path):
        first_line = bytes_in(file).partition(b"\n")[0]
        first = parse_object(first_line) or JsonObject()
        header = first.object("payload")
        header |= header.object("source", "subagent", "thread_spawn")
        if parent and header.text("parent_thread_id") == parent:
            yield file, header
            return


def subagent_calls(rows: Iterable[RolloutRow]) -> dict[str, str]:
    """Return the ids of the calls that started subagents, by the subagents' thread ids.

    Each version of Codex uses different rows for this.
    """
    started: dict[str, str] = {}
    spawns: set[str] = set()
    for row in rows:
        payload = row.completed or row.payload
        call_id = payload.text("call_id")
        is_activity = payload.kind in ("sub_agent_activity", "SubAgentActivity")
        if is_activity and payload.get("kind") == "started":
            started[payload.text("agent_thread_id")] = payload.first("event_id", "id")
        elif row.is_event("collab_agent_spawn_end"):
            started[payload.text("new_thread_id")] = call_id
        elif payload.kind == "function_call" and payload.get("name") == "spawn_agent":
            spawns.add(call_id)
        elif payload.kind == "function_call_output" and call_id in spawns:
            output = parse_object(payload.text("output").encode()) or JsonObject()
            started.setdefault(output.text("agent_id"), call_id)
    started.pop("", None)
    return started
