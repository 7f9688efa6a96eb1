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
from foldline.formats.parts import UsageFields, parts_of, sub_agent_note, tool_call_parts
from foldline.formats.readers.kimi_code.reader import CodeWire, Step, StepReader, result_of
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    DeveloperMessage,
    Entry,
    FoldlineError,
    ImagePart,
    NoticeRecord,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

_CONTEXT_ROLES = ("_system_prompt", "_checkpoint", "_usage")
_CODE_TYPES = ("context.", "turn.", "config.", "profile.", "llm.", "tools.", "permission.")
"""How the types of Kimi Code's records start, which mostly have a time."""
_CODE_RECORDS = (
    "config.update", "context.append_loop_event", "context.append_message", "context.apply_compaction",
    "llm.request", "llm.tools_snapshot", "profile.bind", "turn.prompt",
)  # fmt: skip
"""Those that are nobody else's."""
_FAILED = "<system>ERROR"


def recognises(record: JsonObject) -> bool:
    return record.get("role") in _CONTEXT_ROLES or _is_wire(record) or _is_code_wire(record)


def _is_wire(record: JsonObject) -> bool:
    return (record.get("type") == "metadata" and "protocol_version" in record) or (
        "timestamp" in record and {"type", "payload"} <= record.object("message").keys()
    )


def _is_code_wire(record: JsonObject) -> bool:
    kind = record.text("type")
    return kind in _CODE_RECORDS or ("time" in record and kind.startswith(_CODE_TYPES))


def read(data: bytes, path: Path) -> ForeignSession:
    """A session. Where a context file has earlier states beside it, they are its beginning.

    An index is the place of a record in its file; earlier states count before it, each with one more for what
    ended it."""
    lines, damage = json_lines(data)
    if any(_is_code_wire(line.record) for line in lines):
        code = CodeWire(lines)
        spawned = (line.record for line in lines if "parentToolCallId" in line.record)
        begun = {record.text("subagentId"): record for record in spawned}  # since Kimi Code 2
        return _session(path, code.log, damage, code.notes(), code.cwd, code.counted, begun)
    if any(_is_wire(line.record) for line in lines):
        wire = _Wire()
        for line in lines:
            wire.read(line)
        wire.end_step()
        return _session(path, wire.log, damage, wire.notes())
    if not any("role" in line.record for line in lines):
        raise FoldlineError(f"{path} has no record of kimi-cli: neither messages nor events of a wire.")
    return _read_context(lines, damage, path)


def session_id_of(path: Path) -> str:
    """A session is called as its folder; files outside of such a folder have names of their own."""
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
    begun: Mapping[str, JsonObject] = MappingProxyType({}),
) -> ForeignSession:
    name = session_id_of(path)
    log.children = {child.id: child for child in _children(path, log, begun)}
    cwd = cwd or beside_kimi(path, name, SharedFiles()).cwd
    return log.session("kimi-cli", name, cwd, damage, notes, counted=counted)


def _children(path: Path, log: Transcript, begun: Mapping[str, JsonObject]) -> Iterator[ForeignChild]:
    """The subagents, in folders of their own below the session's; in older sessions, in files beside it. Kimi
    Code has them beside the folder of the main agent. A record, or a result, names the subagent."""
    is_main = path.parts[-3:-1] == ("agents", "main")
    folder = path.parents[1] if is_main else path.parent / "subagents"
    inside = sorted(folder.iterdir()) if is_folder(folder) and path.name in _NAMES else []
    files = {
        each.name: next((each / name for name in _NAMES if is_file(each / name)), each / _NAMES[0])
        for each in inside
        if each.name != "main" and not each.is_symlink()
    }
    if path.name == _NAMES[0] and is_folder(path.parent):
        files |= {file.stem: file for file in sorted(path.parent.glob("context_sub_*.jsonl"))}
    results = [entry for entry in log.in_order() if isinstance(entry, ToolResultMessage)]
    for name, file in files.items():
        session = child_in(read, file)
        if session is not None:
            about = begun.get(name) or object_in(file.with_name("meta.json"))
            gave = (result.call_id for result in results if f"agent_id: {name}\n" in result.text)
            agent, title = about.first("subagent_type", "subagentName"), about.text("description")
            call = about.text("parentToolCallId") or next(gave, "")
            yield child_of(session, name, agent=agent, title=title, call_id=call)


_NAMES = ("context.jsonl", "wire.jsonl")
"""The file of a session, the fuller one first."""


# --- context files ----------------------------------------------------------------------------------

