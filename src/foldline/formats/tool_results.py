"""Converts the results of tool calls, with their outcomes and file changes.

File changes are taken from a diff, a patch, or the call's arguments.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal

from foldline.protocol import (
    CompactionDetails,
    FileTouch,
    Part,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
)

from .base import JsonLine, JsonObject
from .parts import arguments_of, text_in

Action = Literal["read", "modified"]

FILE_TOOLS: dict[str, Action] = {
    "read": "read", "Read": "read", "ReadFile": "read", "read_file": "read", "view_image": "read",
    "NotebookRead": "read",
    "write": "modified", "Write": "modified", "WriteFile": "modified",
    "edit": "modified", "Edit": "modified", "MultiEdit": "modified", "StrReplaceFile": "modified",
    "NotebookEdit": "modified",
}  # fmt: skip
"""Agents' tools that work on a single file, with the action of each."""

_PATCH_FILE = re.compile(r"\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)")
"""Matches the line that names a file in a patch by Codex's models."""
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

_READING = re.compile(
    r"(?:read|view|show|cat)_?(?:file|image|text)?|read_?(?:file|notebook)?", re.I
)
_WRITING = re.compile(
    r"(?:write|create|save)(?:_to)?_?file|write|create|edit(?:_?file)?|multi_?edit|str_replace(?:_.*)?"
    r"|replace(?:_in_file)?|insert(?:_content)?|apply_diff|undo_edit|notebook_?edit|new_rule",
    re.I,
)
_WHOLE = re.compile(r"(?:write|create)(?:_to)?_?(?:file)?", re.I)
_BY_COMMAND = re.compile(
    r"(?:.*__)?(?:text_editor|str_replace_editor|str_replace_based_edit_tool)", re.I
)
"""Matches tools whose `command` argument selects the action."""
_PATHS = (
    "file_path",
    "absolute_path",
    "path",
    "filePath",
    "target_file",
    "notebook_path",
    "TargetFile",
)
_CONTENTS = ("content", "file_text", "contents", "text")


@dataclass(frozen=True, slots=True)
class Changes:
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None

    @property
    def brief(self) -> str:
        """The numbers of added and removed lines, for example `+9 −6`.

        Empty if no lines changed.
        """
        added = sum(file.added for file in self.files)
        removed = sum(file.removed for file in self.files)
        return f"+{added} −{removed}" if added or removed else ""


def tool_result(
    call_id: str,
    name: str,
    parts: Sequence[Part],
    *,
    failed: bool = False,
    exit_code: int | str = 0,
    brief: str = "",
    changes: Changes | None = None,
    seconds: float | None = None,
    milliseconds: int = 0,
    full_output: str = "",
) -> ToolResultMessage:
    """Return a tool result message.

    Args:
        brief: the outcome in a few words. By default, the exit code, the change or the number of lines.
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


def in_call_order(
    lines: Sequence[JsonLine],
    begins_answer: Callable[[JsonLine], bool],
    calls_in: Callable[[JsonLine], Iterable[str]],
    result_of: Callable[[JsonLine], str],
) -> list[JsonLine]:
    """Put each answer's results in the order of its calls.

    This is the order in which results are sent to the model. In a file, they may be in the order in which the
    tools finished. Each result is given the position of the result whose place it takes.

    Args:
        begins_answer: returns whether an answer begins at this line.
        calls_in: returns the ids of the calls that a line contains.
        result_of: returns the id of the call whose result is in the line, or an empty string for other lines.
    """
    answer = 0
    calls: dict[str, tuple[int, int]] = {}
    """For each call, by id: the number of its answer, and its rank among all calls."""
    results: dict[int, list[tuple[int, int]]] = defaultdict(list)
    """For each answer, by number: the rank of each result's call, and the result's index in `lines`."""
    for place, line in enumerate(lines):
        answer += begins_answer(line)
        for call_id in calls_in(line):
            calls[call_id] = answer, len(calls)
        call_id = result_of(line)
        if call_id and call_id in calls:
            of_answer, rank = calls[call_id]
            results[of_answer].append((rank, place))
    ordered = list(lines)
    for arrived in results.values():
        sent = sorted(arrived, key=itemgetter(0))
        for (_, target), (_, source) in zip(arrived, sent, strict=True):
            ordered[target] = replace(lines[source], position=lines[target].position)
    return ordered


def read_file(path: str, diff: str = "") -> Changes:
    """Return the file access of a call that reads this file."""
    return Changes((FileTouch(path=path, action="read"),), diff or None)


def details_in(record: JsonObject, read: str, modified: str) -> CompactionDetails:
    """Return the files that an agent's compaction record lists in these fields."""
    return CompactionDetails(
        read_files=tuple(filter(None, record.texts(read))),
        modified_files=tuple(filter(None, record.texts(modified))),
    )


