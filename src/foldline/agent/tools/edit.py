"""The tool `edit`: one exact piece of text in a file becomes another. Works on bytes, so that byte order
marks, line ends and whatever is not UTF-8 stay as they are."""

import asyncio
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from pydantic import Field

from foldline.protocol import FileTouch

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .diffs import Change, change
from .failure import ToolFailure
from .files import contents, replace
from .guarded import may_be_changed
from .paths import located, named
from .text import counted, decoded, is_binary, is_wide
from .write import refuse_stale

_MOST_COMPARED = 20_000
"""Lines looked at for the nearest one to a text that is not there."""
_QUOTED = 160
"""Characters of a line quoted in a message."""


class EditArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")
    old: str = Field(description="The text to replace, exactly as in the file, indentation included.")
    new: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence.")


@dataclass(frozen=True, slots=True)
class _Edited:
    before: bytes
    after: bytes
    lines: tuple[int, ...]
    """Where the replaced texts began."""
    made: Change


class EditTool(BaseTool[EditArguments]):
    name = "edit"
    description = (
        "Replace a piece of text in a file. `old` must occur exactly once (else give lines around it, or set "
        "replace_all). Read the file first."
    )
    level = "edit"

    def __init__(self) -> None:
        super().__init__(EditArguments)

    def headline(self, arguments: EditArguments) -> str:
        return arguments.path

    def stays_inside(self, arguments: EditArguments, context: ToolContext) -> bool:
        return may_be_changed(located(arguments.path, context), context.cwd)

    def diff(self, arguments: EditArguments, context: ToolContext) -> str | None:
        edited = _edited(arguments, context)
        path = located(arguments.path, context)
        if not context.known_files.knows(path):
            context.known_files.remember(path, edited.before)
        return edited.made.diff

    async def act(self, arguments: EditArguments, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_edit, arguments, context)


def _edit(arguments: EditArguments, context: ToolContext) -> ToolOutcome:
    path = located(arguments.path, context)
    shown = named(path, context)
    with context.known_files.lock:
        edited = _edited(arguments, context)
        context.before_change(path, edited.before, edited.after)
        replace(path, edited.after, shown)
        context.known_files.remember(path, edited.after)
    made = edited.made
    places = f"{counted(len(edited.lines), 'replacement')} at {_line_list(edited.lines)}"
    touch = FileTouch(path=shown, action="modified", added=made.added, removed=made.removed)
    return ToolOutcome(
        f"Edited {shown}: {places}, {made.brief}.", brief=made.brief, files=(touch,), diff=made.kept
    )


def _edited(arguments: EditArguments, context: ToolContext) -> _Edited:
    """What the edit makes of the file as it is now.

    Raises:
        ToolFailure: it cannot be made.
    """
    path = located(arguments.path, context)
    shown = named(path, context)
    if not arguments.old:
        raise ToolFailure("`old` is empty: give the text to replace, or use write to make a new file.")
    before = contents(path, context)
    if is_binary(before) or is_wide(before):
        kind = "in UTF-16 or UTF-32" if is_wide(before) else "a binary file"
        raise ToolFailure(f"{shown} is {kind} and was not edited: use `bash`.", brief="not UTF-8 ✗")
    refuse_stale(path, before, context)
    found = list(_pattern(arguments.old).finditer(before))
    lines = tuple(before.count(b"\n", 0, match.start()) + 1 for match in found[:1000])
    if not found:
        hint = nearest(context.mask(decoded(before)), arguments.old)
        raise ToolFailure(f"`old` does not occur in {shown}. {hint}", brief="not found ✗")
    if len(found) > 1 and not arguments.replace_all:
        raise ToolFailure(
            f"`old` occurs {len(found)} times in {shown}, at {_line_list(lines)}: "
            "add lines around it until it is unique, or set replace_all.",
            brief="not unique ✗",
        )
    after = _replaced(before, found, arguments.new)
    if after == before:
        raise ToolFailure(f"`old` and `new` are the same: nothing to change in {shown}.")
    return _Edited(before, after, lines, change(decoded(before), decoded(after), shown))


def _pattern(old: str) -> re.Pattern[bytes]:
    """The text with line ends of either kind: models write LF, whatever the file has."""
    lines = old.replace("\r\n", "\n").split("\n")
    return re.compile(rb"\r?\n".join(re.escape(line.encode()) for line in lines))


def _replaced(before: bytes, found: list[re.Match[bytes]], new: str) -> bytes:
    """New text gets the line ends of what it replaces; where that has none, those of the file."""
    with_lf = new.replace("\r\n", "\n").encode()
    with_crlf = with_lf.replace(b"\n", b"\r\n")
    file_is_crlf = before.count(b"\r\n") * 2 > before.count(b"\n")
    pieces, position = [], 0
    for match in found:
        replaced = match[0]
        is_crlf = b"\r\n" in replaced if b"\n" in replaced else file_is_crlf
        pieces += [before[position : match.start()], with_crlf if is_crlf else with_lf]
        position = match.end()
    return b"".join([*pieces, before[position:]])


def nearest(text: str, old: str) -> str:
    """One sentence on where a text that is not there almost is."""
    wanted = old.replace("\r\n", "\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n")[:_MOST_COMPARED]
    wanted = wanted[next((at for at, line in enumerate(wanted) if line.strip()), -1) :]
    starts = [number for number, line in enumerate(lines) if line.strip() == wanted[0].strip() != ""]
    if starts:
        start = max(starts, key=lambda number: _agreeing(lines[number:], wanted))
        agreeing = _agreeing(lines[start:], wanted)
        if agreeing == len(wanted):
            return (
                f"The nearest is at line {start + 1}, where it ends otherwise than the file's lines do: "
                f"{_quoted(lines[start + agreeing - 1])}."
            )
        at = start + agreeing
        if at >= len(lines):
            return f"It begins at line {start + 1}, but the file ends at line {len(lines)}."
        begins = (
            f"It begins at line {start + 1}, but line {at + 1}"
            if agreeing
            else f"The nearest line is {at + 1}, but it"
        )
        differs = " only in white space" if lines[at].strip() == wanted[agreeing].strip() else ""
        return f"{begins} differs{differs}: the file has {_quoted(lines[at])}."
    best, best_ratio = -1, 0.5
    matcher = SequenceMatcher(autojunk=False, b=wanted[0].strip()[:400])
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:400])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
    if best < 0:
        return "No line is like its first line: read the file again."
    return f"The nearest line is {best + 1}: {_quoted(lines[best])}."


def _agreeing(lines: list[str], wanted: list[str]) -> int:
    count = 0
    for line, want in zip(lines, wanted, strict=False):
        if line != want:
            break
        count += 1
    return count


def _quoted(line: str) -> str:
    return f"`{line if len(line) <= _QUOTED else line[:_QUOTED] + '…'}`"


def _line_list(lines: tuple[int, ...]) -> str:
    few = ", ".join(str(line) for line in lines[:12])
    return f"line{'' if len(lines) == 1 else 's'} {few}{' …' if len(lines) > 12 else ''}"
