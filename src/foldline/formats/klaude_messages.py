"""The messages inside klaude-code's events: parts, usage, results of tools."""

import re
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Usage,
    text_parts,
)
from foldline.protocol.messages import StopReason

from .base import Json, JsonObject, as_count, as_list, as_object, as_text
from .chat_parts import arguments_text, image_at, line_count
from .detection import kind_of

Calls = dict[str, ToolCallPart]
"""The tool calls made so far, by id."""

_CHECKPOINT = re.compile(r"<system-reminder>Checkpoint ([0-9]{1,18})</system-reminder>")
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "aborted": "cancelled",
    "error": "error",
}
_ACTIONS: dict[str, Literal["read", "modified"]] = {
    "Read": "read",
    "Write": "modified",
    "Edit": "modified",
    "MultiEdit": "modified",
}


def checkpoint_of(text: str) -> int | None:
    """The checkpoint a message marks."""
    found = _CHECKPOINT.search(text)
    return int(found[1]) if found else None


def parts_of(pieces: Json) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of a message, and the kinds of the pieces left out."""
    parts: list[Part] = []
    left_out: list[str] = []
    for piece in map(as_object, as_list(pieces)):
        last = parts[-1] if parts else None
        if piece.get("type") == "thinking_signature":
            signature = as_text(piece.get("signature")) or None
            if isinstance(last, ThinkingPart) and last.signature is None:
                parts[-1] = last.model_copy(update={"signature": signature})
            else:
                parts.append(ThinkingPart(text="", signature=signature))
            continue
        part = _part(piece)
        if part is None:
            left_out.append(kind_of(piece))
        else:
            parts.append(part)
    return tuple(parts), left_out


def _part(piece: JsonObject) -> Part | None:
    match piece.get("type"):
        case "text":
            return TextPart(text=as_text(piece.get("text")))
        case "thinking_text":
            return ThinkingPart(text=as_text(piece.get("text")))
        case "image_url":
            return image_at(as_text(piece.get("url")))
        case "image_file" if as_text(piece.get("file_path")):
            return TextPart(text=f"(image: {as_text(piece.get('file_path'))})")
        case "tool_call":
            return ToolCallPart(
                call_id=as_text(piece.get("call_id")),
                name=as_text(piece.get("tool_name")),
                arguments=arguments_text(piece.get("arguments_json")),
            )
        case _:
            return None


def answer(data: JsonObject, parts: tuple[Part, ...]) -> AssistantMessage:
    usage = as_object(data.get("usage"))
    reported = Usage(
        input=as_count(usage.get("input_tokens")),
        cached=as_count(usage.get("cached_tokens")),
        output=as_count(usage.get("output_tokens")),
        reasoning=as_count(usage.get("reasoning_tokens")),
    )
    return AssistantMessage(
        parts=parts,
        model=as_text(usage.get("model_name")) or None,
        usage=reported if reported.total else None,
        stop_reason=_STOP_REASONS.get(as_text(data.get("stop_reason"))),
    )


def tool_result(data: JsonObject, images: tuple[Part, ...], calls: Calls) -> ToolResultMessage:
    """A result: its text stands apart from its other parts."""
    call_id, text = as_text(data.get("call_id")), as_text(data.get("output_text"))
    arguments = calls[call_id].parsed() if call_id in calls else {}
    name = as_text(data.get("tool_name"))
    status = data.get("status")
    action, path = _ACTIONS.get(name), as_text(arguments.get("file_path")) or as_text(arguments.get("path"))
    touched = (FileTouch(path=path, action=action),) if action and path and status == "success" else ()
    brief = {"error": "failed", "aborted": "cancelled"}.get(as_text(status)) or line_count(text)
    return ToolResultMessage(
        call_id=call_id,
        name=name,
        is_error=status in ("error", "aborted"),
        parts=(*text_parts(text), *images),
        details=ToolDetails(brief=brief, files=touched),
    )