SUMMARY = "<system>Previous context has been compacted"
"""How the message starts that holds the summary of a compaction."""
_DMAIL = "<system>You just got a D-Mail"
MACHINE = ("<system>", "<system-reminder>", "<notification", "<task-notification")
"""How messages in the role user start that the program wrote."""
_MEDIA_FOLLOWS = "Non-text parts are sent as a user message below."
"""How the result of a tool ended, in older files, whose image came as a user message."""


def rotations(path: Path) -> list[Path]:
    """The earlier states of a context file that lie beside it, oldest first. A rotation has none of its own.

    Files of sub-agents are numbered alike, after `_sub` or `_read`: they are sessions of their own.
    """
    if path.stem.endswith(("_sub", "_read")) or not is_folder(path.parent):
        return []
    numbered = re.compile(re.escape(path.stem) + r"_([0-9]{1,9})" + re.escape(path.suffix))
    found = [
        (int(match[1]), file) for file in path.parent.iterdir() if (match := numbered.fullmatch(file.name))
    ]
    return [file for _, file in sorted(found) if is_file(file)]


def _read_context(lines: list[JsonLine], damage: Damage, path: Path) -> ForeignSession:
    states: list[list[JsonLine]] = []
    names, notes = [], []
    for file in rotations(path):
        try:
            before, damaged = json_lines(read_regular(file))
        except OSError as error:
            notes.append(f"{file.name}, an earlier state, cannot be read ({error.strerror}).")
            continue
        notes += [f"{file.name}: {damaged}."] if damaged else []
        states.append(before)
        names.append(file.name)
    states.append(lines)
    records = [line.record for state in states for line in state]
    prompts = [record.get("content") for record in records if record.get("role") == "_system_prompt"]
    # The prompts of a sub-agent's file come from another agent: known by where kimi-cli keeps such files.
    name, _, _ = path.stem.rpartition("_")
    by_agent = "subagents" in path.parts or name.endswith(("_sub", "_read"))
    reader = _Context(by_agent, prompts[-1] if prompts else None)
    for state in states:
        reader.read(state)
    notes += reader.log.notes(("_system_prompt", "_usage"))
    if any(prompt != prompts[-1] for prompt in prompts):
        notes.append("The system prompt changed: the last one stands for all.")
    if names:
        notes.append(f"The session begins in its earlier states: {', '.join(names)}.")
    return _session(path, reader.log, damage, (*notes, *sub_agent_note(by_agent)))


@dataclass
class _Row:
    record: JsonObject
    index: int
    checkpoint: int | None = None