# --- file changes, from the call's name and arguments -------------------------------------------------


def touched(call: ToolCallPart | None) -> Changes:
    action = FILE_TOOLS.get(call.name) if call else None
    path = arguments_of(call).first("path", "file_path")
    return (
        Changes((FileTouch(path=path, action=action),))
        if action and path
        else Changes()
    )


def changes_of(call: ToolCallPart, diff: str = "") -> Changes:
    """Return a successful call's effect on files.

    It is inferred from the names of the tool and its arguments.

    Args:
        diff: the agent's record of the change, if any.
    """
    arguments = arguments_of(call)
    name = call.name.rpartition("__")[2]
    if _BY_COMMAND.fullmatch(call.name):
        name = arguments.text("command")
    path = arguments.first(*_PATHS)
    if path and _READING.fullmatch(name):
        return read_file(path)
    if not path or not _WRITING.fullmatch(name):
        return Changes()
    content = arguments.first(*_CONTENTS)
    if not diff and content and _WHOLE.fullmatch(name):
        return Changes(whole_file(path, content).files)
    return edit_of(path, diff)


# --- diffs ------------------------------------------------------------------------------------------


def together(changes: Iterable[Changes]) -> Changes:
    files: list[FileTouch] = []
    diffs: list[str] = []
    for change in changes:
        files += change.files
        if change.diff:
            diffs.append(change.diff)
    return Changes(tuple(files), "\n".join(diffs) or None)


def _changed_lines(diff: str) -> tuple[int, int]:
    """Return how many lines a diff adds and removes."""
    added = removed = 0
    # The numbers of lines that the hunk still has on each side.
    old = new = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if hunk:
            old = int(hunk[1] or 1)
            new = int(hunk[2] or 1)
        elif old > 0 or new > 0:
            added += line.startswith("+")
            removed += line.startswith("-")
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
    return added, removed


def edit_of(path: str, diff: str) -> Changes:
    """Return the change to one file, from a unified diff."""
    added, removed = _changed_lines(diff)
    return Changes(
        (FileTouch(path=path, action="modified", added=added, removed=removed),),
        diff or None,
    )


def whole_file(path: str, content: str, *, gone: bool = False) -> Changes:
    """Return the change to a file that was written or deleted.

    Args:
        content: the file's whole content, after the write or before the deletion.
        gone: whether the file was deleted.
    """
    lines = content.splitlines()
    count = len(lines)
    if gone:
        touch = FileTouch(path=path, action="modified", removed=count)
        header = [f"--- {path}", "+++ /dev/null", f"@@ -1,{count} +0,0 @@"]
        body = [f"-{line}" for line in lines]
    else:
        touch = FileTouch(path=path, action="modified", added=count)
        header = ["--- /dev/null", f"+++ {path}", f"@@ -0,0 +1,{count} @@"]
        body = [f"+{line}" for line in lines]
    return Changes((touch,), "\n".join([*header, *body]) if lines else None)


def applied(changes: JsonObject) -> Changes:
    """Convert Codex's report of a patch's changes, which are listed by path."""
    return together(
        _applied(path, JsonObject.of(change)) for path, change in changes.items()
    )


def _applied(path: str, change: JsonObject) -> Changes:
    if change.kind in ("add", "delete"):
        return whole_file(path, change.text("content"), gone=change.kind == "delete")
    diff = change.text("unified_diff")
    target = change.text("move_path")
    if diff:
        diff = f"--- {path}\n+++ {target or path}\n{diff}"
    return moved(edit_of(path, diff), target)


def moved(edit: Changes, target: str) -> Changes:
    """Add the new path, if any, of a file that was also moved."""
    if not target:
        return edit
    return Changes((*edit.files, FileTouch(path=target, action="modified")), edit.diff)


def patched(text: str) -> Changes:
    """Return the changes in a patch in Codex's own format."""
    touches: list[FileTouch] = []
    for line in text[text.find("*** Begin Patch") :].splitlines():
        file = _PATCH_FILE.match(line)
        if file:
            touches.append(FileTouch(path=file[1].strip(), action="modified"))
        elif line.startswith("*** End Patch"):
            break
        elif touches:
            count = touches[-1]
            counts = {
                "added": count.added + line.startswith("+"),
                "removed": count.removed + line.startswith("-"),
            }
            touches[-1] = count.model_copy(update=counts)
    return Changes(tuple(touches))
