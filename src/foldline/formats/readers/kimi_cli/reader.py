"""Reader for the sessions of kimi-cli (context and wire files) and of Kimi Code, its successor (wire files).

A context file is what the model sees. kimi-cli moves it aside, as `context_1.jsonl` and so on, before it
compacts, rewinds or clears. A wire file holds events of the screen; that of Kimi Code is the session itself.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from foldline.files import is_file, is_folder, read_regular
from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    JsonLine,
    JsonObject,
    child_in,
    child_of,
    json_lines,
    object_in,
)
from foldline.formats.beside import SharedFiles
from foldline.formats.parts import (
    first_text,
    has_image,
    parts_of,
    sub_agent_note,
    thinking_parts,
    tool_call_parts,
    user_message,
)
from foldline.formats.readers.kimi_code.reader import CodeWire
from foldline.formats.readers.kimi_code.results import result_of
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    DeveloperMessage,
    Entry,
    FoldlineError,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    Usage,
)
from foldline.sequences import overlap, same_start

from .beside import beside_kimi
from .wire import Wire

_CONTEXT_ROLES = ("_system_prompt", "_checkpoint", "_usage")
_CODE_TYPES = ("context.", "turn.", "config.", "profile.", "llm.", "tools.", "permission.")
"""Beginnings of the types of Kimi Code's records, which mostly have a time."""
_CODE_RECORDS = (
    "config.update", "context.append_loop_event", "context.append_message", "context.apply_compaction",
    "llm.request", "llm.tools_snapshot", "profile.bind", "turn.prompt",
)  # fmt: skip
"""Types of records that only Kimi Code has."""
_NAMES = ("context.jsonl", "wire.jsonl")
"""The file of a session, the fuller one first."""
SUMMARY = "<system>Previous context has been compacted"
"""How the message starts that holds the summary of a compaction."""
_DMAIL = "<system>You just got a D-Mail"
MACHINE = ("<system>", "<system-reminder>", "<notification", "<task-notification")
"""Beginnings of the messages in the role user that the program wrote."""
_FAILED = "<system>ERROR"
_MEDIA_FOLLOWS = "Non-text parts are sent as a user message below."
"""The end of a tool's result, in older files, whose image came as a user message."""


def recognises(record: JsonObject) -> bool:
    return record.role in _CONTEXT_ROLES or _is_wire(record) or _is_code_wire(record)


def _is_wire(record: JsonObject) -> bool:
    is_head = record.kind == "metadata" and "protocol_version" in record
    has_event = {"type", "payload"} <= record.object("message").keys()
    return is_head or ("timestamp" in record and has_event)


