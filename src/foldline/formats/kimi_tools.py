"""The results of kimi-cli's tools: whether they failed, and what they touched."""

import re
from typing import Literal

from foldline.protocol import FileTouch, Part, TextPart, ToolCallPart, ToolDetails, ToolResultMessage

from .base import JsonObject, as_text
from .chat_parts import line_count

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
