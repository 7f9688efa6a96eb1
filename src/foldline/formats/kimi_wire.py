"""kimi-cli's wire files: what its screen was told, from which the messages can be put together again.

They hold no system prompt and no summaries; the context file beside them does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    FileTouch,
    NoticeRecord,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
)

from .base import Json, JsonLine, JsonObject, as_count, as_object, as_text, as_time
from .chat_parts import content_parts, line_count, tool_call_parts
from .detection import Noted, left_out_note, unknown_records_note
from .foreign_view import ForeignView

Calls = dict[str, ToolCallPart]
"""The tool calls made so far, by id."""

_ACTIONS: dict[str, Literal["read", "modified"]] = {
    "ReadFile": "read",
    "WriteFile": "modified",
    "StrReplaceFile": "modified",
    "Read": "read",
    "Write": "modified",
    "Edit": "modified",
}
"""The tools that name a file: kimi-cli's, then Kimi Code's."""
_FAILED = "<system>ERROR"
_EXIT_CODE = re.compile(r"[Ff]ailed with exit code:? (-?\d+)")


def tool_result(record: JsonObject, parts: tuple[Part, ...], calls: Calls) -> ToolResultMessage:
    """The result of a call, from a message of the role `tool`."""
    failed = record.get("isError") is True or (
        bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(_FAILED)
    )
    return result_of(as_text(record.get("tool_call_id")), parts, calls, failed=failed)


def result_of(call_id: str, parts: tuple[Part, ...], calls: Calls, *, failed: bool) -> ToolResultMessage:
    call = calls.get(call_id)
    path = as_text(call.parsed().get("path")) or as_text(call.parsed().get("file_path")) if call else ""
    action = _ACTIONS.get(call.name) if call else None
    said = "\n".join(
        part.text for part in parts if isinstance(part, TextPart) and not part.text.startswith("<system>")
    )
    status = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    exit_code = _EXIT_CODE.search(status)
    brief = (
        f"exit {exit_code[1]}" if exit_code else "failed" if failed else line_count(said) if said else "done"
    )
    touched = (FileTouch(path=path, action=action),) if action and path and not failed else ()
    return ToolResultMessage(
        call_id=call_id,
        name=call.name if call else "",
        is_error=failed,
        parts=parts,
        details=ToolDetails(brief=brief, files=touched),
    )


_KEPT_BY_A_FOLD = 2
"""How many prompts and answers kimi-cli keeps of its newest, with their results (`SimpleCompaction`)."""

_SILENT = (
    "Approval",
    "Btw",
    "ContentPart",
    "ImageURLPart",
    "TextPart",
    "ThinkPart",
    "Compaction",
    "Hook",
    "MCP",
    "Notification",
    "PlanDisplay",
    "Question",
    "StatusUpdate",
    "Step",
    "Subagent",
    "ToolCall",
    "Turn",
    "metadata",
)
"""How the kinds of events begin that tell the model nothing, or that are pieces of an answer."""


def read_wire(lines: Sequence[JsonLine]) -> Noted:
    reader = _Reader()
    for line in lines:
        reader.read(line)
    reader.end_step()
    notes = [*left_out_note(reader.left_out), *unknown_records_note(reader.entries, _SILENT)]
    if reader.folds:
        notes.append(
            f"A wire file has no summaries: what {reader.folds} folds wrote is missing here. "
            "The context file beside it has it."
        )
    return Noted(sorted(reader.entries, key=lambda entry: entry.index), tuple(notes))


@dataclass
class _Step:
    """An answer while it arrives."""

    index: int
    at: datetime | None
    parts: list[Part] = field(default_factory=list)
    usage: Usage | None = None
    results: list[BaseMessage] = field(default_factory=list)
    """Results that are here before the answer is complete."""


@dataclass
class _Reader:
    """Turns events into entries, one after the other."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    folds: int = 0
    _view: ForeignView = field(default_factory=ForeignView)
    _step: _Step | None = None
    _calls: Calls = field(default_factory=dict)
    _folding: bool = False

    def read(self, line: JsonLine) -> None:
        message = as_object(line.record.get("message"))
        seconds = line.record.get("timestamp")
        at = as_time(seconds * 1000) if isinstance(seconds, int | float) else None
        kind, payload = as_text(message.get("type")), as_object(message.get("payload"))
        if kind == "StepBegin":
            self.end_step()
            self._step = _Step(line.position, at)
            return
        entry = self._entry(kind, payload, line.position)
        if entry is None and self._step is not None and self._step.index == line.position:
            return
        if entry is None:
            entry = Unknown(
                type=f"kimi.{kind or as_text(line.record.get('type')) or 'record'}", record=line.record
            )
        self._add(entry.model_copy(update={"index": line.position, "at": at}))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self._step is not None and isinstance(entry, ToolResultMessage):
            self._step.results.append(entry)
        elif isinstance(entry, BaseMessage):
            self._view.add(entry)

    def _entry(self, kind: str, payload: JsonObject, position: int) -> Entry | None:
        """The entry of an event; None where it is a piece of an answer, or says nothing to us."""
        match kind:
            case "TurnBegin" | "SteerInput":
                self.end_step()
                return UserMessage(parts=self._parts(payload.get("user_input")))
            case "TextPart" | "ThinkPart" | "ImageURLPart" | "ContentPart":
                self._grow(self._parts([payload]), position)
            case "ToolCall":
                calls = tool_call_parts([payload], position)
                self._calls.update({call.call_id: call for call in calls})
                self._grow(calls, position)
            case "ToolCallPart":
                self._grow_call(as_text(payload.get("arguments_part")))
            case "ToolResult":
                return self._tool_result(payload)
            case "StatusUpdate":
                self._count(as_object(payload.get("token_usage")))
            case "StepInterrupted":
                self.end_step()
                return NoticeRecord(text="The step was interrupted.")
            case "CompactionBegin":
                self.end_step()
                self._folding = True
            case "CompactionEnd" if self._folding:
                return self._fold(position)
            case _:
                pass
        return None

    def _grow(self, parts: Sequence[Part], position: int) -> None:
        """More of the answer. Texts that follow each other are one."""
        if self._step is None:
            self._step = _Step(position, None)
        for part in parts:
            last = self._step.parts[-1] if self._step.parts else None
            joined = _joined(last, part)
            if joined is not None:
                self._step.parts[-1] = joined
            else:
                self._step.parts.append(part)

    def _grow_call(self, arguments: str) -> None:
        last = self._step.parts[-1] if self._step and self._step.parts else None
        if self._step is not None and isinstance(last, ToolCallPart):
            before = "" if last.arguments == "{}" else last.arguments
            call = last.model_copy(update={"arguments": before + arguments})
            self._calls[call.call_id] = self._step.parts[-1] = call

    def _count(self, usage: JsonObject) -> None:
        cached = as_count(usage.get("input_cache_read"))
        reported = Usage(
            input=as_count(usage.get("input_other")) + cached + as_count(usage.get("input_cache_creation")),
            cached=cached,
            output=as_count(usage.get("output")),
        )
        if self._step is not None and reported.total:
            self._step.usage = reported

    def end_step(self) -> None:
        """The answer is complete."""
        step, self._step = self._step, None
        if step is not None:
            answer = AssistantMessage(index=step.index, at=step.at, parts=tuple(step.parts), usage=step.usage)
            self._add(answer)
            for result in step.results:
                self._view.add(result)

    def _tool_result(self, payload: JsonObject) -> BaseMessage:
        value = as_object(payload.get("return_value")) or as_object(payload.get("result"))
        output, said = self._parts(value.get("output")), as_text(value.get("message"))
        status = f"<system>{'ERROR: ' if value.get('is_error') is True else ''}{said}</system>"
        parts = (*((TextPart(text=status),) if said else ()), *output)
        failed = value.get("is_error") is True
        return result_of(as_text(payload.get("tool_call_id")), parts, self._calls, failed=failed)

    def _fold(self, position: int) -> Entry:
        self._folding = False
        self.folds += 1
        results = {entry.index for entry in self.entries if isinstance(entry, ToolResultMessage)}
        starts = [index for index in self._view.messages if index not in results]
        first = starts[-_KEPT_BY_A_FOLD] if len(starts) >= _KEPT_BY_A_FOLD else 0
        place = self._view.messages.index(first) if first in self._view.messages else 0
        return self._view.folded(position, (), self._view.messages[place:], strategy="kimi-cli")

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = content_parts(content)
        self.left_out += left_out
        return parts


def _joined(last: Part | None, part: Part) -> Part | None:
    """Two pieces of a text, or of a thought, as one; None where they are not."""
    match last, part:
        case TextPart(), TextPart():
            return TextPart(text=last.text + part.text)
        case ThinkingPart(), ThinkingPart() if last.signature is None:
            return ThinkingPart(text=last.text + part.text, signature=part.signature)
        case _:
            return None
