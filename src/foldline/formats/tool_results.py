"""Results of tool calls: how a run ended, and what it did to files by its diff, patch or arguments."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import CompactionDetails, FileTouch, Part, ToolCallPart, ToolDetails, ToolResultMessage

from .base import JsonObject
from .parts import arguments_of, text_in

Action = Literal["read", "modified"]

FILE_TOOLS: dict[str, Action] = {
    "read": "read", "Read": "read", "ReadFile": "read", "read_file": "read", "view_image": "read",
    "NotebookRead": "read",
    "write": "modified", "Write": "modified", "WriteFile": "modified",
    "edit": "modified", "Edit": "modified", "MultiEdit": "modified", "StrReplaceFile": "modified",
    "NotebookEdit": "modified",
}  # fmt: skip
"""The tools of agents with tools of their own that name a file, and what they do to it."""

_PATCH_FILE = re.compile(r"\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)")
"""How a patch of the kind Codex's models write names a file."""
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

_READING = re.compile(r"(?:read|view|show|cat)_?(?:file|image|text)?|read_?(?:file|notebook)?", re.I)
_WRITING = re.compile(
    r"(?:write|create|save)(?:_to)?_?file|write|create|edit(?:_?file)?|multi_?edit|str_replace(?:_.*)?"
    r"|replace(?:_in_file)?|insert(?:_content)?|apply_diff|undo_edit|notebook_?edit|new_rule",
    re.I,
)
_WHOLE = re.compile(r"(?:write|create)(?:_to)?_?(?:file)?", re.I)
_BY_COMMAND = re.compile(r"(?:.*__)?(?:text_editor|str_replace_editor|str_replace_based_edit_tool)", re.I)
"""Tools that do several things, of which an argument `command` names one."""
_PATHS = ("file_path", "absolute_path", "path", "filePath", "target_file", "notebook_path", "TargetFile")
_CONTENTS = ("content", "file_text", "contents", "text")


@dataclass(frozen=True, slots=True)
class Changes:
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None

    @property
    def brief(self) -> str:
        """`+9 −6`; empty where no line is known to have changed."""
        added, removed = sum(file.added for file in self.files), sum(file.removed for file in self.files)
        return f"+{added} −{removed}" if added or removed else ""


def tool_result(
    call_id: str,
    name: str,
    parts: Sequence[Part],
    *,
    failed: bool = False,
    exit_code: int = 0,
    brief: str = "",
    changes: Changes | None = None,
    seconds: float | None = None,
    milliseconds: int = 0,
    full_output: str = "",
) -> ToolResultMessage:
    """Return a result.

    Args:
        brief: its outcome in a few words; without it the exit code, the change, or the number of lines.
    """
    done = changes or Changes()
    if not brief and exit_code:
        brief = f"exit {exit_code}"
    elif not brief and failed:
        brief = "failed"
    return ToolResultMessage(
        call_id=call_id,
        name=name,
        is_error=failed,
        parts=tuple(parts),
        details=ToolDetails(
            brief=brief or done.brief or line_count(text_in(parts)),
            seconds=milliseconds / 1000 if milliseconds > 0 else seconds,
            files=done.files,
            diff=done.diff,
            full_output=full_output or None,
        ),
    )


def line_count(text: str) -> str:
    lines = len(text.splitlines())
    return f"{lines} line{'' if lines == 1 else 's'}"


def details_in(record: JsonObject, read: str, modified: str) -> CompactionDetails:
    """Return the files that an agent's compaction names in these fields."""
    return CompactionDetails(
        read_files=tuple(filter(None, record.texts(read))),
        modified_files=tuple(filter(None, record.texts(modified))),
    )


# --- what a call does to files, by its name and arguments ---------------------------------------------


def touched(call: ToolCallPart | None) -> Changes:
    action = FILE_TOOLS.get(call.name) if call else None
    path = arguments_of(call).first("path", "file_path")
    return Changes((FileTouch(path=path, action=action),)) if action and path else Changes()


