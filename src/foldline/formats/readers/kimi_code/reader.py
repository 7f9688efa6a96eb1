"""Reads Kimi Code's wire files, which record every change to the context.

Each record has one index, except that an undo has two. An answer has the index of its first event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from foldline.formats.base import Counted, Json, JsonLine, JsonObject
from foldline.formats.parts import (
    BESIDE,
    PROMPT_CHANGED,
    UsageFields,
    call_part,
    has_image,
    text_in,
    tool_call_parts,
    user_message,
)
from foldline.formats.tool_results import in_call_order
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Entry,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    UserMessage,
    text_parts,
)

from .results import parts_as_sent, result_of
from .spine import RECORDS, ClosedScope, Spine, is_transition

_SILENT = (
    "agent.", "config.", "context.append_loop_event", "context.undone", "file_history.", "forked",
    "full_compaction.", "goal.", "interaction.", "llm.", "mcp.", "metadata", "micro_compaction.",
    "permission.", "plan_mode.", "plugin.", "profile.", "prompt.", "runtime.", "spine.", "subagent.",
    "swarm_mode.", "token_counting.", "tools.", "turn.", "usage.",
)  # fmt: skip
"""Prefixes of types of records that are not sent to the model, or repeat other records."""
_BETWEEN_STEPS = (
    "context.apply_compaction", "context.clear", "context.undo", "turn.prompt", "turn.cancel", *RECORDS
)  # fmt: skip
_EVENT = "context.append_loop_event"
"""The type of a record that contains an event of an answer."""
_SETTINGS = ("config.update", "profile.bind")
_USAGE = UsageFields(
    ("inputOther", "inputCacheRead", "inputCacheCreation"),
    ("output",),
    cached="inputCacheRead",
)
_CONTINUES = (
    "<system-reminder>\nContext compaction is complete — continue the work that was in progress when it "
    "began.\n</system-reminder>"
)
"""The message that Kimi Code 2 sends after a summary, but does not record."""
RESULTS_IN_FULL = (
    "Old tool results that Kimi Code had cleared from requests are shown in full."
)
PROMPTS_IN_FULL = (
    "Prompts that Kimi Code had shortened in a compaction are shown in full."
)


@dataclass
class _SentPrompt:
    """A prompt in the context.

    An undo can go back to the prompt, and a compaction can keep it.
    """

    index: int
    before: int
    """The newest entry before the prompt."""
    scopes: list[int]
    """The scopes that were open when the prompt was sent."""
    identity: str


class KimiCodeReader:
    """Converts the records of a wire file to entries."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        lines = in_call_order(
            lines,
            begins_answer=lambda line: (
                line.record.text("event", "type") == "step.begin"
            ),
            calls_in=lambda line: filter(None, [_call_id(line, "tool.call")]),
            result_of=lambda line: _call_id(line, "tool.result"),
        )
        settings = (line.record for line in lines if line.record.kind in _SETTINGS)
        prompts = list(
            filter(None, (record.text("systemPrompt") for record in settings))
        )
        kinds = {line.record.kind for line in lines}
        self.log = Transcript("kimi")
        self._notes: list[str] = []
        self._system_prompt = prompts[-1] if prompts else ""
        """The session's last system prompt; empty as soon as it has been added.

        Only the last one is used, because a view can have only one.
        """
        self._model = ""
        self._undo_keeps_reminders = "agent.switched" in kinds  # since Kimi Code 2
        self._spine = Spine()
        self._has_records = not kinds.isdisjoint(RECORDS)
        """Whether the file contains records of transitions."""
        self._prompts: list[_SentPrompt] = []
        """The prompts that are currently in the context, oldest first."""
        self._reminders: dict[int, str] = {}
        """The ids of the prompts that reminders belong to, by the reminder's index.

        An id may be empty.
        """
        self._last_compaction = -1
        """The index of the newest compaction or clear.

        An undo cannot go back beyond it.
        """
        self._kept: list[int] = []
        """The indices of the messages that the newest compaction kept, including its summary."""
        self._newest_answer: AssistantMessage | None = None
        """The newest answer, until any transition among its calls has been applied."""
        self._steps = _steps(lines)
        if "micro_compaction.apply" in kinds:
            self._notes.append(RESULTS_IN_FULL)
        for line in lines:
            self._read(line)
        self._close_scope(lines[-1].position + 1, None)
        if len(set(prompts)) > 1:
            self._notes.append(PROMPT_CHANGED)

    def notes(self) -> list[str]:
        return list(dict.fromkeys((*self.log.notes(_SILENT), *self._notes)))

    def _read(self, line: JsonLine) -> None:
        record = line.record
        position = line.position
        at = record.time("time")
        if position in self._steps or record.at("message", "role") == "assistant":
            self._close_scope(position, at)
        if record.kind == "context.undo" and self._undo(record, at, position):
            return
        index = self.log.next_index(position)
        if position in self._steps:
            answer = self._answer(self._steps[position])
            if answer:
                self._add(index, answer, at)
            return
        messages = record.count("messageCount")
        is_request = (
            record.kind == "llm.request" and record.get("kind", "loop") == "loop"
        )
        if messages and is_request:
            self.log.counted.append(Counted(index, messages))
        entry = self._entry(record, index) or self.log.unknown(record, record.kind)
        self._add(index, entry, at)
        if isinstance(entry, Compaction) and "wireLines" in record:  # since Kimi Code 2
            reminder = DeveloperMessage(parts=text_parts(_CONTINUES))
            self._add(self.log.next_index(position), reminder, at)

    def _add(self, index: int, entry: Entry, at: datetime | None) -> None:
        self.log.put(index, entry, at)
        message = self.log.entries[index]
        if isinstance(message, AssistantMessage):
            self._newest_answer = message

    def _entry(self, record: JsonObject, index: int) -> Entry | None:
        match record.kind:
            case kind if kind == _EVENT:
                return self._result(record.object("event"))
            case "context.append_message":
                return self._message(record, index)
            case kind if kind in _SETTINGS:
                return self._settings(record)
            case "context.apply_compaction":
                return self._compaction(record, index)
            case kind if kind in RECORDS:
                scope = self._spine.apply_record(record, self._counted_messages())
                return self._scope_compaction(index, scope) if scope else None
            case "context.clear":
                self._start_over(index, ())
                return Clear()
            case "usage.record" if record.get("usageScope") == "session":
                usage = _USAGE.read(record.get("usage"))
                return NoticeRecord(text=BESIDE, model=self._model_name, usage=usage)
            case "turn.cancel":
                return NoticeRecord(text="The turn was cancelled.")
            case _:
                return None

    @property
    def _model_name(self) -> str | None:
        return self._model.rpartition("/")[2] or None

    def _settings(self, record: JsonObject) -> Entry | None:
        """Return the system prompt or a change of model.

        Returns None if neither has changed.
        """
        model = record.text("modelAlias")
        prompt = self._system_prompt
        previous = self._model
        self._model = model or previous
        if prompt and record.text("systemPrompt"):
            self._system_prompt = ""
            return SystemMessage(parts=text_parts(prompt))
        if self._model == previous:
            return None
        return ModelChange(
            model=self._model_name or model, provider=model.rpartition("/")[0] or None
        )

    def _message(self, record: JsonObject, index: int) -> Entry | None:
        message = record.object("message")
        kind = message.at("origin", "kind")
        parts = self.log.content(message)
        match message.role:
            case "user" if _is_prompt(record):
                scopes = list(self._spine.scopes)
                self._prompts.append(
                    _SentPrompt(
                        index, self.log.newest_index, scopes, message.text("id")
                    )
                )
                return user_message(parts, typed=kind in (None, "user"))
            case "user" if kind == "compaction_summary" and self._has_scopes():
                self._start_over(index, [index])
                return self.log.compaction(index, parts, (), strategy="kimi-code")
            case "user" | "system" if kind == "shell_command":
                return UserMessage(parts=parts, origin="shell")
            case "user" | "system" if has_image(parts):
                return UserMessage(parts=parts, origin="machine")
            case "user" | "system" | "developer":
                if kind == "injection":
                    self._reminders[index] = message.text("origin", "ownerPromptId")
                return DeveloperMessage(parts=parts)
            case "assistant":
                calls = tool_call_parts(_nested(message.get("toolCalls")), index)
                return AssistantMessage(parts=(*parts, *calls))
            case "tool":
                failed = message.flag("isError")
                return result_of(
                    message.text("toolCallId"), parts, self.log, failed=failed
                )
            case _:
                return None

    def _answer(self, step: Sequence[JsonLine]) -> AssistantMessage | None:
        """Assemble an answer from its events.

        Returns None if the answer is empty.
        """
        uuid = step[0].record.text("event", "uuid")
        parts: list[Part] = []
        usage = None
        for line in step:
            event = line.record.object("event")
            is_own = event.text("stepUuid") in ("", uuid)
            if event.kind == "content.part" and is_own:
                parts += self.log.parts([event.get("part")])
            elif event.kind == "tool.call" and is_own:
                call_id = event.text("toolCallId") or f"call_{line.position}"
                parts.append(call_part(call_id, event.text("name"), event.get("args")))
            elif event.kind == "step.end":
                usage = _USAGE.read(event.get("usage"))
        if not parts:
            return None
        return AssistantMessage(parts=tuple(parts), model=self._model_name, usage=usage)

    def _result(self, event: JsonObject) -> Entry | None:
        if event.kind != "tool.result":
            return None
        call_id = event.text("toolCallId")
        result = event.object("result")
        call = self.log.calls.get(call_id)
        output = self.log.parts(result.get("output"))
        parts = parts_as_sent(result, call.name if call else "", output)
        milliseconds = result.count("durationMs")
        failed = result.flag("isError")
        return result_of(
            call_id, parts, self.log, failed=failed, milliseconds=milliseconds
        )

    def _compaction(self, record: JsonObject, index: int) -> Entry:
        """Return a compaction that keeps prompts before the summary, or messages after it."""
        summary = record.first("contextSummary", "summary")
        if not summary:
            summary = text_in(self.log.parts(record.at("summary", "content")))
        ahead: list[int] = []
        kept: list[int] = []
        if isinstance(record.get("keptUserMessageCount"), int):
            ahead = self._kept_prompts(record)
        else:
            kept = self.log.context()[record.count("compactedCount") :]
        self._start_over(index, [*ahead, index, *kept])
        return self.log.compaction(
            index,
            text_parts(summary),
            kept,
            ahead=ahead,
            strategy="kimi-code",
            tokens_before=record.count("tokensBefore"),
            tokens_after=record.count("tokensAfter"),
        )

    def _start_over(self, index: int, kept: Sequence[int]) -> None:
        """Continue with a context that consists of these messages."""
        self._last_compaction = index
        self._kept = list(kept)
        self._prompts = [prompt for prompt in self._prompts if prompt.index in kept]
        self._spine.scopes = [index]

    def _kept_prompts(self, record: JsonObject) -> list[int]:
        """Return the indices of the oldest and newest prompts that the record keeps."""
        context = set(self.log.messages())
        prompts = [prompt.index for prompt in self._prompts if prompt.index in context]
        oldest = record.count("keptHeadUserMessageCount")
        newest = max(0, record.count("keptUserMessageCount") - oldest)
        if oldest:
            self._notes.append(PROMPTS_IN_FULL)
        dropped = range(oldest, len(prompts) - newest)
        return [index for place, index in enumerate(prompts) if place not in dropped]

    def _has_scopes(self) -> bool:
        return self._has_records or any(map(is_transition, self.log.calls.values()))

    def _counted_messages(self) -> list[int]:
        """Return the indices of the messages that Kimi Code counts, in its order."""
        projection = self.log.projection
        messages = list(self._kept)
        for index, entry in self.log.entries.items():
            is_message = isinstance(entry, BaseMessage) and not isinstance(
                entry, SystemMessage
            )
            is_undone = projection.fate(index).kind == "reverted"
            if is_message and index > self._last_compaction and not is_undone:
                messages += projection.group(index)
        return list(dict.fromkeys(messages))

    def _close_scope(self, position: int, at: datetime | None) -> None:
        """Add a compaction for the scope closed by the newest answer, if any."""
        answer = self._newest_answer
        self._newest_answer = None
        if answer is None or self._has_records:
            return
        results = map(self.log.message, self.log.results_of(answer.index))
        scope = self._spine.apply_calls(answer, results)
        if scope:
            index = self.log.next_index(position)
            self.log.put(index, self._scope_compaction(index, scope), at)

    def _scope_compaction(self, index: int, scope: ClosedScope) -> Compaction:
        """Return a compaction that replaces a scope with its memory, but keeps its prompts."""
        prompts = {prompt.index for prompt in self._prompts}
        context = self.log.context()
        group = self.log.projection.group
        end = group(scope.end)[0]
        cut = context.index(end) if end in context else len(context)
        ahead: list[int] = []
        for message in context[:cut]:
            is_summary = isinstance(self.log.entries[message], Compaction)
            is_inside = scope.start <= group(message)[0] < scope.end
            if is_summary or message in prompts or not is_inside:
                ahead.append(message)
        memory = text_parts(scope.memory)
        return self.log.compaction(
            index,
            memory,
            context[cut:],
            ahead=ahead,
            strategy="kimi-code",
        )

    def _undo(self, record: JsonObject, at: datetime | None, position: int) -> bool:
        """Undo the newest prompts.

        Returns False if this would undo a compaction.
        """
        count = record.count("count")
        target = self._prompts[-count] if 0 < count <= len(self._prompts) else None
        if target is None or target.index < self._last_compaction:
            return False
        self._prompts = self._prompts[:-count]
        self._spine.scopes = target.scopes
        self.log.go_back_to(target.before, at, position)
        if self._undo_keeps_reminders:
            self._repeat_reminders(self.log.newest_index, position)
        return True

    def _repeat_reminders(self, undo: int, position: int) -> None:
        """Add reminders again that an undo removed although they should stay in the context."""
        owners = {"", *(prompt.identity for prompt in self._prompts)}
        fate = self.log.projection.fate
        for index, owner in list(self._reminders.items()):
            if owner in owners and fate(index).by == undo:
                reminder = self.log.entries[index]
                again = self.log.next_index(position)
                self._reminders[again] = owner
                self._add(again, reminder, reminder.at)


