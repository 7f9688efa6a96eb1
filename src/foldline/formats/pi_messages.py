"""The messages inside pi's records: parts, usage, tool results and what they touched."""

import json
import re
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    ImagePart,
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
from .chat_parts import shown

Calls = dict[str, ToolCallPart]
"""The tool calls made so far, by id."""

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "toolUse": "tool_calls",
    "aborted": "cancelled",
    "error": "error",
}
_ACTIONS: dict[str, Literal["read", "modified"]] = {"read": "read", "write": "modified", "edit": "modified"}
"""The tools of pi that name a file, and what they do to it."""
_EXIT_CODE = re.compile(r"Command exited with code (\d+)\s*$")


def parts_of(content: Json) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of a message's content, and the kinds of the pieces left out."""
    if isinstance(content, str):
        return text_parts(content), []
    return shown(list(map(as_object, as_list(content))), _part)


def _part(piece: JsonObject) -> Part | None:
    match piece.get("type"):
        case "text":
            return TextPart(text=as_text(piece.get("text")))
        case "thinking":
            signature = as_text(piece.get("thinkingSignature")) or None
            return ThinkingPart(text=as_text(piece.get("thinking")), signature=signature)
        case "image" if as_text(piece.get("data")):
            return ImagePart(
                media_type=as_text(piece.get("mimeType")) or "image/png", data=as_text(piece.get("data"))
            )
        case "toolCall":
            return ToolCallPart(
                call_id=as_text(piece.get("id")),
                name=as_text(piece.get("name")),
                arguments=_compact_json(piece.get("arguments")),
            )
        case _:
            return None


def _compact_json(arguments: Json) -> str:
    """Arguments as JSON text. pi keeps the parsed object, so the model's own spacing is not known."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False, separators=(",", ":"))


def assistant_message(message: JsonObject, parts: tuple[Part, ...]) -> AssistantMessage:
    return AssistantMessage(
        parts=parts,
        model=as_text(message.get("model")) or None,
        usage=_usage(as_object(message.get("usage"))),
        stop_reason=_STOP_REASONS.get(as_text(message.get("stopReason"))),
        error=as_text(message.get("errorMessage")) or None,
    )


def _usage(usage: JsonObject) -> Usage | None:
    """What the provider reported. An aborted answer carries zeros, which report nothing."""
    cached = as_count(usage.get("cacheRead"))
    reported = Usage(
        input=as_count(usage.get("input")) + cached + as_count(usage.get("cacheWrite")),
        cached=cached,
        output=as_count(usage.get("output")),
        reasoning=as_count(usage.get("reasoningTokens")) or as_count(usage.get("reasoning")),
    )
    return reported if reported.total else None


def tool_result(message: JsonObject, parts: tuple[Part, ...], calls: Calls) -> ToolResultMessage:
    call_id = as_text(message.get("toolCallId"))
    name = as_text(message.get("toolName"))
    is_error = message.get("isError") is True
    details = as_object(message.get("details"))
    arguments = calls[call_id].parsed() if call_id in calls else {}
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    diff = as_text(details.get("patch")) or as_text(details.get("diff")) or None
    touch = None if is_error else _touch(name, details, arguments, diff)
    milliseconds = as_count(details.get("wallTimeMs"))
    return ToolResultMessage(
        call_id=call_id,
        name=name,
        is_error=is_error,
        parts=parts,
        details=ToolDetails(
            brief=_brief(name, text, is_error, arguments, touch, diff),
            seconds=milliseconds / 1000 if milliseconds else None,
            files=(touch,) if touch else (),
            diff=diff,
            full_output=as_text(details.get("fullOutputPath")) or None,
        ),
    )


def _touch(name: str, details: JsonObject, arguments: JsonObject, diff: str | None) -> FileTouch | None:
    """The file a successful call read or changed; None for other tools, and for what is no file."""
    action = _ACTIONS.get(name)
    source = as_object(as_object(details.get("meta")).get("source"))
    path = (
        as_text(details.get("path"))
        or as_text(details.get("resolvedPath"))
        or (as_text(source.get("value")) if source.get("type") == "path" else "")
        or as_text(arguments.get("path"))
        or as_text(arguments.get("file_path"))
    )
    if action is None or not path or "://" in path:
        return None
    added, removed = _changed_lines(diff or "")
    if name == "write" and not diff:
        added = _line_count(as_text(arguments.get("content")))
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _brief(
    name: str, text: str, is_error: bool, arguments: JsonObject, touch: FileTouch | None, diff: str | None
) -> str:
    """The outcome in a few words."""
    exit_code = _EXIT_CODE.search(text)
    if exit_code:
        return f"exit {exit_code[1]}"
    if is_error:
        return "failed"
    if touch is not None and diff:
        return f"+{touch.added} −{touch.removed}"
    lines = _line_count(as_text(arguments.get("content")) if name == "write" else text)
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def _changed_lines(diff: str) -> tuple[int, int]:
    added = removed = 0
    for line in diff.splitlines():
        added += line.startswith("+") and not line.startswith("+++ ")
        removed += line.startswith("-") and not line.startswith("--- ")
    return added, removed


def _line_count(text: str) -> int:
    return len(text.splitlines())


def shell_text(message: JsonObject) -> str:
    """A command the user ran, and what it printed, as one text."""
    text = f"$ {as_text(message.get('command'))}\n{as_text(message.get('output'))}".rstrip("\n")
    exit_code = message.get("exitCode")
    if message.get("cancelled") is True:
        return f"{text}\n(cancelled)"
    if isinstance(exit_code, int) and exit_code != 0:
        text = f"{text}\n(exit {exit_code})"
    if message.get("truncated") is True:
        where = as_text(message.get("fullOutputPath"))
        text = f"{text}\n(output shortened{f'; all of it: {where}' if where else ''})"
    return text
