"""Kimi Code's wire files: every change of the context as a record, from which the context is built again.

One index a record. Where a session has undos, each prompt has a checkpoint before it, which takes one more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

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
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
    text_parts,
)

from .base import Counted, Json, JsonLine, JsonObject, as_count, as_object, as_text, as_time
from .chat_parts import arguments_text, content_parts, tool_call_parts
from .detection import Noted, left_out_note, unknown_records_note
from .foreign_view import ForeignView, Moment
from .kimi_spine import RECORDS, Closed, Spine
from .kimi_wire import Calls, result_of

_SILENT = (
    "config.",
    "context.append_loop_event",
    "forked",
    "full_compaction.",
    "goal.",
    "llm.",
    "mcp.",
    "metadata",
    "micro_compaction.",
    "permission.",
    "plan_mode.",
    "plugin.",
    "profile.",
    "runtime.",
    "spine.",
    "swarm_mode.",
    "token_counting.",
    "tools.",
    "turn.",
    "usage.",
)
"""How the types of records begin that say nothing to the model, or that other records repeat."""


def read_code_wire(lines: Sequence[JsonLine]) -> Noted:
    prompts = [text for line in lines if (text := _system_prompt(line.record))]
    reader = _Reader(
        prompt=prompts[-1] if prompts else "",
        has_undos=any(line.record.get("type") == "context.undo" for line in lines),
        spine=Spine(on_record=any(line.record.get("type") in RECORDS for line in lines)),
    )
    for line in lines:
        reader.read(line)
    reader.end_step()
    reader.close_scope(lines[-1].position + 1, None)
    notes = [*left_out_note(reader.left_out), *unknown_records_note(reader.entries, _SILENT), *reader.notes]
    if len(set(prompts)) > 1:
        notes.append("The system prompt changed: the last one stands for all.")
    entries = sorted(reader.entries, key=lambda entry: entry.index)
    return Noted(entries, tuple(dict.fromkeys(notes)), reader.cwd, tuple(reader.counted))


def _system_prompt(record: JsonObject) -> str:
    return (
        as_text(record.get("systemPrompt")) if record.get("type") in ("config.update", "profile.bind") else ""
    )


@dataclass
class _Step:
    """An answer while it arrives."""

    uuid: str
    index: int
    at: datetime | None
    parts: list[Part] = field(default_factory=list)
    usage: Usage | None = None
    later: list[BaseMessage] = field(default_factory=list)
    """Results that are here before it is complete, and what waits for its results."""


@dataclass
class _Prompt:
    """Something the user sent, which an undo can go back to, and a fold keeps."""

    index: int
    checkpoint: int | None
    before: Moment
    scopes: tuple[int, ...]
    stored: int
    """The spine then: its open scopes, and how many messages it had."""


@dataclass
class _Reader:
    """Turns records into entries, one after the other."""

    prompt: str
    """The system prompt the model had last: a view has only one."""
    has_undos: bool
    spine: Spine
    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cwd: str = ""
    counted: list[Counted] = field(default_factory=list)
    _view: ForeignView = field(default_factory=ForeignView)
    _step: _Step | None = None
    _prompts: list[_Prompt] = field(default_factory=list)
    """In the context at this point, oldest first."""
    _calls: Calls = field(default_factory=dict)
    _model: str = ""
    _extra: int = 0
    """Indices given to checkpoints."""
    _checkpoints: int = 0
    _wall: int = -1
    """The newest fold that no undo goes back over."""

    def read(self, line: JsonLine) -> None:
        record, at = line.record, as_time(line.record.get("time"))
        disclosed = as_object(record.get("environmentDisclosure"))
        if _begins_an_answer(record):
            self.end_step()
            self.close_scope(line.position, at)
        self.cwd = self.cwd or as_text(disclosed.get("cwd")) or as_text(record.get("cwd"))
        if record.get("type") == "context.append_loop_event":
            entry = self._loop_event(as_object(record.get("event")), line.position + self._extra, at)
        else:
            entry = self._entry(record, line.position, at)
        index = line.position + self._extra
        if entry is None:
            if self._step is not None and self._step.index == index:
                return
            entry = Unknown(type=f"kimi.{as_text(record.get('type')) or 'record'}", record=record)
        self._add(entry.model_copy(update={"index": index, "at": at}))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self._step is not None and isinstance(entry, BaseMessage) and not isinstance(entry, SystemMessage):
            self._step.later.append(entry)
        elif isinstance(entry, BaseMessage):
            self._to_view(entry)

    def _to_view(self, message: BaseMessage) -> None:
        self._view.add(message)
        if not isinstance(message, SystemMessage):
            self.spine.add(message)

    # --- records ---------------------------------------------------------------------------------

    def _entry(self, record: JsonObject, position: int, at: datetime | None) -> Entry | None:
        """The entry of a record; None for one that says nothing to us."""
        match record.get("type"):
            case "config.update" | "profile.bind":
                return self._settings(record)
            case "context.append_message":
                return self._message(as_object(record.get("message")), position, at)
            case "context.apply_compaction":
                self.end_step()
                return self._fold(record, position + self._extra)
            case "context.clear":
                self.end_step()
                self._view.clear()
                self._prompts = []
                self.spine.scopes, self.spine.stored = [0], []
                return Clear()
            case "spine.open" | "spine.close" | "spine.next" as kind:
                self.end_step()
                closed = self.spine.recorded(kind, record)
                return self._scope_fold(position + self._extra, closed) if closed else None
            case "llm.request" if record.get("kind", "loop") == "loop":
                sent = as_count(record.get("messageCount"))
                self.counted += [Counted(position + self._extra, sent)] if sent else []
                return None
            case "context.undo":
                self.end_step()
                return self._undo(as_count(record.get("count")))
            case "micro_compaction.apply":
                self.notes.append(
                    "Old tool results that Kimi Code had cleared from requests are shown in full."
                )
                return None
            case "turn.prompt":
                self.end_step()
                return None
            case "turn.cancel":
                self.end_step()
                return NoticeRecord(text="The turn was cancelled.")
            case _:
                return None

    def _settings(self, record: JsonObject) -> Entry | None:
        """The system prompt, once; or another model. What comes with the prompt shows in the answers."""
        model, before = as_text(record.get("modelAlias")), self._model
        self._model = model or before
        if _system_prompt(record) and not any(isinstance(entry, SystemMessage) for entry in self.entries):
            return SystemMessage(parts=text_parts(self.prompt))
        if self._model == before:
            return None
        provider, _, name = model.rpartition("/")
        return ModelChange(model=name or model, provider=provider or None)

    def _message(self, message: JsonObject, position: int, at: datetime | None) -> Entry | None:
        origin, parts = as_object(message.get("origin")), self._parts(message.get("content"))
        match message.get("role"):
            case "user" if _is_prompt(origin):
                return self._prompt_of(origin, parts, position, at)
            case "user" if origin.get("kind") == "compaction_summary" and self._has_spine:
                index = position + self._extra
                self._prompts, self._wall = [], index
                fold = self._view.folded(index, parts, (), strategy="kimi-code")
                self.spine.start_over(index)
                return fold
            case "user" | "system" if origin.get("kind") == "shell_command":
                return UserMessage(parts=parts, origin="shell")
            case "user" | "system" if any(isinstance(part, ImagePart) for part in parts):
                return UserMessage(parts=parts, origin="machine")
            case "user" | "system" | "developer":
                return DeveloperMessage(parts=parts)
            case "assistant":
                calls = tool_call_parts(_nested(message.get("toolCalls")), position)
                self._calls.update({call.call_id: call for call in calls})
                return AssistantMessage(parts=(*parts, *calls))
            case "tool":
                failed = message.get("isError") is True
                return result_of(as_text(message.get("toolCallId")), parts, self._calls, failed=failed)
            case _:
                return None

    def _prompt_of(
        self, origin: JsonObject, parts: tuple[Part, ...], position: int, at: datetime | None
    ) -> UserMessage:
        """What the user sent. The text of a skill or a plugin is the machine's, though the user called it."""
        checkpoint = None
        if self.has_undos:
            self._checkpoints += 1
            checkpoint = self._checkpoints
            self.entries.append(Checkpoint(index=position + self._extra, at=at, id=checkpoint))
            self._extra += 1
        index = position + self._extra
        scopes, stored = tuple(self.spine.scopes), len(self.spine.stored)
        self._prompts.append(_Prompt(index, checkpoint, self._view.moment(), scopes, stored))
        typed = origin.get("kind") in (None, "user")
        return UserMessage(parts=parts, origin="typed" if typed else "machine")

    def _fold(self, record: JsonObject, index: int) -> Entry:
        """A fold. Newer ones keep prompts, before the summary; older ones the newest messages, after it."""
        summary = as_text(record.get("contextSummary")) or as_text(record.get("summary"))
        if not summary:
            summary = "\n".join(
                part.text
                for part in self._parts(as_object(record.get("summary")).get("content"))
                if isinstance(part, TextPart)
            )
        ahead: list[int] = []
        kept: list[int] = []
        if isinstance(record.get("keptUserMessageCount"), int):
            ahead = self._kept_prompts(record)
        else:
            items = ([None] if self._view.fold else []) + self._view.messages
            after = items[as_count(record.get("compactedCount")) :]
            kept = [place for place in after if place is not None]
        self._prompts = [prompt for prompt in self._prompts if prompt.index in {*ahead, *kept}]
        self._wall = index
        fold = self._view.folded(
            index,
            text_parts(summary),
            kept,
            ahead=ahead,
            strategy="kimi-code",
            tokens_before=as_count(record.get("tokensBefore")),
            tokens_after=as_count(record.get("tokensAfter")),
        )
        self.spine.start_over(index)
        self.spine.stored = [*ahead, index, *kept]
        return fold

    @property
    def _has_spine(self) -> bool:
        return self.spine.on_record or self.spine.used

    def close_scope(self, position: int, at: datetime | None) -> None:
        """Before the next answer: fold the scope that the one before has closed."""
        closed = self.spine.transition()
        if closed is not None:
            index = position + self._extra
            fold = self._scope_fold(index, closed)
            self.entries.append(fold.model_copy(update={"index": index, "at": at}))
            self._extra += 1

    def _scope_fold(self, index: int, closed: Closed) -> Compaction:
        """The memory of a scope in its place; what the user said there stays."""
        prompts = {prompt.index for prompt in self._prompts}
        gone = [place for place in range(closed.start, closed.end) if place not in prompts]
        return self._view.scope_folded(
            index, text_parts(closed.memory), gone, before=closed.end, strategy="kimi-code"
        )

    def _kept_prompts(self, record: JsonObject) -> list[int]:
        """The oldest and the newest prompts, as many as the record says."""
        here = set(self._view.messages)
        prompts = [prompt.index for prompt in self._prompts if prompt.index in here]
        count, head = (
            as_count(record.get("keptUserMessageCount")),
            as_count(record.get("keptHeadUserMessageCount")),
        )
        if head:
            self.notes.append("Prompts that Kimi Code had shortened in a fold are shown whole.")
        newest = max(0, count - head)
        chosen = prompts[:head] + (prompts[-newest:] if newest else [])
        return list(dict.fromkeys(chosen))

    def _undo(self, count: int) -> Entry | None:
        """Back to before the prompt, that many from the end. Over a fold there is no way back."""
        target = self._prompts[-count] if 0 < count <= len(self._prompts) else None
        if target is None or target.checkpoint is None or target.index < self._wall:
            return None
        self._prompts = self._prompts[:-count]
        self.spine.scopes = list(target.scopes)
        del self.spine.stored[target.stored :]
        self._view.go_back_to(target.before)
        return Revert(checkpoint=target.checkpoint)

    # --- the events of an answer -----------------------------------------------------------------

    def _loop_event(self, event: JsonObject, index: int, at: datetime | None) -> Entry | None:
        match event.get("type"):
            case "step.begin":
                self.end_step()
                self._step = _Step(as_text(event.get("uuid")), index, at)
            case "content.part" if self._is_open(event):
                self._grow(self._parts([event.get("part")]))
            case "tool.call" if self._is_open(event):
                call = ToolCallPart(
                    call_id=as_text(event.get("toolCallId")) or f"call_{index}",
                    name=as_text(event.get("name")),
                    arguments=arguments_text(event.get("args")),
                )
                self._calls[call.call_id] = call
                self._grow((call,))
            case "tool.result":
                return self._tool_result(event)
            case "step.end" if self._step is not None:
                self._step.usage = _usage(as_object(event.get("usage")))
                self.end_step()
            case _:
                pass
        return None

    def _is_open(self, event: JsonObject) -> bool:
        return self._step is not None and as_text(event.get("stepUuid")) in ("", self._step.uuid)

    def _grow(self, parts: Sequence[Part]) -> None:
        if self._step is not None:
            self._step.parts.extend(parts)

    def _tool_result(self, event: JsonObject) -> ToolResultMessage:
        result = as_object(event.get("result"))
        parts = (*self._parts(result.get("output")), *text_parts(as_text(result.get("note"))))
        failed = result.get("isError") is True
        return result_of(as_text(event.get("toolCallId")), parts, self._calls, failed=failed)

    def end_step(self) -> None:
        """The answer is complete: it, its results, then what waited for them. One without a word is none."""
        step, self._step = self._step, None
        if step is None:
            return
        if step.parts:
            self._add(
                AssistantMessage(
                    index=step.index,
                    at=step.at,
                    parts=tuple(step.parts),
                    model=self._model.rpartition("/")[2] or None,
                    usage=step.usage,
                )
            )
        for message in sorted(step.later, key=lambda each: not isinstance(each, ToolResultMessage)):
            self._to_view(message)

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = content_parts(content)
        self.left_out += left_out
        return parts


def _begins_an_answer(record: JsonObject) -> bool:
    return as_object(record.get("event")).get("type") == "step.begin" or (
        as_object(record.get("message")).get("role") == "assistant"
    )


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


def _usage(usage: JsonObject) -> Usage | None:
    cached = as_count(usage.get("inputCacheRead"))
    reported = Usage(
        input=as_count(usage.get("inputOther")) + cached + as_count(usage.get("inputCacheCreation")),
        cached=cached,
        output=as_count(usage.get("output")),
    )
    return reported if reported.total else None
