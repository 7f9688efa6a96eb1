"""Reader for the sessions of kimi-cli (context and wire files) and of Kimi Code, its successor (wire files).

A context file is what the model sees. kimi-cli moves it aside, as `context_1.jsonl` and so on, before it
compacts, rewinds or clears. A wire file holds events of the screen; that of Kimi Code is the session itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from foldline.files import is_file, is_folder, read_regular
from foldline.formats.base import (
    Counted,
    ForeignChild,
    ForeignSession,
    Json,
    JsonLine,
    JsonObject,
    child_in,
    child_of,
    json_lines,
    object_in,
)
from foldline.formats.beside import SharedFiles, beside_kimi
from foldline.formats.parts import (
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
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
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
    return record.get("role") in _CONTEXT_ROLES or _is_wire(record) or _is_code_wire(record)


def _is_wire(record: JsonObject) -> bool:
    is_head = record.kind == "metadata" and "protocol_version" in record
    has_event = {"type", "payload"} <= record.object("message").keys()
    return is_head or ("timestamp" in record and has_event)


def _is_code_wire(record: JsonObject) -> bool:
    return record.kind in _CODE_RECORDS or ("time" in record and record.kind.startswith(_CODE_TYPES))


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session. The earlier states beside a context file are its beginning.

    An index is the place of a record in its file; earlier states count before it, each with one more for what
    ended it.
    """
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    if any(map(_is_code_wire, records)):
        code = CodeWire(lines)
        starts = {record.text("subagentId"): record for record in records if "parentToolCallId" in record}
        return _session(path, code.log, damage, code.notes(), code.cwd, code.counted, starts)
    if any(map(_is_wire, records)):
        wire = Wire(lines)
        return _session(path, wire.log, damage, wire.notes())
    if not any("role" in record for record in records):
        raise FoldlineError(f"{path} has no record of kimi-cli: neither messages nor events of a wire.")
    return _read_context(lines, damage, path)


def session_id_of(path: Path) -> str:
    """Return the name of the session's folder, or of a file outside of such a folder."""
    if path.parts[-3:-1] == ("agents", "main"):
        return path.parents[2].name
    return path.parent.name if path.stem in ("context", "wire") and path.parent.name else path.stem


def _session(
    path: Path,
    log: Transcript,
    damage: Damage,
    notes: Iterable[str],
    cwd: str = "",
    counted: Sequence[Counted] = (),
    starts: Mapping[str, JsonObject] = MappingProxyType({}),
) -> ForeignSession:
    name = session_id_of(path)
    log.children = {child.id: child for child in _children(path, log, starts)}
    cwd = cwd or beside_kimi(path, name, SharedFiles()).cwd
    return log.session("kimi-cli", name, cwd, damage, notes, counted=counted)


# --- subagents --------------------------------------------------------------------------------------


def _children(path: Path, log: Transcript, starts: Mapping[str, JsonObject]) -> Iterator[ForeignChild]:
    """Read the subagents. `starts` are the records of Kimi Code 2 that name their calls."""
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
    if path.name in _NAMES and is_folder(folder):
        for child in sorted(folder.iterdir()):
            file = next(filter(is_file, (child / name for name in _NAMES)), None)
            if file and child.name != "main" and not child.is_symlink():
                files[child.name] = file
    if path.name == _NAMES[0] and is_folder(path.parent):
        files |= {file.stem: file for file in sorted(path.parent.glob("context_sub_*.jsonl"))}
    return files


# --- context files ----------------------------------------------------------------------------------


def rotations(path: Path) -> list[Path]:
    """Return the earlier states beside a context file, oldest first. A rotation has none of its own.

    Files of sub-agents are numbered alike, after `_sub` or `_read`: they are sessions of their own.
    """
    if path.stem.endswith(("_sub", "_read")) or not is_folder(path.parent):
        return []
    pattern = re.compile(re.escape(path.stem) + r"_([0-9]{1,9})" + re.escape(path.suffix))
    matches = ((pattern.fullmatch(file.name), file) for file in path.parent.iterdir())
    numbered = sorted((int(match[1]), file) for match, file in matches if match)
    return [file for _, file in numbered if is_file(file)]


def _read_context(lines: list[JsonLine], damage: Damage, path: Path) -> ForeignSession:
    notes: list[str] = []
    states = {file.name: _state_in(file, notes) for file in rotations(path)}
    earlier = {name: state for name, state in states.items() if state is not None}
    records = [line.record for state in (*earlier.values(), lines) for line in state]
    prompts = [record.get("content") for record in records if record.get("role") == "_system_prompt"]
    # The prompts of a sub-agent's file come from another agent: known by where kimi-cli keeps such files.
    by_agent = "subagents" in path.parts or path.stem.rpartition("_")[0].endswith(("_sub", "_read"))
    context = _Context(by_agent, prompts[-1] if prompts else None)
    for state in (*earlier.values(), lines):
        context.read(state)
    notes += context.log.notes(("_system_prompt", "_usage"))
    if any(prompt != prompts[-1] for prompt in prompts):
        notes.append("The system prompt changed: the last one stands for all.")
    if earlier:
        notes.append(f"The session begins in its earlier states: {', '.join(earlier)}.")
    return _session(path, context.log, damage, (*notes, *sub_agent_note(by_agent)))


def _state_in(file: Path, notes: list[str]) -> list[JsonLine] | None:
    """Read an earlier state; note its damage."""
    try:
        state, damage = json_lines(read_regular(file))
    except OSError as error:
        notes.append(f"{file.name}, an earlier state, cannot be read ({error.strerror}).")
        return None
    if damage:
        notes.append(f"{file.name}: {damage}.")
    return state