def _is_code_wire(record: JsonObject) -> bool:
    return record.kind in _CODE_RECORDS or ("time" in record and record.kind.startswith(_CODE_TYPES))


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session, with the earlier states of its context.

    An index is the place of a record in its file; earlier states count before it, each with one more for its
    end.
    """
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    if any(map(_is_code_wire, records)):
        reader: CodeWire | Wire | _Context = CodeWire(lines)
    elif any(map(_is_wire, records)):
        reader = Wire(lines)
    elif any("role" in record for record in records):
        reader = _Context(lines, path)
    else:
        raise FoldlineError(f"{path} has no record of kimi-cli: neither messages nor events of a wire.")
    log, name = reader.log, session_id_of(path)
    starts = {record.text("subagentId"): record for record in records if "parentToolCallId" in record}
    log.add_children(_children(path, log, starts))
    folders = (record.text("environmentDisclosure", "cwd") or record.text("cwd") for record in records)
    cwd = first_text(folders) or beside_kimi(path, name, SharedFiles()).cwd
    return log.session("kimi-cli", name, cwd, damage, reader.notes())


def session_id_of(path: Path) -> str:
    """Return the name of the session's folder, or its file's."""
    if path.parts[-3:-1] == ("agents", "main"):
        return path.parents[2].name
    return path.parent.name if path.stem in ("context", "wire") and path.parent.name else path.stem


def _children(path: Path, log: Transcript, starts: Mapping[str, JsonObject]) -> Iterator[ForeignChild]:
    """Read the subagents. `starts` are records of Kimi Code 2."""
    results = [entry for entry in log.in_order() if isinstance(entry, ToolResultMessage)]
    for name, file in _child_files(path).items():
        if session := child_in(read, file):
            about = starts.get(name) or object_in(file.with_name("meta.json"))
            calls = (result.call_id for result in results if f"agent_id: {name}\n" in result.text)
            call_id = about.text("parentToolCallId") or next(calls, "")
            agent, title = about.first("subagent_type", "subagentName"), about.text("description")
            yield child_of(session, name, agent=agent, title=title, call_id=call_id)


def _child_files(path: Path) -> dict[str, Path]:
    """Return the files of the subagents, by id.

    They are in folders below the session's, in Kimi Code beside that of the main agent; in older sessions, in
    files beside the session's.
    """
    files: dict[str, Path] = {}
    is_main = path.parts[-3:-1] == ("agents", "main")
    folder = path.parents[1] if is_main else path.parent / "subagents"
    if path.name in _NAMES:
        for file in (*folder.glob("*/wire.jsonl"), *folder.glob("*/context.jsonl")):
            if is_file(file) and file.parent.name != "main" and not file.parent.is_symlink():
                files[file.parent.name] = file
        files = dict(sorted(files.items()))
    if path.name == _NAMES[0]:
        files |= {file.stem: file for file in sorted(path.parent.glob("context_sub_*.jsonl"))}
    return files


# --- context files ----------------------------------------------------------------------------------


def rotations(path: Path) -> list[Path]:
    """Return the earlier states of a context file, oldest first.

    An earlier state has no earlier states. Files of sub-agents are numbered alike, after `_sub` or `_read`:
    they are sessions of their own.
    """
    if path.stem.endswith(("_sub", "_read")) or not is_folder(path.parent):
        return []
    pattern = re.compile(re.escape(path.stem) + r"_([0-9]{1,9})" + re.escape(path.suffix))
    matches = ((pattern.fullmatch(file.name), file) for file in path.parent.iterdir())
    numbered = sorted((int(match[1]), file) for match, file in matches if match)
    return [file for _, file in numbered if is_file(file)]


class _Context:
    """Turns the states of a context, one after the other, into one history.

    A later state is a compaction of the one before (it opens with a summary), a rewind of it (it is the same
    up to a checkpoint) or a fresh start.
    """

    def __init__(self, lines: list[JsonLine], path: Path) -> None:
        self.log = Transcript("kimi")
        self._notes: list[str] = []
        self._rows: list[JsonLine] = []
        """The records of the state that is read. The position of each is its index."""
        self._start = 0
        """The index of the first record of the file."""
        self._tokens = 0
        self._is_estimate = False
        """Whether the next count is kimi-cli's own estimate, as after a compaction."""
        # The prompts of a sub-agent's file come from another agent: known by where kimi-cli keeps such files.
        name = path.stem.rpartition("_")[0]
        self._by_agent = "subagents" in path.parts or name.endswith(("_sub", "_read"))
        earlier = {file.name: state for file in rotations(path) if (state := self._earlier(file)) is not None}
        states = [*earlier.values(), lines]
        records = (line.record for state in states for line in state)
        prompts = (record for record in records if record.role == "_system_prompt")
        self._prompts = [prompt.get("content") for prompt in prompts]
        """Each state repeats its own, and a view has only one: the last."""
        for state in states:
            self._read(state)
        self._notes += self.log.notes(("_system_prompt", "_usage"))
        if any(prompt != self._prompts[-1] for prompt in self._prompts):
            self._notes.append("The system prompt changed: the last one stands for all.")
        if earlier:
            self._notes.append(f"The session begins in its earlier states: {', '.join(earlier)}.")

    def notes(self) -> list[str]:
        return [*self._notes, *sub_agent_note(self._by_agent)]

    def _earlier(self, file: Path) -> list[JsonLine] | None:
        """Read an earlier state; note its damage."""
        try:
            state, damage = json_lines(read_regular(file))
        except OSError as error:
            self._notes.append(f"{file.name}, an earlier state, cannot be read ({error.strerror}).")
            return None
        if damage:
            self._notes.append(f"{file.name}: {damage}.")
        return state

    def _read(self, state: list[JsonLine]) -> None:
        rows = [JsonLine(self._start + line.position, line.record) for line in state]
        shared = self._continue(rows) if self.log.entries else 0
        if not shared:
            self._tokens = 0
        for row in rows[shared:]:
            self._add(row)
        self._start = rows[-1].position + 2 if rows else self._start + 1

    def _continue(self, rows: list[JsonLine]) -> int:
        """Connect a state with the one before; count the records this covers."""
        before, self._rows = self._rows, []
        records = [row.record for row in before]
        first = next(filter(_is_message, rows), None)
        if first and first.record not in records and _opens_with(first.record, SUMMARY):
            return self._compact(rows, rows.index(first), before)
        shared = same_start([row.record for row in rows], records)
        if shared == len(before):
            self._rows = before
            return shared
        return self._go_back(rows, before, shared)

    def _compact(self, rows: list[JsonLine], place: int, before: list[JsonLine]) -> int:
        """Add a compaction: the summary, then the newest earlier messages."""
        for row in rows[:place]:
            self._add(row)
        summary = rows[place]
        later = list(filter(_is_message, rows[place + 1 :]))
        earlier = list(filter(_is_message, before))
        size = overlap([row.record for row in earlier], [row.record for row in later])
        kept = earlier[len(earlier) - size :]
        context = set(self.log.messages())
        compaction = self.log.compaction(
            summary.position,
            self.log.parts(summary.record.get("content")),
            [row.position for row in kept if row.position in context],
            ahead=[row.position for row in self._rows if row.position in context],
            strategy="kimi-cli",
            tokens_before=self._tokens,
        )
        self.log.put(summary.position, compaction)
        self._is_estimate = True
        self._rows += [summary, *kept]
        return rows.index(later[size - 1] if size else summary) + 1

    def _go_back(self, rows: list[JsonLine], before: list[JsonLine], shared: int) -> int:
        """Add a rewind to the last shared checkpoint, or a clear."""
        summary = self.log.newest_summary()
        first = summary.index if summary else 0
        opening = next((row.record for row in rows[shared:] if _is_message(row)), JsonObject())
        is_rewind = _opens_with(opening, _DMAIL) or any(map(_is_message, rows[:shared]))
        for place in reversed(range(min(shared + 1, len(before)))):
            entry = self.log.entries[before[place].position]
            if is_rewind and isinstance(entry, Checkpoint) and entry.index >= first:
                self._rows = before[:place]
                self.log.go_back_to(entry.id, index=self._start - 1)
                return place
        self.log.put(self._start - 1, Clear())
        return 0

    def _add(self, row: JsonLine) -> None:
        role = row.record.role
        if role == "_checkpoint":
            self.log.checkpoint(index=row.position)
        else:
            self.log.put_record(row.position, self._entry(row.record, row.position), row.record, role)
        self._rows.append(row)

    def _entry(self, record: JsonObject, index: int) -> Entry | None:
        content = record.get("content")
        match record.role:
            case "_system_prompt":
                has_prompt = any(isinstance(entry, SystemMessage) for entry in self.log.entries.values())
                return None if has_prompt else SystemMessage(parts=self.log.parts(self._prompts[-1]))
            case "_usage":
                self._count(record.count("token_count"))
                return None
            case "assistant" | "user" if _opens_with(record, SUMMARY):
                self._is_estimate = True
                ahead, parts = self.log.messages(), self.log.parts(content)
                return self.log.compaction(index, parts, (), ahead=ahead, strategy="kimi-cli")
            case "user":
                return self._user(record)
            case "assistant":
                thinking = thinking_parts(record.text("reasoning_content"))
                calls = tool_call_parts(record.get("tool_calls"), index)
                return AssistantMessage(parts=(*thinking, *self.log.parts(content), *calls))
            case "tool":
                failed = record.flag("isError") or _opens_with(record, _FAILED)
                parts = self.log.parts(content)
                return result_of(record.text("tool_call_id"), parts, self.log, failed=failed)
            case "system":
                return DeveloperMessage(parts=self.log.parts(content))
            case _:
                return None

    def _user(self, record: JsonObject) -> BaseMessage:
        parts = self.log.parts(record.get("content"))
        by_program = _opens_with(record, MACHINE)
        if has_image(parts) and (by_program or self._media_follows()):
            return user_message(parts, typed=False)
        if not by_program:
            return user_message(parts, typed=not self._by_agent)
        return DeveloperMessage(parts=parts, origin="dmail" if _opens_with(record, _DMAIL) else "notice")

    def _media_follows(self) -> bool:
        """Return whether the newest message announces an image."""
        messages = (entry for entry in reversed(self.log.entries.values()) if isinstance(entry, BaseMessage))
        newest = next(messages, None)
        return isinstance(newest, ToolResultMessage) and _MEDIA_FOLLOWS in newest.text

    def _count(self, tokens: int) -> None:
        """Give a token count to the answer right before it.

        Older files count before the answer, too: what it grew by is the answer. Newer ones know the sum only,
        which then stands as input.
        """
        before, self._tokens = self._tokens, tokens
        is_estimate, self._is_estimate = self._is_estimate, False
        newest = next(reversed(self.log.entries), -1)
        answer = self.log.entries.get(newest)
        if is_estimate or not isinstance(answer, AssistantMessage) or answer.usage or not tokens:
            return
        counted_before = len(self._rows) > 1 and self._rows[-2].record.role == "_usage"
        output = tokens - before if counted_before else 0
        if not 0 <= output < tokens:
            output = 0
        self.log.change(newest, usage=Usage(input=tokens - output, output=output))


def _is_message(row: JsonLine) -> bool:
    return not row.record.role.startswith("_")


def _opens_with(record: JsonObject, start: str | tuple[str, ...]) -> bool:
    parts = parts_of(record.get("content"), [])
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(start)
