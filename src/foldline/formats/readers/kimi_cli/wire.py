"""Reads kimi-cli's wire files, which contain events for the screen.

An index is the position of an event.

Wire files contain neither the system prompt nor summaries. Both are in the context file next to the wire
file.
"""

from collections.abc import Sequence

from foldline.formats.base import JsonLine, JsonObject
from foldline.formats.parts import UsageFields, tool_call_parts
from foldline.formats.readers.kimi_code.results import result_of
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    NoticeRecord,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.text.numbers import many

_KEPT_BY_A_COMPACTION = 2
"""The number of newest prompts and answers that a compaction keeps, with their results.

The value is that of kimi-cli's `SimpleCompaction`.
"""
_CONTENT = ("TextPart", "ThinkPart", "ImageURLPart", "ContentPart")
_STEP_ENDS = (
    "StepBegin",
    "TurnBegin",
    "SteerInput",
    "StepInterrupted",
    "CompactionBegin",
)
_SILENT = (
    "Approval", "Btw", "ContentPart", "ImageURLPart", "TextPart", "ThinkPart", "Compaction", "Hook", "MCP",
    "Notification", "PlanDisplay", "Question", "StatusUpdate", "Step", "Subagent", "ToolCall", "Turn",
    "metadata",
)  # fmt: skip
"""Prefixes of types of events that are not sent to the model, or are pieces of an answer."""
_USAGE = UsageFields(
    ("input_other", "input_cache_read", "input_cache_creation"),
    ("output",),
    cached="input_cache_read",
)


class KimiWireReader:
    """Converts the events of a wire file to entries."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self.log = Transcript("kimi")
        self._compactions = 0
        self._is_compacting = False
        steps = _steps(lines)
        for line in lines:
            event = line.record.object("message")
            is_timed = not isinstance(line.record.get("timestamp"), str)
            entry = self._entry(event.kind, event.object("payload"), line.position)
            if line.position in steps:
                entry = self._answer(steps[line.position])
                is_timed = is_timed and event.kind == "StepBegin"
            at = line.record.time("timestamp", unit=1) if is_timed else None
            self.log.put_record(
                line.position,
                entry,
                line.record,
                event.kind or line.record.kind,
                at,
            )

    def notes(self) -> list[str]:
        notes = [*self.log.notes(_SILENT)]
        if self._compactions:
            compactions = many(self._compactions, "compaction")
            notes.append(
                f"A wire file has no summaries, so those of {compactions} are missing. "
                "They are in the context file next to it."
            )
        return notes

    def _entry(self, kind: str, payload: JsonObject, position: int) -> Entry | None:
        match kind:
            case "TurnBegin" | "SteerInput":
                return UserMessage(parts=self.log.parts(payload.get("user_input")))
            case "ToolResult":
                return self._tool_result(payload)
            case "StepInterrupted":
                return NoticeRecord(text="The step was interrupted.")
            case "CompactionBegin":
                self._is_compacting = True
            case "CompactionEnd" if self._is_compacting:
                self._is_compacting = False
                return self._compaction(position)
        return None

    def _answer(self, step: Sequence[JsonLine]) -> AssistantMessage:
        """Assemble an answer from the events of its step."""
        parts: list[Part] = []
        usage = None
        for line in step:
            event = line.record.object("message")
            payload = event.object("payload")
            if event.kind in _CONTENT:
                for part in self.log.parts([payload]):
                    _append(parts, part)
            elif event.kind == "ToolCall":
                parts += tool_call_parts([payload], line.position)
            elif event.kind == "ToolCallPart":
                _append(parts, payload.text("arguments_part"))
            elif event.kind == "StatusUpdate":
                usage = _USAGE.read(payload.get("token_usage")) or usage
        return AssistantMessage(parts=tuple(parts), usage=usage)

    def _tool_result(self, payload: JsonObject) -> BaseMessage:
        value = payload.object("return_value") or payload.object("result")
        message = value.text("message")
        failed = value.flag("is_error")
        parts = self.log.parts(value.get("output"))
        if message:
            error = "ERROR: " if failed else ""
            parts = (TextPart(text=f"<system>{error}{message}</system>"), *parts)
        return result_of(payload.text("tool_call_id"), parts, self.log, failed=failed)

    def _compaction(self, position: int) -> Entry:
        """Return a compaction that keeps the newest prompts and answers."""
        self._compactions += 1
        messages = self.log.messages()
        is_result = [
            isinstance(self.log.entries[index], ToolResultMessage) for index in messages
        ]
        starts = [place for place, result in enumerate(is_result) if not result]
        first = (
            starts[-_KEPT_BY_A_COMPACTION]
            if len(starts) >= _KEPT_BY_A_COMPACTION
            else 0
        )
        return self.log.compaction(position, (), messages[first:], strategy="kimi-cli")


def _steps(lines: Sequence[JsonLine]) -> dict[int, list[JsonLine]]:
    """Return each step's events, by the position of the first event."""
    steps: dict[int, list[JsonLine]] = {}
    step: list[JsonLine] | None = None
    for line in lines:
        kind = line.record.text("message", "type")
        if kind in _STEP_ENDS:
            step = None
        if kind == "StepBegin" or (step is None and kind in (*_CONTENT, "ToolCall")):
            step = steps[line.position] = []
        if step is not None:
            step.append(line)
    return steps


def _append(parts: list[Part], piece: Part | str) -> None:
    """Add a part, or append a piece of text or arguments to the last part."""
    match parts[-1] if parts else None, piece:
        case ToolCallPart() as call, str():
            arguments = call.arguments.removeprefix("{}") + piece
            parts[-1] = call.model_copy(update={"arguments": arguments})
        case TextPart() as last, TextPart():
            parts[-1] = TextPart(text=last.text + piece.text)
        case ThinkingPart(signature=None) as last, ThinkingPart():
            parts[-1] = ThinkingPart(
                text=last.text + piece.text, signature=piece.signature
            )
        case _, str():
            pass
        case _:
            parts.append(piece)