@dataclass
class _Context:
    """Turns context files into entries: each state of the context, one after the other, as one history.

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
    _newest: int = 0
    _tokens: int = 0
    _estimated: bool = False
    """Whether the next count is kimi-cli's own estimate, as after a compaction."""

    def read(self, state: list[JsonLine]) -> None:
        known = self._goes_on_from(state) if self.log.entries else 0
        self._tokens = self._tokens if known else 0
        for line in state[known:]:
            self._add(line)
        self._start += (state[-1].position + 1 if state else 0) + 1

    def _goes_on_from(self, state: list[JsonLine]) -> int:
        """Say how this state came out of the one before; how many of its records are known from there."""
        records = [line.record for line in state]
        before, self._rows = self._rows, []
        summary = next((place for place, record in enumerate(records) if _is_message(record)), None)
        if summary is not None and _opens_with(records[summary], SUMMARY):
            known = any(row.record == records[summary] for row in before)
            if not known:
                return self._compaction(state, summary, before)
        common = 0
        while common < min(len(records), len(before)) and records[common] == before[common].record:
            common += 1
        return self._rewind(before, common, records)

    def _compaction(self, state: list[JsonLine], place: int, before: list[_Row]) -> int:
        """The summary, then the newest messages of the state before, word for word."""
        for line in state[:place]:
            self._add(line)
        line = state[place]
        after = [later for later in state[place + 1 :] if _is_message(later.record)]
        was = [row for row in before if _is_message(row.record)]
        old, new = [row.record for row in was], [later.record for later in after]
        sizes = range(min(len(old), len(new)), 0, -1)
        kept = next((size for size in sizes if old[len(old) - size :] == new[:size]), 0)
        index, here = self._start + line.position, set(self.log.messages())
        tail = was[len(was) - kept :]
        compaction = self.log.compaction(
            index,
            self.log.parts(line.record.get("content")),
            [row.index for row in tail if row.index in here],
            ahead=[row.index for row in self._rows if row.index in here],
            strategy="kimi-cli",
            tokens_before=self._tokens,
        )
        self._put(index, compaction)
        self._rows.append(_Row(line.record, index))
        self._rows += [_Row(later.record, row.index) for later, row in zip(after, tail, strict=False)]
        self._estimated = True
        last = after[kept - 1].position if kept else line.position
        return sum(each.position <= last for each in state)

    def _rewind(self, before: list[_Row], common: int, records: Sequence[JsonObject]) -> int:
        """Back to a checkpoint, which comes anew; or a fresh start: no message is shared, no D-Mail came."""
        if common == len(before):
            self._rows = before
            return common
        checkpoints = (at for at, row in enumerate(before[: common + 1]) if row.checkpoint is not None)
        place = max(checkpoints, default=None)
        news = next((record for record in records[common:] if _is_message(record)), JsonObject())
        shared = _opens_with(news, _DMAIL) or any(map(_is_message, records[:common]))
        summary = self.log.newest_summary()
        compaction = summary.index if summary else -1
        if shared and place is not None and before[place].index > compaction:
            self._rows, self._newest = before[:place], self._start - 1
            self.log.go_back_to(before[place].checkpoint or 0, index=self._newest)
            return place
        self._put(self._start - 1, Clear())
        return 0

    def _put(self, index: int, entry: Entry) -> None:
        self._newest = self.log.put(index, entry)

    def _add(self, line: JsonLine) -> None:
        record = line.record
        row = _Row(record, self._start + line.position)
        if record.get("role") == "_checkpoint":
            row.checkpoint, self._newest = self.log.checkpoint(index=row.index), row.index
        else:
            entry = self._entry(record, row.index) or self.log.unknown(record, record.text("role"))
            self._put(row.index, entry)
        self._rows.append(row)

    def _entry(self, record: JsonObject, index: int) -> Entry | None:
        content = record.get("content")
        match record.get("role"):
            case "_system_prompt":
                known = any(isinstance(entry, SystemMessage) for entry in self.log.entries.values())
                return None if known else SystemMessage(parts=self.log.parts(self.prompt))
            case "_usage":
                self._count(record.count("token_count"))
                return None
            case "assistant" | "user" if _opens_with(record, SUMMARY):
                self._estimated = True
                ahead, parts = self.log.messages(), self.log.parts(content)
                return self.log.compaction(index, parts, (), ahead=ahead, strategy="kimi-cli")
            case "user":
                return self._user(record)
            case "assistant":
                thinking = record.text("reasoning_content")
                thought = (ThinkingPart(text=thinking),) if thinking else ()
                calls = tool_call_parts(record.get("tool_calls"), index)
                return AssistantMessage(parts=(*thought, *self.log.parts(content), *calls))
            case "tool":
                failed = record.flag("isError") or _opens_with(record, _FAILED)
                call_id, parts = record.text("tool_call_id"), self.log.parts(content)
                return result_of(call_id, parts, self.log, failed=failed)
            case "system":
                return DeveloperMessage(parts=self.log.parts(content))
            case _:
                return None

    def _user(self, record: JsonObject) -> BaseMessage:
        parts = self.log.parts(record.get("content"))
        has_image = any(isinstance(part, ImagePart) for part in parts)
        by_program = _opens_with(record, MACHINE)
        if has_image and (by_program or self._media_follows()):
            return UserMessage(parts=parts, origin="machine")
        if not by_program:
            return UserMessage(parts=parts, origin="machine" if self.by_agent else "typed")
        return DeveloperMessage(parts=parts, origin="dmail" if _opens_with(record, _DMAIL) else "notice")

    def _media_follows(self) -> bool:
        entries = (entry for entry in reversed(self.log.entries.values()) if isinstance(entry, BaseMessage))
        last = next(entries, None)
        return isinstance(last, ToolResultMessage) and _MEDIA_FOLLOWS in last.text

    def _count(self, tokens: int) -> None:
        """A count of the whole context belongs to the answer right before it.

        Older files count before the answer, too: what it grew by is the answer. Newer ones know the sum only,
        which then stands as input.
        """
        before, self._tokens = self._tokens, tokens
        estimated, self._estimated = self._estimated, False
        answer = self.log.entries.get(self._newest)
        if estimated or not isinstance(answer, AssistantMessage) or answer.usage or not tokens:
            return
        counted_before = len(self._rows) > 1 and self._rows[-2].record.get("role") == "_usage"
        grown = tokens - before if counted_before else 0
        usage = Usage(input=tokens - grown, output=grown) if 0 <= grown < tokens else Usage(input=tokens)
        self.log.change(self._newest, usage=usage)


def _is_message(record: JsonObject) -> bool:
    return not record.text("role").startswith("_")


def _opens_with(record: JsonObject, start: str | tuple[str, ...]) -> bool:
    parts = parts_of(record.get("content"), [])
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(start)


# --- wire files -------------------------------------------------------------------------------------

