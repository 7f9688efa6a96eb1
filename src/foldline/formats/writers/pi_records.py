"""What pi's records hold: the messages, as its session files spell them, and compactions."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from foldline.context.view import is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    FoldDetails,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

from ..base import JsonObject, parse_object
from ..pi_messages import shell_text

PROVIDER = "unknown"
"""Whose model answered, where nobody wrote it down: pi asks for a model when it opens the session."""

_BROKEN_OFF = {"cancelled": "aborted", "error": "error"}
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def iso(moment: datetime | None) -> str:
    """A time as pi writes it: UTC, to the millisecond."""
    at = (moment or datetime.fromtimestamp(0, UTC)).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0


@dataclass
class Speaker:
    """Spells messages, and counts what could not be spelt."""

    provider: str = PROVIDER
    _unspelt: set[tuple[int, str]] = field(default_factory=set)
    """Calls whose arguments pi cannot hold, by their answer's index and their id."""
    _mended: int = 0
    """Answers that broke off, and are in the view all the same."""

    def notes(self) -> list[str]:
        notes = []
        if self._unspelt:
            many = len(self._unspelt)
            calls = "1 call has" if many == 1 else f"{many} calls have"
            notes.append(
                f"{calls} arguments that are no JSON object, which pi cannot hold: none are written."
            )
        if self._mended:
            are = "1 answer" if self._mended == 1 else f"{self._mended} answers"
            notes.append(f"Written as whole, though broken off: {are}, which pi would not show to its model.")
        return notes

    def record(self, message: BaseMessage, *, again: bool, at: datetime | None) -> tuple[str, JsonObject]:
        """The type of a message's record, and what it holds."""
        match message:
            case AssistantMessage():
                spoken = self._answer(message, again=again)
            case ToolResultMessage():
                spoken = _result(message)
            case UserMessage(origin="shell") if (ran := _shell(message)) is not None:
                spoken = ran
            case UserMessage():
                by_agent = {} if message.origin == "typed" else {"attribution": "agent"}
                spoken = {"role": "user", "content": _content(message.parts), **by_agent}
            case _:
                kind = "foldline.summary" if is_summary(message) else "foldline.notice"
                return "custom_message", {
                    "customType": kind,
                    "content": _content(message.parts),
                    "display": True,
                }
        return "message", {"message": {**spoken, "timestamp": _milliseconds(at)}}

    def broken_off(self, message: AssistantMessage, at: datetime | None) -> tuple[str, JsonObject]:
        """The record of an answer that no view holds: pi shows its model none that broke off."""
        spoken = {**self._spoken(message, Usage()), "stopReason": _BROKEN_OFF[message.stop_reason or "error"]}
        return "message", {"message": {**spoken, "timestamp": _milliseconds(at)}}

    def _answer(self, message: AssistantMessage, *, again: bool) -> JsonObject:
        self._mended += message.stop_reason in _BROKEN_OFF and not again
        usage = Usage() if again or message.usage is None else message.usage
        stop = "toolUse" if message.calls else "length" if message.stop_reason == "length" else "stop"
        return {**self._spoken(message, usage), "stopReason": stop}

    def _spoken(self, message: AssistantMessage, usage: Usage) -> JsonObject:
        record = {
            "role": "assistant",
            "content": _content(message.parts, lambda call: self._call(message.index, call)),
            "api": "openai-completions",
            "provider": self.provider,
            "model": message.model or PROVIDER,
            "usage": _usage(usage),
        }
        return {**record, "errorMessage": message.error} if message.error else record

    def _call(self, answer: int, call: ToolCallPart) -> JsonObject:
        arguments = _arguments(call.arguments)
        if arguments is None:
            self._unspelt.add((answer, call.call_id))
        return {"type": "toolCall", "id": call.call_id, "name": call.name, "arguments": arguments or {}}


_LEVELS = 8
"""More than the levels of a record around the arguments in it."""


def _arguments(text: str) -> JsonObject | None:
    """The arguments as an object that can be written and read again; None where there is none."""
    data = text.encode()
    arguments = parse_object(data)
    if arguments is None or parse_object(b'{"":' * _LEVELS + data + b"}" * _LEVELS) is None:
        return None
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:  # Python reads NaN and numbers without end, which are no JSON
        return None
    return arguments


def _usage(usage: Usage) -> JsonObject:
    return {
        "input": max(0, usage.input - usage.cached),
        "output": usage.output,
        "cacheRead": usage.cached,
        "cacheWrite": 0,
        "totalTokens": usage.total,
        **({"reasoning": usage.reasoning} if usage.reasoning else {}),
        "cost": _NO_COST,
    }


def _result(message: ToolResultMessage) -> JsonObject:
    shown = message.details
    details = {"diff": shown.diff, "fullOutputPath": shown.full_output}
    if shown.files:
        details["path"] = shown.files[0].path
    return {
        "role": "toolResult",
        "toolCallId": message.call_id,
        "toolName": message.name,
        "content": _content(message.parts),
        "details": {name: value for name, value in details.items() if value},
        "isError": message.is_error,
    }


def _shell(message: UserMessage) -> JsonObject | None:
    """A command the user ran, as pi records it; None where its text is not said the same way."""
    if not message.text.startswith("$ ") or any(not isinstance(part, TextPart) for part in message.parts):
        return None
    command, _, output = message.text.removeprefix("$ ").partition("\n")
    record = {"role": "bashExecution", "command": command, "output": output}
    return {**record, "cancelled": False, "truncated": False} if shell_text(record) == message.text else None


def compaction_record(summary: BaseMessage, fold: Compaction | None, first_kept: str) -> JsonObject:
    """What a compaction record holds; `first_kept` is the id of the first record it keeps."""
    details = fold.details if fold else FoldDetails()
    return {
        "summary": summary.text,
        "firstKeptEntryId": first_kept,
        "tokensBefore": fold.tokens_before if fold else 0,
        "details": {"readFiles": details.read_files, "modifiedFiles": details.modified_files},
        "fromHook": False,
    }


def _content(
    parts: Iterable[Part], spell_call: Callable[[ToolCallPart], JsonObject] | None = None
) -> list[JsonObject]:
    """The pieces of a message; calls only where they can be spelt."""
    pieces: list[JsonObject] = []
    for part in parts:
        match part:
            case TextPart():
                pieces.append({"type": "text", "text": part.text})
            case ThinkingPart():
                signed = {"thinkingSignature": part.signature} if part.signature else {}
                pieces.append({"type": "thinking", "thinking": part.text, **signed})
            case ImagePart():
                pieces.append({"type": "image", "data": part.data, "mimeType": part.media_type})
            case ToolCallPart() if spell_call is not None:
                pieces.append(spell_call(part))
            case _:
                pass
    return pieces
