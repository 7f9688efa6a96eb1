"""The `read`, `write` and `edit` tools, and diffs of their changes.

`edit` works on bytes, so that invalid UTF-8 is preserved. `edit` and `write` keep a file's byte order mark
and line endings.
"""

import asyncio
import difflib
import errno
import math
import os
import re
import stat
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from foldline.files import folder_at, is_there, opened, overwrite, put_whole, status_in
from foldline.memory.clip import first_lines, fits
from foldline.protocol import FileTouch, system_words
from foldline.sequences import same_start
from foldline.text.numbers import many, sized
from foldline.text.shorten import clip
from foldline.view.tokens import estimate_tokens

from .base import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    lines_of,
    located,
    named,
)
from .images import image_part
from .paths import is_changeable, is_inside, is_open, missing
from .text import (
    FullText,
    clipped,
    decoded,
    in_form_of,
    is_binary,
    is_wide,
    line_count,
    line_span,
    lines_from,
    with_line_ends,
    with_notes,
)

NOT_READ = "{file} could not be read: {reason}."
NO_CONTENT = "it has no content yet"
A_FOLDER = "{file} is a folder, not a file: use `ls` or `glob` to see its content."
NOT_ORDINARY = (
    "{file} is not a regular file (but a pipe, socket or device) and was not opened."
)
TOO_LARGE = (
    "{file} has {size}: use `grep`, or `bash` with sed -n or tail, to see parts of it."
)
NOT_WRITTEN = "{file} could not be written: {reason}."
WRITE_TO_FOLDER = "{file} is a folder: pass the path of a file in it."
PROTECTED = "{file} is write-protected."
BINARY = "{file} is a binary file ({size}) and was not shown: use `bash` with a program for its format."
EMPTY = "[{file} is empty]"
PORTION = "[Portion {number} of {portions}, lines {first}–{last} of {total}. Continue with {arguments}.]"
OTHER_LINKS = (
    " The file had {links} (hard links), which keep the old content. "
    "To change them, too, link them again."
)
STALE = "{file} has changed on disk since it was last read: read it again, then make the change."
NO_OLD = (
    "`old` is empty: pass the text to replace, or use `write` to create a new file."
)
NOT_EDITED = "{file} is {format} and was not edited: use `bash`."
NOT_FOUND = "`old` does not occur in {file}. {hint}"
NOT_UNIQUE = (
    "`old` occurs {count} times in {file}, at {places}: add lines around it until it is unique, or set "
    "replace_all."
)
SAME = "`old` and `new` are the same: there is nothing to change in {file}."
NOTHING_SIMILAR = "No line is similar to its first line: read the file again."
DIFFERS_AT = (
    "It seems to begin at line {start}, but line {line} {differs}: the file has {text}."
)
DIFFERS = "differs"
WHITE_SPACE = "differs only in white space"

LARGEST = 64 * 1024 * 1024
"""Maximum size of a file, in bytes. Larger files are not read."""


# --- file contents; blocking: called in a thread ----------------------------------------------------


def contents(path: Path, context: ToolContext) -> bytes:
    """Return a regular file's content.

    Raises:
        ToolFailure: the file does not exist, is not a regular file, is too large, or cannot be read.
    """
    shown = named(path, context)
    try:
        real = context.real(path)
        with folder_at(real.parent) as folder:
            _refuse_unreadable(status_in(folder, real.name), shown)
            # Open without blocking, because the file may have become a pipe, or wait for events as in /proc.
            with opened(real.name, folder) as file:
                _refuse_unreadable(os.fstat(file.fileno()), shown)
                content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path, context) from None
    except OSError as error:
        raise ToolFailure(NOT_READ, file=shown, reason=system_words(error)) from None
    if content is None:
        raise ToolFailure(NOT_READ, file=shown, reason=NO_CONTENT)
    if len(content) > LARGEST:  # the file is growing, or reports no size, as in /proc
        raise _too_large(shown, f"more than {sized(LARGEST)}")
    return content


