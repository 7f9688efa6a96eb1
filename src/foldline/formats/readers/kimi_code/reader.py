"""Kimi Code's wire files: every change of the context as a record, from which the context is built again.

One index a record. Where a session has undos, each prompt has a checkpoint before it, which takes one more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from foldline.formats.base import Counted, Json, JsonLine, JsonObject
from foldline.formats.parts import BESIDE, UsageFields, arguments_of, call_part, text_in, tool_call_parts
from foldline.formats.tool_results import line_count, tool_result, touched
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    DeveloperMessage,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)

_SILENT = (
    "agent.", "config.", "context.append_loop_event", "context.undone", "forked", "full_compaction.",
    "goal.", "llm.", "mcp.", "metadata", "micro_compaction.", "permission.", "plan_mode.", "plugin.",
    "profile.", "prompt.", "runtime.", "spine.", "subagent.", "swarm_mode.", "token_counting.", "tools.",
    "turn.", "usage.",
)  # fmt: skip
"""How the types of records begin that say nothing to the model, or that other records repeat."""
_USAGE = UsageFields(
    ("inputOther", "inputCacheRead", "inputCacheCreation"), ("output",), cached="inputCacheRead"
)
_TIMED = re.compile(r"Agent|AgentSwarm|Bash|FetchURL|Glob|Grep|WebSearch|mcp__.*")
"""The tools whose results say how long they took."""
_WALL_TIME = "Wall time: "
_CONTINUES = (
    "<system-reminder>\nContext compaction is complete — continue the work that was in progress when it "
    "began.\n</system-reminder>"
)
"""What Kimi Code 2 sends after a summary, and has in no record."""
_EXIT_CODE = re.compile(r"[Ff]ailed with exit code:? (-?\d+)")


def result_of(
    call_id: str, parts: tuple[Part, ...], log: Transcript, *, failed: bool, milliseconds: int = 0
) -> ToolResultMessage:
    """A result of a tool of kimi-cli or Kimi Code, which say how it ended in a text of its own."""
    call = log.calls.get(call_id)
    texts = [part for part in parts if isinstance(part, TextPart)]
    said = text_in(part for part in texts if not part.text.startswith(("<system>", _WALL_TIME)))
    exit_code = _EXIT_CODE.search(text_in(texts))
    ended = f"exit {exit_code[1]}" if exit_code else "failed" if failed else ""
    return tool_result(
        call_id,
        call.name if call else "",
        parts,
        failed=failed,
        brief=ended or (line_count(said) if said else "done"),
        changes=None if failed else touched(call),
        milliseconds=milliseconds,
    )


def _as_sent(result: JsonObject, name: str, output: Sequence[Part]) -> tuple[Part, ...]:
    """A result of Kimi Code with the lines it adds when it sends one: time, failure, emptiness, note."""
    head: list[str] = []
    pieces = result.pieces("output")
    is_empty = all(piece.kind == "text" and not piece.text("text").strip() for piece in pieces)
    if _TIMED.fullmatch(name) and "durationMs" in result:
        head.append(f"{_WALL_TIME}{result.count('durationMs') / 1000:.3f} seconds")
    if result.flag("isError") and not text_in(output).startswith("<system>ERROR"):
        empty = " Tool output is empty." if is_empty else ""
        head.append(f"<system>ERROR: Tool execution failed.{empty}</system>")
    elif is_empty:
        head.append("<system>Tool output is empty.</system>")
    lines = (*head, *output, result.text("note"))
    return tuple(part for line in lines for part in (text_parts(line) if isinstance(line, str) else (line,)))


@dataclass
class Step:
    index: int
    at: datetime | None
    uuid: str = ""
    parts: list[Part] = field(default_factory=list)
    usage: Usage | None = None
    later: list[int] = field(default_factory=list)
    """The entries that are here before it is complete: results, and what waits for them."""


@dataclass
class StepReader:
    """Reads answers that come in pieces. What comes before one is complete is shown to the model after it."""

    log: Transcript = field(default_factory=lambda: Transcript("kimi"))
    _step: Step | None = None

    def _add(self, entry: Entry, index: int, at: datetime | None) -> None:
        self.log.put(index, entry, at)
        if self._step is not None and isinstance(entry, BaseMessage) and not isinstance(entry, SystemMessage):
            self._step.later.append(index)
        else:
            self._show(index)

    def _show(self, index: int) -> None:
        """Called with each message, in the order in which the model gets them."""

    def end_step(self) -> None:
        """The answer is complete: it, its results, then what waited for them."""
        step, self._step = self._step, None
        if step is None:
            return
        if (answer := self._answer(step)) is not None:
            self._add(answer, step.index, step.at)
        entries = self.log.entries
        for index in sorted(step.later, key=lambda each: not isinstance(entries[each], ToolResultMessage)):
            self._show(index)

    def _answer(self, step: Step) -> AssistantMessage | None:
        return AssistantMessage(parts=tuple(step.parts), usage=step.usage)


# --- the spine --------------------------------------------------------------------------------------

_OPEN, _CLOSE, _NEXT = "spine_open", "spine_close", "spine_next"
_TRANSITIONS = {_OPEN: ("summary",), _CLOSE: ("memory",), _NEXT: ("summary", "memory")}
"""A transition says enough with these arguments: a scope has a summary, a closed one a memory."""
_SPAWN = "spine_spawn"
"""Makes scopes that are closed at once: its result holds their memories, and stays in the view."""
_ACCEPTED = "accepted"
"""How the result of a transition begins that came about."""
_RECORDS = ("spine.open", "spine.close", "spine.next")


@dataclass(frozen=True, slots=True)
class _Closed:
    """A scope that is over: the messages from `start` to before `end`, and what stands for them."""

    start: int
    end: int
    memory: str


@dataclass
class _Spine:
    """Scopes of work that Kimi Code's model opens, and closes with a memory that stands for them.

    A transition is a call of one of three tools that was accepted; nothing else is written of it. Sessions
    before mid July 2026 have a record of each, too, which then counts.
    """

    on_record: bool
    scopes: list[int] = field(default_factory=lambda: [0])
    """The indices at which the open scopes begin, outermost first."""
    stored: list[int] = field(default_factory=list)
    """The indices of all messages, which records count."""
    used: bool = False
    _newest: AssistantMessage | None = None
    _accepted: set[str] = field(default_factory=set)

    def add(self, message: BaseMessage) -> None:
        self.stored.append(message.index)
        match message:
            case AssistantMessage():
                self._newest = message
                self.used |= any(call.name in _TRANSITIONS for call in message.calls)
            case ToolResultMessage() if not message.is_error and message.text.startswith(_ACCEPTED):
                self._accepted.add(message.call_id)
            case _:
                pass

    def start_over(self, index: int) -> None:
        self.scopes, self.stored = [index], [index]

    def transition(self) -> _Closed | None:
        """What the newest answer and its results came to: exactly one transition in it counts."""
        answer, self._newest = self._newest, None
        if answer is None or self.on_record:
            return None
        accepted = [
            call
            for call in answer.calls
            if call.call_id in self._accepted
            and call.name in _TRANSITIONS
            and all(arguments_of(call).text(name).strip() for name in _TRANSITIONS[call.name])
        ]
        if len(accepted) != 1 or any(call.name == _SPAWN for call in answer.calls):
            return None
        memory = arguments_of(accepted[0]).text("memory")
        return self._moved(accepted[0].name, answer.index, answer.index, memory)

    def recorded(self, kind: str, record: JsonObject) -> _Closed | None:
        opened, closed = record.get("openedAt"), record.get("closedAt")
        end = self._index_of(closed + 1) if isinstance(closed, int) else None
        start = self._index_of(opened) if isinstance(opened, int) else end
        if kind == "spine.open":
            return self._moved(_OPEN, start, None, "")
        return self._moved(_CLOSE if kind == "spine.close" else _NEXT, end, end, record.text("memory"))

    def _index_of(self, place: int) -> int | None:
        """The index of a message by its place among all; of one to come where there is none yet."""
        if 0 <= place < len(self.stored):
            return self.stored[place]
        return self.stored[-1] + 1 if self.stored and place >= len(self.stored) else None

    def _moved(self, name: str, start: int | None, end: int | None, memory: str) -> _Closed | None:
        closed = None
        if name != _OPEN and self.scopes:
            begun = self.scopes.pop()
            closed = _Closed(begun, end, memory) if end is not None and memory.strip() else None
        if name != _CLOSE and start is not None:
            self.scopes.append(start)
        return closed


# --- records ----------------------------------------------------------------------------------------


@dataclass
class _Prompt:
    """Something the user sent, which an undo can go back to, and a compaction keeps."""

    index: int
    checkpoint: int | None
    before: tuple[int, ...]
    """The context then."""
    scopes: tuple[int, ...]
    stored: int
    """The spine then: its open scopes, and how many messages it had."""
    identity: str


class CodeWire(StepReader):
    def __init__(self, lines: Sequence[JsonLine]) -> None:
        super().__init__()
        prompts = [text for line in lines if (text := _system_prompt(line.record))]
        self._prompt = prompts[-1] if prompts else ""
        """The system prompt the model had last: a view has only one."""
        self._has_undos = any(line.record.get("type") == "context.undo" for line in lines)
        self._spine = _Spine(on_record=any(line.record.get("type") in _RECORDS for line in lines))
        self.cwd = ""
        self.counted: list[Counted] = []
        self._notes: list[str] = []
        self._prompts: list[_Prompt] = []
        """In the context at this point, oldest first."""
        self._injected: dict[int, str] = {}
        """Of reminders, the prompt each belongs to; empty where it belongs to none."""
        self._stays: list[int] = []
        """Reminders that an undo leaves."""
        self._is_branch = False
        """Whether undos are branches, as since Kimi Code 2."""
        self._model = ""
        self._checkpoints = 0
        self._wall = -1
        """The newest compaction that no undo goes back over."""
        for line in lines:
            self._read(line)
        self.end_step()
        self._close_scope(lines[-1].position + 1, None)
        if len(set(prompts)) > 1:
            self._notes.append("The system prompt changed: the last one stands for all.")

    def notes(self) -> list[str]:
        return list(dict.fromkeys((*self.log.notes(_SILENT), *self._notes)))

    def _read(self, line: JsonLine) -> None:
        record, at = line.record, line.record.time("time")
        if record.at("event", "type") == "step.begin" or (record.at("message", "role") == "assistant"):
            self.end_step()
            self._close_scope(line.position, at)
        self.cwd = self.cwd or record.text("environmentDisclosure", "cwd") or record.text("cwd")
        message = record.object("message")
        is_prompt = _is_prompt(message.object("origin")) and message.get("role") == "user"
        if record.get("type") == "context.append_message" and is_prompt:
            self._take_prompt(message, line.position, at)
            return
        index = self.log.next_index(line.position)
        if record.get("type") == "context.append_loop_event":
            entry = self._loop_event(record.object("event"), index, at)
        else:
            entry = self._entry(record, message, index)
        if entry is None:
            if self._step is not None and self._step.index == index:
                return
            entry = self.log.unknown(record, record.text("type"))
        self._add(entry, index, at)
        self._add_again(line.position)
        if isinstance(entry, Compaction) and "wireLines" in record:  # since Kimi Code 2
            index = self.log.next_index(line.position)
            self._add(DeveloperMessage(parts=text_parts(_CONTINUES)), index, at)

    def _show(self, index: int) -> None:
        message = self.log.entries[index]
        if isinstance(message, BaseMessage) and not isinstance(message, SystemMessage):
            self._spine.add(message)

    def _entry(self, record: JsonObject, message: JsonObject, index: int) -> Entry | None:
        match record.get("type"):
            case "config.update" | "profile.bind":
                return self._settings(record)
            case "context.append_message":
                return self._message(message, index)
            case "llm.request" if record.get("kind", "loop") == "loop" and record.count("messageCount"):
                self.counted.append(Counted(index, record.count("messageCount")))
            case "usage.record" if record.get("usageScope") == "session":
                usage = _USAGE.read(record.get("usage"))
                return NoticeRecord(text=BESIDE, model=self._model.rpartition("/")[2] or None, usage=usage)
            case "agent.switched":
                self._is_branch = True
            case "micro_compaction.apply":
                self._notes.append(
                    "Old tool results that Kimi Code had cleared from requests are shown in full."
                )
            case (
                "context.apply_compaction"
                | "context.clear"
                | "context.undo"
                | "spine.open"
                | "spine.close"
                | "spine.next"
                | "turn.prompt"
                | "turn.cancel" as kind
            ):
                self.end_step()
                return self._marker(kind, record, index)
            case _:
                pass
        return None

    def _marker(self, kind: str, record: JsonObject, index: int) -> Entry | None:
        match kind:
            case "context.apply_compaction":
                return self._compaction(record, index)
            case "context.clear":
                self._prompts = []
                self._spine.scopes, self._spine.stored = [0], []
                return Clear()
            case "context.undo":
                return self._undo(record.count("count"))
            case "turn.prompt":
                return None
            case "turn.cancel":
                return NoticeRecord(text="The turn was cancelled.")
            case _:
                closed = self._spine.recorded(kind, record)
                return self._scope_compaction(index, closed) if closed else None

    def _settings(self, record: JsonObject) -> Entry | None:
        """The system prompt, once; or another model. What comes with the prompt shows in the answers."""
        model, before = record.text("modelAlias"), self._model
        self._model = model or before
        has_prompt = any(isinstance(entry, SystemMessage) for entry in self.log.entries.values())
        if _system_prompt(record) and not has_prompt:
            return SystemMessage(parts=text_parts(self._prompt))
        if self._model == before:
            return None
        provider, _, name = model.rpartition("/")
        return ModelChange(model=name or model, provider=provider or None)

    # --- messages --------------------------------------------------------------------------------

    def _message(self, message: JsonObject, index: int) -> Entry | None:
        kind, parts = message.at("origin", "kind"), self.log.parts(message.get("content"))
        match message.get("role"):
            case "user" if kind == "compaction_summary" and (self._spine.on_record or self._spine.used):
                self._prompts, self._wall = [], index
                self._spine.start_over(index)
                return self.log.compaction(index, parts, (), strategy="kimi-code")
            case "user" | "system" if kind == "shell_command":
                return UserMessage(parts=parts, origin="shell")
            case "user" | "system" if any(isinstance(part, ImagePart) for part in parts):
                return UserMessage(parts=parts, origin="machine")
            case "user" | "system" | "developer":
                if kind == "injection":
                    self._injected[index] = message.text("origin", "ownerPromptId")
                return DeveloperMessage(parts=parts)
            case "assistant":
                calls = tool_call_parts(_nested(message.get("toolCalls")), index)
                return AssistantMessage(parts=(*parts, *calls))
            case "tool":
                failed = message.flag("isError")
                return result_of(message.text("toolCallId"), parts, self.log, failed=failed)
            case _:
                return None

    def _take_prompt(self, message: JsonObject, position: int, at: datetime | None) -> None:
        """What the user sent. The text of a skill or a plugin is the machine's, though the user called it."""
        checkpoint = None
        if self._has_undos:
            self._checkpoints += 1
            checkpoint = self._checkpoints
            self.log.add(Checkpoint(id=checkpoint), at, position=position)
        index = self.log.next_index(position)
        scopes, stored = tuple(self._spine.scopes), len(self._spine.stored)
        name = message.text("id")
        before = tuple(self.log.context()) if self._has_undos else ()
        self._prompts.append(_Prompt(index, checkpoint, before, scopes, stored, name))
        typed = message.at("origin", "kind") in (None, "user")
        parts = self.log.parts(message.get("content"))
        self._add(UserMessage(parts=parts, origin="typed" if typed else "machine"), index, at)

    # --- compactions and undos -------------------------------------------------------------------

    def _compaction(self, record: JsonObject, index: int) -> Entry:
        """Newer ones keep prompts, before the summary; older ones the newest messages, after it."""
        summary = record.text("contextSummary") or record.text("summary")
        if not summary:
            summary = text_in(self.log.parts(record.at("summary", "content")))
        ahead: list[int] = []
        kept: list[int] = []
        if isinstance(record.get("keptUserMessageCount"), int):
            ahead = self._kept_prompts(record)
        else:
            kept = self.log.context()[record.count("compactedCount") :]
        self._prompts = [prompt for prompt in self._prompts if prompt.index in {*ahead, *kept}]
        self._wall = index
        self._spine.start_over(index)
        self._spine.stored = [*ahead, index, *kept]
        return self.log.compaction(
            index,
            text_parts(summary),
            kept,
            ahead=ahead,
            strategy="kimi-code",
            tokens_before=record.count("tokensBefore"),
            tokens_after=record.count("tokensAfter"),
        )

    def _kept_prompts(self, record: JsonObject) -> list[int]:
        """The oldest and the newest prompts, as many as the record says."""
        here = set(self.log.messages())
        prompts = [prompt.index for prompt in self._prompts if prompt.index in here]
        count, head = record.count("keptUserMessageCount"), record.count("keptHeadUserMessageCount")
        if head:
            self._notes.append("Prompts that Kimi Code had shortened in a compaction are shown whole.")
        newest = max(0, count - head)
        return list(dict.fromkeys(prompts[:head] + (prompts[-newest:] if newest else [])))

    def _close_scope(self, position: int, at: datetime | None) -> None:
        closed = self._spine.transition()
        if closed is not None:
            index = self.log.next_index(position)
            self.log.put(index, self._scope_compaction(index, closed), at)

    def _scope_compaction(self, index: int, closed: _Closed) -> Compaction:
        """The memory of a scope in its place; what the user said there stays."""
        prompts = {prompt.index for prompt in self._prompts}
        context, group = self.log.context(), self.log.projection.group
        end = group(closed.end)[0]
        cut = context.index(end) if end in context else len(context)
        ahead = [
            place
            for place in context[:cut]
            if isinstance(self.log.entries[place], Compaction)
            or place in prompts
            or not closed.start <= group(place)[0] < closed.end
        ]
        memory = text_parts(closed.memory)
        return self.log.compaction(index, memory, context[cut:], ahead=ahead, strategy="kimi-code")

    def _undo(self, count: int) -> Entry | None:
        """Back to before the prompt, that many from the end. Over a compaction there is no way back."""
        target = self._prompts[-count] if 0 < count <= len(self._prompts) else None
        if target is None or target.checkpoint is None or target.index < self._wall:
            return None
        self._prompts = self._prompts[:-count]
        owners = {"", *(prompt.identity for prompt in self._prompts)} if self._is_branch else set()
        gone = [index for index in self.log.messages() if index not in target.before]
        self._stays = [index for index in gone if self._injected.get(index) in owners]
        self._spine.scopes = list(target.scopes)
        del self._spine.stored[target.stored :]
        return Revert(checkpoint=target.checkpoint)

    def _add_again(self, position: int) -> None:
        """Since Kimi Code 2 an undo leaves reminders where they are: they follow it."""
        for index in self._stays:
            again, entry = self.log.next_index(position), self.log.entries[index]
            self._injected[again] = self._injected[index]
            self._add(entry, again, entry.at)
        self._stays = []

    # --- the events of an answer -----------------------------------------------------------------

    def _loop_event(self, event: JsonObject, index: int, at: datetime | None) -> Entry | None:
        step = self._step
        is_open = step is not None and event.text("stepUuid") in ("", step.uuid)
        match event.get("type"):
            case "step.begin":
                self._step = Step(index, at, event.text("uuid"))
            case "content.part" if step is not None and is_open:
                step.parts += self.log.parts([event.get("part")])
            case "tool.call" if step is not None and is_open:
                call_id = event.text("toolCallId") or f"call_{index}"
                call = call_part(call_id, event.text("name"), event.get("args"))
                self.log.calls[call_id] = call
                step.parts.append(call)
            case "tool.result":
                result, asked = event.object("result"), self.log.calls.get(event.text("toolCallId"))
                parts = _as_sent(result, asked.name if asked else "", self.log.parts(result.get("output")))
                took, failed = result.count("durationMs"), result.flag("isError")
                return result_of(event.text("toolCallId"), parts, self.log, failed=failed, milliseconds=took)
            case "step.end" if step is not None:
                step.usage = _USAGE.read(event.get("usage"))
                self.end_step()
            case _:
                pass
        return None

    def _answer(self, step: Step) -> AssistantMessage | None:
        """One without a word is none."""
        model = self._model.rpartition("/")[2] or None
        return (
            AssistantMessage(parts=tuple(step.parts), model=model, usage=step.usage) if step.parts else None
        )


def _system_prompt(record: JsonObject) -> str:
    return record.text("systemPrompt") if record.get("type") in ("config.update", "profile.bind") else ""


def _is_prompt(origin: JsonObject) -> bool:
    kind = origin.get("kind")
    return kind in (None, "user") or (
        kind in ("skill_activation", "plugin_command") and origin.get("trigger") == "user-slash"
    )


def _nested(calls: Json) -> Json:
    """Calls with their function inside: newer files have its name and arguments beside the id."""
    if not isinstance(calls, list):
        return calls
    return [{"function": call, **call} if isinstance(call, dict) else call for call in calls]