@dataclass
class _Row:
    """A record of the state that is read, and its index."""

    record: JsonObject
    index: int
    checkpoint: int | None = None


@dataclass
class _Context:
    """Turns the states of a context, one after the other, into one history.

    A later state is a compaction of the one before (it opens with a summary), a rewind of it (it is the same
    up to a checkpoint) or a fresh start.
    """

    by_agent: bool
    prompt: Json
    """The system prompt the model had last. Each state repeats its own, and a view has only one."""
    log: Transcript = field(default_factory=lambda: Transcript("kimi"))
    _rows: list[_Row] = field(default_factory=list)
    _start: int = 0
    """The index of the first record of the file."""
    _tokens: int = 0
    _is_estimate: bool = False
    """Whether the next count is kimi-cli's own estimate, as after a compaction."""

    def read(self, state: list[JsonLine]) -> None:
        shared = self._continue(state) if self.log.entries else 0
        if not shared:
            self._tokens = 0
        for line in state[shared:]:
            self._add(line)
        self._start += (state[-1].position + 1 if state else 0) + 1

    def _continue(self, state: list[JsonLine]) -> int:
        """Add how this state came out of the one before; return how many records that covers."""
        records = [line.record for line in state]
        before, self._rows = self._rows, []
        opening = next(filter(_is_message, records), JsonObject())
        is_new = all(row.record != opening for row in before)
        if is_new and _opens_with(opening, SUMMARY):
            return self._compact(state, records.index(opening), before)
        shared = same_start(records, [row.record for row in before])
        if shared == len(before):
            self._rows = before
            return shared
        return self._go_back(before, shared, records)

    def _compact(self, state: list[JsonLine], place: int, before: list[_Row]) -> int:
        """Add a compaction: the summary, then the newest messages of the state before."""
        for line in state[:place]:
            self._add(line)
        summary = state[place]
        later = [line for line in state[place + 1 :] if _is_message(line.record)]
        earlier = [row for row in before if _is_message(row.record)]
        size = overlap([row.record for row in earlier], [line.record for line in later])
        kept = earlier[len(earlier) - size :]
        index = self._start + summary.position
        compaction = self.log.compaction(
            index,
            self.log.parts(summary.record.get("content")),
            self._in_context(kept),
            ahead=self._in_context(self._rows),
            strategy="kimi-cli",
            tokens_before=self._tokens,
        )
        self.log.put(index, compaction)
        self._is_estimate = True
        self._rows.append(_Row(summary.record, index))
        self._rows += [_Row(line.record, row.index) for line, row in zip(later, kept, strict=False)]
        last = later[size - 1] if size else summary
        return state.index(last) + 1

    def _in_context(self, rows: Iterable[_Row]) -> list[int]:
        context = set(self.log.messages())
        return [row.index for row in rows if row.index in context]

    def _go_back(self, before: list[_Row], shared: int, records: Sequence[JsonObject]) -> int:
        """Add a rewind to the last shared checkpoint, or else a fresh start."""
        checkpoints = (at for at, row in enumerate(before[: shared + 1]) if row.checkpoint is not None)
        place = max(checkpoints, default=-1)
        new = next(filter(_is_message, records[shared:]), JsonObject())
        is_rewind = _opens_with(new, _DMAIL) or any(map(_is_message, records[:shared]))
        summary = self.log.newest_summary()
        if is_rewind and place >= 0 and (summary is None or before[place].index > summary.index):
            self._rows = before[:place]
            self.log.go_back_to(before[place].checkpoint or 0, index=self._start - 1)
            return place
        self.log.put(self._start - 1, Clear())
        return 0

    def _add(self, line: JsonLine) -> None:
        record = line.record
        row = _Row(record, self._start + line.position)
        if record.get("role") == "_checkpoint":
            row.checkpoint = self.log.checkpoint(index=row.index)
        else:
            self.log.put_record(row.index, self._entry(record, row.index), record, record.text("role"))
        self._rows.append(row)

    def _entry(self, record: JsonObject, index: int) -> Entry | None:
        content = record.get("content")
        match record.get("role"):
            case "_system_prompt":
                has_prompt = any(isinstance(entry, SystemMessage) for entry in self.log.entries.values())
                return None if has_prompt else SystemMessage(parts=self.log.parts(self.prompt))
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
            return user_message(parts, typed=not self.by_agent)
        return DeveloperMessage(parts=parts, origin="dmail" if _opens_with(record, _DMAIL) else "notice")

    def _media_follows(self) -> bool:
        """Return whether the newest message is a result whose image comes apart."""
        messages = (entry for entry in reversed(self.log.entries.values()) if isinstance(entry, BaseMessage))
        newest = next(messages, None)
        return isinstance(newest, ToolResultMessage) and _MEDIA_FOLLOWS in newest.text

    def _count(self, tokens: int) -> None:
        """Give a count of the whole context to the answer right before it.

        Older files count before the answer, too: what it grew by is the answer. Newer ones know the sum only,
        which then stands as input.
        """
        before, self._tokens = self._tokens, tokens
        is_estimate, self._is_estimate = self._is_estimate, False
        newest = next(reversed(self.log.entries), -1)
        answer = self.log.entries.get(newest)
        if is_estimate or not isinstance(answer, AssistantMessage) or answer.usage or not tokens:
            return
        counted_before = len(self._rows) > 1 and self._rows[-2].record.get("role") == "_usage"
        output = tokens - before if counted_before else 0
        if not 0 <= output < tokens:
            output = 0
        self.log.change(newest, usage=Usage(input=tokens - output, output=output))


def _is_message(record: JsonObject) -> bool:
    return not record.text("role").startswith("_")


def _opens_with(record: JsonObject, start: str | tuple[str, ...]) -> bool:
    parts = parts_of(record.get("content"), [])
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(start)