def changes_of(call: ToolCallPart, diff: str = "") -> Changes:
    """The file that a call which went well read or changed, judged by names that many agents use; `diff` is
    what the agent noted of a change."""
    arguments = arguments_of(call)
    name = call.name.rpartition("__")[2]
    if _BY_COMMAND.fullmatch(call.name):
        name = arguments.text("command")
    path = arguments.first(*_PATHS)
    if path and _READING.fullmatch(name):
        return Changes((FileTouch(path=path, action="read"),))
    if not path or not _WRITING.fullmatch(name):
        return Changes()
    content = arguments.first(*_CONTENTS)
    if not diff and content and _WHOLE.fullmatch(name):
        return Changes(whole_file(path, content).files)
    return edit_of(path, diff)


# --- diffs ------------------------------------------------------------------------------------------


def together(changes: Iterable[Changes]) -> Changes:
    several = list(changes)
    return Changes(
        files=tuple(file for change in several for file in change.files),
        diff="\n".join(change.diff for change in several if change.diff) or None,
    )


def _changed_lines(diff: str) -> tuple[int, int]:
    added = removed = old = new = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if hunk:
            old, new = (int(length) if length else 1 for length in hunk.groups())
        elif old > 0 or new > 0:
            added += line.startswith("+")
            removed += line.startswith("-")
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
    return added, removed


def edit_of(path: str, diff: str) -> Changes:
    """The change of one file that a unified diff shows."""
    added, removed = _changed_lines(diff)
    return Changes((FileTouch(path=path, action="modified", added=added, removed=removed),), diff or None)


def whole_file(path: str, content: str, *, gone: bool = False) -> Changes:
    """The writing of a file whose earlier content is not known, or its deletion."""
    lines = content.splitlines()
    added, removed = (0, len(lines)) if gone else (len(lines), 0)
    touch = FileTouch(path=path, action="modified", added=added, removed=removed)
    if not lines:
        return Changes((touch,))
    old, new = (path, "/dev/null") if gone else ("/dev/null", path)
    span = f"@@ -1,{len(lines)} +0,0 @@" if gone else f"@@ -0,0 +1,{len(lines)} @@"
    body = "\n".join(("-" if gone else "+") + line for line in lines)
    return Changes((touch,), f"--- {old}\n+++ {new}\n{span}\n{body}")


def applied(changes: JsonObject) -> Changes:
    """What Codex reports of a patch it applied: by path, a unified diff or the whole content."""
    return together(_applied(path, JsonObject.of(change)) for path, change in changes.items())


def _applied(path: str, change: JsonObject) -> Changes:
    if change.get("type") in ("add", "delete"):
        return whole_file(path, change.text("content"), gone=change.get("type") == "delete")
    diff, target = change.text("unified_diff"), change.text("move_path")
    return moved(edit_of(path, f"--- {path}\n+++ {target or path}\n{diff}" if diff else ""), target)


def moved(edit: Changes, target: str) -> Changes:
    """An edit of a file that also went to another place, unless that is empty."""
    there = (FileTouch(path=target, action="modified"),) if target else ()
    return Changes((*edit.files, *there), edit.diff)


def patched(text: str) -> Changes:
    """The files that a patch in Codex's own form names, with the lines it adds to and removes from each."""
    touches: list[FileTouch] = []
    added = removed = 0
    for line in text[text.find("*** Begin Patch") :].splitlines():
        named = _PATCH_FILE.match(line)
        if named:
            touches.append(FileTouch(path=named[1].strip(), action="modified"))
            added = removed = 0
        elif line.startswith("*** End Patch"):
            break
        elif touches and line[:1] in ("+", "-"):
            added, removed = added + line.startswith("+"), removed + line.startswith("-")
            touches[-1] = touches[-1].model_copy(update={"added": added, "removed": removed})
    return Changes(tuple(touches))