def _refuse_unreadable(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(A_FOLDER, file=shown)
    # A link cannot be opened, which is reported later.
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
        raise ToolFailure(NOT_ORDINARY, file=shown)
    if status.st_size > LARGEST:
        raise _too_large(shown, f"{sized(status.st_size)}, more than {sized(LARGEST)}")


def _too_large(shown: str, size: str) -> ToolFailure:
    return ToolFailure(TOO_LARGE, "too large ✗", file=shown, size=size)


_IN_PLACE = (errno.EPERM, errno.EACCES, errno.EBUSY, errno.ENOTSUP)
"""Errors that occur if a file cannot be replaced by a new one with the same owner and attributes.

Either the file belongs to another user, it is a mount point, or its folder is not writable.
"""


def replace(real: Path, content: bytes, shown: str, mode: int | None = None) -> int:
    """Write a file atomically by replacing it with a new file.

    Symbolic links are not followed.

    The mode, owner, ACL and extended attributes of an existing file are kept. If they cannot be applied to
    the new file, the old file is overwritten in place; if the old file has several hard links, the call fails
    instead. Missing folders are created.

    Args:
        shown: name of the file in error messages.
        mode: permissions if the file is new.

    Returns:
        The number of other hard links to the old file. They keep the old content.

    Raises:
        ToolFailure: the file could not be written. Its old content is unchanged.
    """
    name = Path(real.name)
    try:
        with folder_at(real.parent, make=True) as folder:
            status = _status(folder, real.name, shown)
            if status is None:
                put_whole(name, content, mode, durable=True, folder=folder)
                return 0
            _put_like(name, content, status, folder)
            return status.st_nlink - 1
    except OSError as error:
        raise ToolFailure(NOT_WRITTEN, file=shown, reason=system_words(error)) from None


def _put_like(name: Path, content: bytes, status: os.stat_result, folder: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    try:
        with opened(name, folder) as old:
            put_whole(
                name, content, mode, durable=True, folder=folder, like=old.fileno()
            )
    except OSError as error:
        if error.errno not in _IN_PLACE or status.st_nlink > 1:
            raise
        overwrite(str(name), content, folder)


def _status(folder: int, name: str, shown: str) -> os.stat_result | None:
    """Return a writable file's status, if the file exists.

    Raises:
        ToolFailure: the file must not be written to.
    """
    try:
        status = status_in(folder, name)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(WRITE_TO_FOLDER, file=shown)
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(NOT_ORDINARY, file=shown)
    # Replacing the file would bypass the protection.
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolFailure(PROTECTED, file=shown)
    return status


# --- read -------------------------------------------------------------------------------------------


class ReadArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")
    offset: int | None = Field(None, ge=1, description="First line, from 1.")
    limit: int | None = Field(
        None,
        ge=1,
        description="Number of lines; by default, all lines to the end of the file.",
    )


class ReadTool(BaseTool[ReadArguments]):
    name = "read"
    description = (
        "Read a text file, without line numbers, or an image (png, jpg, gif, webp). From a long file, read "
        "only the part you need."
    )
    arguments = ReadArguments

    def headline(self, arguments: ReadArguments) -> str:
        return arguments.path + line_span(arguments.offset, arguments.limit)

    def stays_inside(self, arguments: ReadArguments, context: ToolContext) -> bool:
        real = context.real(located(arguments.path, context))
        if is_open(real, context.cwd):
            return True
        return any(
            is_inside(real, folder) for folder in (context.spill_dir, *context.readable)
        )

    async def act(self, arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_read, arguments, context)


def _read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    path = located(arguments.path, context)
    content = contents(path, context)
    shown = named(path, context)
    size = sized(len(content))
    touch = FileTouch(path=shown, action="read")
    if image := image_part(content, shown):
        text = f"[{shown}: {image.media_type}, {image.width} × {image.height}, {size}]"
        return ToolOutcome(text, brief=f"image {size}", files=(touch,), images=(image,))
    if is_binary(content):
        raise ToolFailure(BINARY, "binary ✗", file=shown, size=size)
    context.known_files.remember(path, content)
    text = context.mask(decoded(content))
    part, first, note = lines_of(text, shown, arguments.offset, arguments.limit)
    if not part:
        text = EMPTY.format(file=shown)
        return ToolOutcome(text, brief="0 lines", files=(touch,))
    result = _portion(text, part, first, arguments, context.max_tokens)
    if result is None:
        # The note on the full text needs the path itself if the shown path is escaped.
        full = FullText(shown if located(shown, context) == path else str(path), first)
        room = context.max_tokens - estimate_tokens(note)
        result = with_notes(clipped(part, room, full), note)
    return ToolOutcome(result, brief=many(line_count(part), "line"), files=(touch,))


_MOST_PORTIONS = 12
"""Maximum number of portions in which a file is read.

A longer file is clipped to its head and tail.
"""
_PORTION_NOTE = 40
"""Maximum size of the note that says how to read the next portion, in estimated tokens."""


def _portion(
    text: str, part: str, first: int, arguments: ReadArguments, room: int
) -> str | None:
    """Return the first lines of `part`, and a note on how to continue.

    `part` is the requested part of `text`. Returns None if it fits, or if it would need too many portions.
    """
    if fits(part, room - _PORTION_NOTE):
        return None
    shown = first_lines(part, room - _PORTION_NOTE)
    before = len(text) if not shown else len(lines_from(text, 1, first - 1))
    number = 1 + round(before / max(1, len(shown)))
    portions = number + math.ceil((len(part) - len(shown)) / max(1, len(shown)))
    if not shown or portions > _MOST_PORTIONS:
        return None
    lines = line_count(shown)
    following = first + lines
    continuation = f"offset {following}"
    if arguments.limit is not None:
        continuation += f" and limit {arguments.limit - lines}"
    note = PORTION.format(
        number=number,
        portions=portions,
        first=first,
        last=following - 1,
        total=line_count(text),
        arguments=continuation,
    )
    return shown + note


# --- write and edit ---------------------------------------------------------------------------------


class _FileArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")


F = TypeVar("F", bound=_FileArguments)


@dataclass(frozen=True, slots=True)
class _PlannedChange:
    """A change that a call would make to a file."""

    before: bytes | None
    """Content before the change. None if the file is new."""
    after: bytes
    diff: "UnifiedDiff"
    outcome: str
    """Text of the result for the model."""
    brief: str


class _ChangeTool(BaseTool[F]):
    """A tool that changes one file."""

    level = "edit"

    @abstractmethod
    def planned(self, arguments: F, path: Path, context: ToolContext) -> _PlannedChange:
        """Compute the change.

        Raises:
            ToolFailure: the change cannot be made.
        """

    def headline(self, arguments: F) -> str:
        return arguments.path

    def stays_inside(self, arguments: F, context: ToolContext) -> bool:
        return is_changeable(
            context.real(located(arguments.path, context)), context.cwd
        )

    def diff(self, arguments: F, context: ToolContext) -> str | None:
        path = located(arguments.path, context)
        planned = self.planned(arguments, path, context)
        if planned.before is not None and not context.known_files.knows(path):
            context.known_files.remember(path, planned.before)
        return planned.diff.text

    async def act(self, arguments: F, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(self._applied, arguments, context)

    def _applied(self, arguments: F, context: ToolContext) -> ToolOutcome:
        path = located(arguments.path, context)
        shown = named(path, context)
        with context.known_files.lock:
            planned = self.planned(arguments, path, context)
            real = context.real(path)
            context.before_change(path, real, planned.before, planned.after)
            try:
                other_names = replace(real, planned.after, shown)
            except ToolFailure:
                with suppress(ToolFailure):  # record that the change was not made
                    context.before_change(path, real, planned.after, planned.before)
                raise
            context.known_files.remember(path, planned.after)
        text = planned.outcome
        brief = planned.brief
        if other_names:
            text += OTHER_LINKS.format(links=many(other_names, "other name"))
            brief += ", hard link"
        diff = planned.diff
        touch = FileTouch(
            path=shown, action="modified", added=diff.added, removed=diff.removed
        )
        return ToolOutcome(text, brief=brief, files=(touch,), diff=diff.clipped)


def _refuse_stale(path: Path, content: bytes, context: ToolContext) -> None:
    """Raise ToolFailure if the file differs from the content that the model has read."""
    if context.known_files.is_stale(path, content):
        raise ToolFailure(STALE, "stale ✗", file=named(path, context))


class WriteArguments(_FileArguments):
    content: str = Field(description="The complete new content.")


class WriteTool(_ChangeTool[WriteArguments]):
    name = "write"
    description = (
        "Write a complete file: create it, with missing folders, or replace it. To change a part of a file, "
        "use edit."
    )
    arguments = WriteArguments

    def planned(
        self, arguments: WriteArguments, path: Path, context: ToolContext
    ) -> _PlannedChange:
        before = None
        if is_there(context.real(path)):
            before = contents(path, context)
            _refuse_stale(path, before, context)
        shown = named(path, context)
        content = before or b""
        old = "(binary content)\n" if is_binary(content) else decoded(content)
        count = many(line_count(arguments.content), "line")
        verb = "Wrote" if before is None else "Replaced"
        after = in_form_of(content, arguments.content)
        diff = unified_diff(old, decoded(after), shown)
        return _PlannedChange(before, after, diff, f"{verb} {shown}: {count}.", count)


class EditArguments(_FileArguments):
    old: str = Field(
        description="The text to replace, exactly as in the file, indentation included."
    )
    new: str = Field(description="The text that replaces it.")
    replace_all: bool = Field(False, description="Replace every occurrence.")


class EditTool(_ChangeTool[EditArguments]):
    name = "edit"
    description = (
        "Replace a piece of text in a file. `old` must occur exactly once; if not, add lines around it, or "
        "set replace_all. Read the file first."
    )
    arguments = EditArguments

    def planned(
        self, arguments: EditArguments, path: Path, context: ToolContext
    ) -> _PlannedChange:
        shown = named(path, context)
        if not arguments.old:
            raise ToolFailure(NO_OLD)
        before = contents(path, context)
        if is_binary(before) or is_wide(before):
            kind = "in UTF-16 or UTF-32" if is_wide(before) else "a binary file"
            raise ToolFailure(NOT_EDITED, "not UTF-8 ✗", file=shown, format=kind)
        _refuse_stale(path, before, context)
        matches = list(_pattern(arguments.old).finditer(before))
        if not matches:
            hint = nearest(context.mask(decoded(before)), arguments.old)
            raise ToolFailure(NOT_FOUND, "not found ✗", file=shown, hint=hint)
        lines = [before.count(b"\n", 0, match.start()) + 1 for match in matches[:1000]]
        places = "line " if len(lines) == 1 else "lines "
        places += ", ".join(map(str, lines[:12]))
        if len(lines) > 12:
            places += " …"
        if len(matches) > 1 and not arguments.replace_all:
            raise ToolFailure(
                NOT_UNIQUE,
                "not unique ✗",
                count=len(matches),
                file=shown,
                places=places,
            )
        after = _replaced(before, matches, arguments.new)
        if after == before:
            raise ToolFailure(SAME, file=shown)
        diff = unified_diff(decoded(before), decoded(after), shown)
        count = many(len(lines), "replacement")
        outcome = f"Edited {shown}: {count} at {places}, {diff.brief}."
        return _PlannedChange(before, after, diff, outcome, diff.brief)


_MOST_SEARCHED = 20_000
"""Maximum number of a file's lines that are searched for text similar to `old`."""
_COMPARED = 400
"""Number of characters of a line that are compared."""
_QUOTED = 160
"""Maximum length of a line quoted in a message, in characters."""


def _pattern(old: str) -> re.Pattern[bytes]:
    """Return a pattern that matches `old` with any line endings.

    Models may write LF instead of CRLF.
    """
    lines = old.replace("\r\n", "\n").split("\n")
    return re.compile(rb"\r?\n".join(re.escape(line.encode()) for line in lines))


def _replaced(before: bytes, matches: list[re.Match[bytes]], new: str) -> bytes:
    pieces = []
    position = 0
    for match in matches:
        pieces += [
            before[position : match.start()],
            with_line_ends(new, match[0], before),
        ]
        position = match.end()
    return b"".join([*pieces, before[position:]])


def nearest(text: str, old: str) -> str:
    """Return a message that quotes the line of `text` at which `old` begins to differ.

    `old` does not occur in the text.
    """
    old_lines = old.replace("\r\n", "\n").lstrip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n")[:_MOST_SEARCHED]
    candidates = [line.strip()[:_COMPARED] for line in lines]
    first_line = old_lines[0].strip()[:_COMPARED]
    close = difflib.get_close_matches(first_line, candidates, n=1, cutoff=0.5)
    if not close:
        return NOTHING_SIMILAR
    starts = [number for number, line in enumerate(candidates) if line == close[0]]
    start = max(starts, key=lambda number: same_start(lines[number:], old_lines))
    count = same_start(lines[start:], old_lines)
    place = min(start + count, len(lines) - 1)
    differs = DIFFERS
    if count < len(old_lines) and candidates[place] == old_lines[count].strip():
        differs = WHITE_SPACE
    return DIFFERS_AT.format(
        start=start + 1, line=place + 1, differs=differs, text=_quoted(lines[place])
    )


def _quoted(line: str) -> str:
    return f"`{clip(line, _QUOTED)}`"


# --- diffs ------------------------------------------------------------------------------------------

_CONTEXT = 3
_MOST_COMPARED = 4_000
"""Maximum number of lines compared per side of a change.

A larger change is shown as one replacement.
"""
_MOST_KEPT = 2_000
"""Maximum number of lines of a diff that are stored in the history.

An approval shows the whole diff.
"""


@dataclass(frozen=True, slots=True)
class UnifiedDiff:
    text: str
    """The complete unified diff; empty if nothing changed."""
    added: int
    removed: int

    @property
    def brief(self) -> str:
        return f"+{self.added} −{self.removed}"

    @property
    def clipped(self) -> str | None:
        """The part of the diff that is stored in the history, if anything changed."""
        lines = self.text.split("\n", _MOST_KEPT)
        if len(lines) > _MOST_KEPT and lines[-1]:
            lines[-1] = f"… {lines[-1].count(chr(10))} more lines\n"
        return "\n".join(lines) or None


def unified_diff(before: str, after: str, name: str) -> UnifiedDiff:
    """Return the differences between two versions of a file.

    CRLF and LF count as different.
    """
    old = _lines(before)
    new = _lines(after)
    same_before = same_start(old, new)
    same_after = same_start(old[same_before:][::-1], new[same_before:][::-1])
    start = max(0, same_before - _CONTEXT)
    tail = max(0, same_after - _CONTEXT)
    old = old[start : len(old) - tail]
    new = new[start : len(new) - tail]
    if max(len(old), len(new)) > _MOST_COMPARED:
        lead = same_before - start
        old_end = len(old) - same_after + tail
        new_end = len(new) - same_after + tail
        groups = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, old_end, lead, new_end),
                ("equal", old_end, len(old), new_end, len(new)),
            ]
        ]
    else:
        groups = list(
            difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(
                _CONTEXT
            )
        )
    out = [f"--- {name if before else '/dev/null'}", f"+++ {name}"]
    added = removed = 0
    for group in groups:
        out.append(_range_line(group, start))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                out.extend(" " + line for line in old[old_from:old_to])
            else:
                out.extend("-" + line for line in old[old_from:old_to])
                out.extend("+" + line for line in new[new_from:new_to])
                removed += old_to - old_from
                added += new_to - new_from
    if not added and not removed:
        return UnifiedDiff("", 0, 0)
    return UnifiedDiff("\n".join(out) + "\n", added, removed)


def _lines(text: str) -> list[str]:
    """Split text into lines.

    A last line without LF gets a note, so that the missing LF shows up as a difference.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _range_line(group: Sequence[tuple[str, int, int, int, int]], start: int) -> str:
    old_range = _range(group[0][1] + start, group[-1][2] + start)
    new_range = _range(group[0][3] + start, group[-1][4] + start)
    return f"@@ -{old_range} +{new_range} @@"


def _range(first: int, end: int) -> str:
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"
