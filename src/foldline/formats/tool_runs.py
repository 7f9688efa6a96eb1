"""Tool calls as many agents make them: what they do to files by their names, and how a run ended."""

import re
from collections.abc import Sequence
from typing import Literal

from foldline.protocol import FileTouch, Part, TextPart, ToolCallPart, ToolDetails, ToolResultMessage

from .base import JsonObject, as_text
from .changes import Changes, edit_of, whole_file
from .chat_parts import line_count

_READING = re.compile(r"(?:read|view|show|cat)_?(?:file|image|text)?|read_?(?:file|notebook)?", re.I)
_WRITING = re.compile(
    r"(?:write|create|save)(?:_to)?_?file|write|create|edit(?:_?file)?|multi_?edit|str_replace(?:_.*)?"
    r"|replace(?:_in_file)?|insert(?:_content)?|apply_diff|undo_edit|notebook_?edit|new_rule",
    re.I,
)
_WHOLE = re.compile(r"(?:write|create)(?:_to)?_?(?:file)?", re.I)
_BY_COMMAND = re.compile(r"(?:.*__)?(?:text_editor|str_replace_editor|str_replace_based_edit_tool)", re.I)
"""Tools with several deeds, of which an argument `command` names one."""
_PATHS = ("file_path", "absolute_path", "path", "filePath", "target_file", "notebook_path", "TargetFile")
_CONTENTS = ("content", "file_text", "contents", "text")


def changes_of(call: ToolCallPart, diff: str = "") -> Changes:
    """The file that a call which went well read or changed; `diff` is what the agent noted of a change."""
    arguments = call.parsed()
    name = call.name.rpartition("__")[2]
    if _BY_COMMAND.fullmatch(call.name):
        name = as_text(arguments.get("command"))
    path, action = first_text(arguments, _PATHS), _action(name)
    if not path or action is None:
        return Changes()
    if action == "read":
        return Changes((FileTouch(path=path, action="read"),))
    content = first_text(arguments, _CONTENTS)
    if not diff and content and _WHOLE.fullmatch(name):
        return Changes(whole_file(path, content).files)
    return edit_of(path, diff)


def _action(name: str) -> Literal["read", "modified"] | None:
    if _READING.fullmatch(name):
        return "read"
    return "modified" if _WRITING.fullmatch(name) else None


def first_text(record: JsonObject, keys: Sequence[str]) -> str:
    """The first of these fields that holds a text."""
    return next(filter(None, (as_text(record.get(key)) for key in keys)), "")


def tool_result(
    call_id: str, name: str, parts: Sequence[Part], *, failed: str, done: Changes
) -> ToolResultMessage:
    """A result, with the outcome in a few words; `failed` is empty where the call went well."""
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return ToolResultMessage(
        call_id=call_id,
        name=name,
        is_error=bool(failed),
        parts=tuple(parts),
        details=ToolDetails(brief=failed or done.brief or line_count(text), files=done.files, diff=done.diff),
    )
