"""Writer for pi: the view as a session that it resumes. A summary that opens it is a compaction of pi's."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.context.numbers import many
from foldline.context.view import is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CompactionDetails,
    ImagePart,
    ModelChange,
    Part,
    TextPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

from ..base import JsonObject
from ..export import Exported, Original
from ..readers.pi.reader import FRAME, shell_text
from .records import PROVIDER, Record, arguments_held, iso, record_line

_BROKEN_OFF = ("cancelled", "error")
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def write_pi(original: Original) -> Exported:
    """A session file of pi. Prompt and instruction files are in records that its model never sees."""
    header, projection = original.header, original.projection
    writer = _Writer(header.created_at)
    about = {"id": header.id, "timestamp": iso(header.created_at), "cwd": header.cwd}
    writer.lines.append(record_line({"type": "session", "version": 3, **about}))
    for entry in original.entries:
        if isinstance(entry, Title):
            writer.write("session_info", {"name": entry.title})
        elif isinstance(entry, ModelChange):
            writer.write("model_change", {"provider": PROVIDER, "modelId": entry.model})
    opening = next((item for item in projection.view if not item.is_preamble), None)
    for item in projection.view:
        if item.is_preamble:
            writer.keep_apart(item.message)
        elif item is opening and item.written and is_summary(item):
            writer.compact(item.message, projection.compactions()[-1].details)
        else:
            writer.add(item.message)
    notes = writer.notes()
    preamble = sum(item.is_preamble for item in projection.view)
    if preamble:
        notes.append(
            f"pi brings its own system prompt: {many(preamble, 'message')} of prompt and "
            "instructions will not be in its view."
        )
    return Exported(b"".join(writer.lines), tuple(notes))


@dataclass
class _Writer:
    """Writes records one below the other, and counts what could not be spelt."""

    at: datetime
    """When the newest record was made: one without a time has that of the one before."""
    lines: list[bytes] = field(default_factory=list)
    _newest: str | None = None
    _unspelt: int = 0
    """Calls whose arguments pi cannot hold."""
    _mended: int = 0
    """Answers that broke off, and are in the view all the same."""

    def notes(self) -> list[str]:
        """Sentences about what pi cannot hold."""
        notes = []
        if self._unspelt:
            calls = many(self._unspelt, "call has", "calls have")
            notes.append(
                f"{calls} arguments that are no JSON object, which pi cannot hold: none are written."
            )
        if self._mended:
            answers = many(self._mended, "answer")
            notes.append(
                f"Written as whole, though broken off: {answers}, which pi would not show to its model."
            )
        return notes

    def write(self, kind: str, record: Record, at: datetime | None = None) -> None:
        """Writes the next record."""
        self.at = at or self.at
        name = f"{len(self.lines):08x}"
        head = {"type": kind, "id": name, "parentId": self._newest, "timestamp": iso(self.at)}
        self.lines.append(record_line({**head, **record}))
        self._newest = name

    def keep_apart(self, message: BaseMessage) -> None:
        """Writes a prompt or instruction file where pi's model does not see it."""
        data = {"role": message.type, "text": message.text}
        self.write("custom", {"customType": "foldline.preamble", "data": data}, message.at)

    def compact(self, summary: BaseMessage, details: CompactionDetails) -> None:
        """Writes a compaction that keeps nothing: the record it names says nothing."""
        self.write("custom", {"customType": "foldline.cut"}, summary.at)
        record = {
            "summary": summary.text.removeprefix(FRAME[0]).removesuffix(FRAME[1]),
            "firstKeptEntryId": self._newest,
            "tokensBefore": 0,
            "details": {"readFiles": details.read_files, "modifiedFiles": details.modified_files},
            "fromHook": False,
        }
        self.write("compaction", record, summary.at)

    def add(self, message: BaseMessage) -> None:
        """Writes a message of the view."""
        match message:
            case AssistantMessage():
                spoken = self._answer(message)
            case ToolResultMessage():
                spoken = self._result(message)
            case UserMessage(origin="shell") if (ran := _shell(message)) is not None:
                spoken = ran
            case UserMessage():
                by_agent = {} if message.origin == "typed" else {"attribution": "agent"}
                spoken = {"role": "user", "content": self._content(message.parts), **by_agent}
            case _:
                kind = "foldline.summary" if is_summary(message) else "foldline.notice"
                shown = {"customType": kind, "content": self._content(message.parts), "display": True}
                self.write("custom_message", shown, message.at)
                return
        milliseconds = int((message.at or self.at).timestamp() * 1000)
        self.write("message", {"message": {**spoken, "timestamp": milliseconds}}, message.at)

    def _answer(self, message: AssistantMessage) -> Record:
        self._mended += message.stop_reason in _BROKEN_OFF
        stop = "stop"
        if message.calls:
            stop = "toolUse"
        elif message.stop_reason in ("length", "repeated"):
            stop = "length"
        record = {
            "role": "assistant",
            "content": self._content(message.parts),
            "api": "openai-completions",
            "provider": PROVIDER,
            "model": message.model or PROVIDER,
            "usage": _usage(message.usage or Usage()),
        }
        error = {"errorMessage": message.error} if message.error else {}
        return {**record, **error, "stopReason": stop}

    def _content(self, parts: Iterable[Part]) -> list[Record]:
        return [piece for part in parts if (piece := self._piece(part)) is not None]

    def _piece(self, part: Part) -> Record | None:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case ImagePart():
                return {"type": "image", "data": part.data, "mimeType": part.media_type}
            case ToolCallPart():
                arguments = arguments_held(part.arguments)
                self._unspelt += arguments is None
                return {
                    "type": "toolCall",
                    "id": part.call_id,
                    "name": part.name,
                    "arguments": arguments or {},
                }
            case _:
                return None

    def _result(self, message: ToolResultMessage) -> Record:
        shown = message.details
        details = {"diff": shown.diff, "fullOutputPath": shown.full_output}
        if shown.files:
            details["path"] = shown.files[0].path
        return {
            "role": "toolResult",
            "toolCallId": message.call_id,
            "toolName": message.name,
            "content": self._content(message.parts),
            "details": {name: value for name, value in details.items() if value},
            "isError": message.is_error,
        }


def _usage(usage: Usage) -> Record:
    return {
        "input": max(0, usage.input - usage.cached),
        "output": usage.output,
        "cacheRead": usage.cached,
        "cacheWrite": 0,
        "totalTokens": usage.total,
        **({"reasoning": usage.reasoning} if usage.reasoning else {}),
        "cost": _NO_COST,
    }


def _shell(message: UserMessage) -> Record | None:
    """A command the user ran, as pi records it; None where its text is not said the same way."""
    if not message.text.startswith("$ ") or any(not isinstance(part, TextPart) for part in message.parts):
        return None
    command, _, output = message.text.removeprefix("$ ").partition("\n")
    record = {"role": "bashExecution", "command": command, "output": output}
    if shell_text(JsonObject(record)) != message.text:
        return None
    return {**record, "cancelled": False, "truncated": False}
