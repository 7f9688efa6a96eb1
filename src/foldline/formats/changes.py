"""What an edit changed, read from diffs and from patches: the files, and how many lines of each."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import FileTouch

from .base import Json, JsonObject, as_object, as_text

_PATCH_FILE = re.compile(r"\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)")
"""How a patch of the kind Codex's models write names a file."""
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Changes:
    """What one tool call did to files."""

    files: tuple[FileTouch, ...] = ()
    diff: str | None = None
    """Unified."""

    @property
    def brief(self) -> str:
        """`+9 −6`; empty where no line is known to have changed."""
        added, removed = sum(file.added for file in self.files), sum(file.removed for file in self.files)
        return f"+{added} −{removed}" if added or removed else ""


def together(changes: Iterable[Changes]) -> Changes:
    """Several changes as one."""
    several = list(changes)
    return Changes(
        files=tuple(file for change in several for file in change.files),
        diff="\n".join(change.diff for change in several if change.diff) or None,
    )


def changed_lines(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
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
    added, removed = changed_lines(diff)
    return Changes((FileTouch(path=path, action="modified", added=added, removed=removed),), diff or None)


def whole_file(path: str, content: str, *, gone: bool = False) -> Changes:
    """The writing of a file whose earlier content is not known, or its deletion."""
    lines = content.splitlines()
    touch = FileTouch(
        path=path, action="modified", added=0 if gone else len(lines), removed=len(lines) if gone else 0
    )
    if not lines:
        return Changes((touch,))
    old, new = (path, "/dev/null") if gone else ("/dev/null", path)
    span = f"@@ -1,{len(lines)} +0,0 @@" if gone else f"@@ -0,0 +1,{len(lines)} @@"
    body = "\n".join(("-" if gone else "+") + line for line in lines)
    return Changes((touch,), f"--- {old}\n+++ {new}\n{span}\n{body}")


def applied(changes: JsonObject) -> Changes:
    """What Codex reports of a patch it applied: by path, a unified diff or the whole content."""
    return together(_applied(path, as_object(change)) for path, change in changes.items())


def _applied(path: str, change: JsonObject) -> Changes:
    if change.get("type") in ("add", "delete"):
        return whole_file(path, as_text(change.get("content")), gone=change.get("type") == "delete")
    diff = as_text(change.get("unified_diff"))
    target = as_text(change.get("move_path"))
    edit = edit_of(path, f"--- {path}\n+++ {target or path}\n{diff}" if diff else "")
    if not target:
        return edit
    return Changes((*edit.files, FileTouch(path=target, action="modified")), edit.diff)


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


def texts_in(value: Json) -> Sequence[str]:
    """Every string inside a value, in order: of the arguments of a call, its commands and contents."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                found.append(text)
            case dict() as object_:
                waiting.extend(reversed(list(object_.values())))
            case list() as items:
                waiting.extend(reversed(items))
            case _:
                pass
    return found