_KEPT_BY_A_COMPACTION = 2
"""How many prompts and answers kimi-cli keeps of its newest, with their results (`SimpleCompaction`)."""
_SILENT = (
    "Approval", "Btw", "ContentPart", "ImageURLPart", "TextPart", "ThinkPart", "Compaction", "Hook", "MCP",
    "Notification", "PlanDisplay", "Question", "StatusUpdate", "Step", "Subagent", "ToolCall", "Turn",
    "metadata",
)  # fmt: skip
"""How the kinds of events begin that tell the model nothing, or that are pieces of an answer."""
_USAGE = UsageFields(
    ("input_other", "input_cache_read", "input_cache_creation"), ("output",), cached="input_cache_read"
)


@dataclass
class _Wire(StepReader):
    """Turns the events of a wire file into entries: the events of the screen, put together again.

    It holds no system prompt and no summaries; the context file beside it does.
    """

    compactions: int = 0
    _compacting: bool = False

    def notes(self) -> list[str]:
        notes = [*self.log.notes(_SILENT)]
        if self.compactions:
            notes.append(
                f"A wire file has no summaries: what {self.compactions} compactions wrote is missing here. "
                "The context file beside it has it."
            )
        return notes

    def read(self, line: JsonLine) -> None:
        record, message = line.record, line.record.object("message")
        seconds = record.get("timestamp")
        at = None if isinstance(seconds, str) else record.time("timestamp", unit=1)
        kind, payload = message.text("type"), message.object("payload")
        if kind == "StepBegin":
            self.end_step()
            self._step = Step(line.position, at)
            return
        entry = self._entry(kind, payload, line.position)
        if entry is None and self._step is not None and self._step.index == line.position:
            return
        self._add(entry or self.log.unknown(record, kind or record.text("type")), line.position, at)

    def _entry(self, kind: str, payload: JsonObject, position: int) -> Entry | None:
        match kind:
            case "TurnBegin" | "SteerInput":
                self.end_step()
                return UserMessage(parts=self.log.parts(payload.get("user_input")))
            case "TextPart" | "ThinkPart" | "ImageURLPart" | "ContentPart":
                self._grow(self.log.parts([payload]), position)
            case "ToolCall":
                self._grow(tool_call_parts([payload], position), position)
            case "ToolCallPart":
                self._grow_call(payload.text("arguments_part"))
            case "ToolResult":
                return self._tool_result(payload)
            case "StatusUpdate" if self._step is not None:
                self._step.usage = _USAGE.read(payload.get("token_usage")) or self._step.usage
            case "StepInterrupted":
                self.end_step()
                return NoticeRecord(text="The step was interrupted.")
            case "CompactionBegin":
                self.end_step()
                self._compacting = True
            case "CompactionEnd" if self._compacting:
                return self._compaction(position)
            case _:
                pass
        return None

    def _grow(self, parts: Sequence[Part], position: int) -> None:
        """More of the answer. Texts that follow each other are one."""
        self._step = self._step or Step(position, None)
        said = self._step.parts
        for part in parts:
            if isinstance(part, ToolCallPart):
                self.log.calls[part.call_id] = part
            joined = _joined(said[-1], part) if said else None
            said[len(said) - (joined is not None) :] = [joined or part]

    def _grow_call(self, arguments: str) -> None:
        said = self._step.parts if self._step else []
        if said and isinstance(last := said[-1], ToolCallPart):
            before = "" if last.arguments == "{}" else last.arguments
            call = last.model_copy(update={"arguments": before + arguments})
            self.log.calls[call.call_id] = said[-1] = call

    def _tool_result(self, payload: JsonObject) -> BaseMessage:
        value = payload.object("return_value") or payload.object("result")
        said, failed = value.text("message"), value.flag("is_error")
        status = TextPart(text=f"<system>{'ERROR: ' if failed else ''}{said}</system>")
        parts = (*((status,) if said else ()), *self.log.parts(value.get("output")))
        return result_of(payload.text("tool_call_id"), parts, self.log, failed=failed)

    def _compaction(self, position: int) -> Entry:
        self._compacting = False
        self.compactions += 1
        messages, entries = self.log.messages(), self.log.entries
        starts = [
            place for place, index in enumerate(messages) if not isinstance(entries[index], ToolResultMessage)
        ]
        place = starts[-_KEPT_BY_A_COMPACTION] if len(starts) >= _KEPT_BY_A_COMPACTION else 0
        return self.log.compaction(position, (), messages[place:], strategy="kimi-cli")


def _joined(last: Part, part: Part) -> Part | None:
    """Two pieces of a text, or of a thought, as one; None where they are not."""
    match last, part:
        case TextPart(), TextPart():
            return TextPart(text=last.text + part.text)
        case ThinkingPart(), ThinkingPart() if last.signature is None:
            return ThinkingPart(text=last.text + part.text, signature=part.signature)
        case _:
            return None