def _call_id(line: JsonLine, event: str) -> str:
    """Return the call id in an event of this type.

    Returns an empty string for other lines.
    """
    is_event = line.record.text("event", "type") == event
    return line.record.text("event", "toolCallId") if is_event else ""


def _steps(lines: Sequence[JsonLine]) -> dict[int, list[JsonLine]]:
    """Return each step's events, by the position of the first event."""
    steps: dict[int, list[JsonLine]] = {}
    step: list[JsonLine] = []
    for line in lines:
        record = line.record
        event = record.text("event", "type") if record.kind == _EVENT else ""
        is_answer = record.at("message", "role") == "assistant"
        if event:
            step.append(line)
        if is_answer or event == "step.end" or record.kind in _BETWEEN_STEPS:
            step = []
        if event == "step.begin":
            step = steps[line.position] = [line]
    return steps


def _is_prompt(record: JsonObject) -> bool:
    """Return whether this message was sent or triggered by the user."""
    message = record.object("message")
    origin = record.object("message", "origin")
    kind = origin.get("kind")
    is_called = (
        kind in ("skill_activation", "plugin_command")
        and origin.get("trigger") == "user-slash"
    )
    by_user = message.role == "user" and (kind in (None, "user") or is_called)
    return by_user and record.kind == "context.append_message"


def _nested(calls: Json) -> Json:
    """Convert calls to the form used in older files, with a `function` object."""
    if not isinstance(calls, list):
        return calls
    return [
        {"function": call, **call} if isinstance(call, dict) else call for call in calls
    ]
