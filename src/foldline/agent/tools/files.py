"""The tools `read`, `write` and `edit`, and the diffs of changes.

`edit` works on bytes, so that whatever is not UTF-8 stays as it is. A byte order mark and line ends stay in a
file that `edit` or `write` changes.
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

from foldline.context.clip import first_lines, fits
from foldline.context.digest import clip
from foldline.context.numbers import many
from foldline.context.tokens import estimate_tokens
from foldline.files import folder_at, is_there, opened, overwrite, put_whole, status_in
from foldline.protocol import FileTouch, system_words
from foldline.sequences import same_start

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
    sized,
    with_line_ends,
    with_notes,
)

LARGEST = 64 * 1024 * 1024
"""Bytes of the largest file that is read as a whole."""


# --- whole files; blocking: called in a thread ------------------------------------------------------


def contents(path: Path, context: ToolContext) -> bytes:
    """The bytes of an ordinary file.

    Raises:
        ToolFailure: there is none, it is too large, may not be read, or is a pipe or a device, which would
            block for ever.
    """
    shown = named(path, context)
    try:
        real = context.real(path)
        with folder_at(real.parent) as folder:
            _refuse_unreadable(status_in(folder, real.name), shown)
            # Without waiting: a pipe may have taken its place, and some of /proc wait for what happens next.
            with opened(real.name, folder) as file:
                _refuse_unreadable(os.fstat(file.fileno()), shown)
                content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path, context) from None
    except OSError as error:
        raise ToolFailure(f"{shown} could not be read: {system_words(error)}.") from None
    if content is None:
        raise ToolFailure(f"{shown} could not be read: it has nothing to say yet.")
    if len(content) > LARGEST:  # it grows, or has no size: /proc
        raise _too_large(shown, f"more than {sized(LARGEST)}")
    return content


def _refuse_unreadable(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{shown} is a folder, not a file: use `ls` or `glob` to see what is in it.")
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):  # a link is not opened
        raise ToolFailure(f"{shown} is not an ordinary file (a pipe, socket or device) and was not opened.")
    if status.st_size > LARGEST:
        raise _too_large(shown, f"{sized(status.st_size)}, more than {sized(LARGEST)}")


def _too_large(shown: str, size: str) -> ToolFailure:
    sentence = f"{shown} has {size}: use `grep`, or `bash` with sed -n or tail, to see parts of it."
    return ToolFailure(sentence, brief="too large ✗")


_IN_PLACE = (errno.EPERM, errno.EACCES, errno.EBUSY, errno.ENOTSUP)
"""Errors of a file that cannot be replaced by one of the same owner and attributes: it is another user's, its
folder may not be written, or it is mounted by itself."""


def replace(real: Path, content: bytes, shown: str, mode: int | None = None) -> int:
    """Make this the content of a file, all or nothing: a new file beside it takes its place.

    No link is followed. An existing file keeps its mode, owner, access list and extended attributes; where
    a new file cannot have these, it is written in its place, unless it has other names. A new file gets
    `mode`; missing folders are made. `shown` names the file in sentences.

    Returns:
        How many other names (hard links) of the file keep what it held.

    Raises:
        ToolFailure: it could not be written; what was there is unchanged.
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
        raise ToolFailure(f"{shown} could not be written: {system_words(error)}.") from None


def _put_like(name: Path, content: bytes, status: os.stat_result, folder: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    try:
        with opened(name, folder) as old:
            put_whole(name, content, mode, durable=True, folder=folder, like=old.fileno())
    except OSError as error:
        if error.errno not in _IN_PLACE or status.st_nlink > 1:
            raise
        overwrite(str(name), content, folder)


def _status(folder: int, name: str, shown: str) -> os.stat_result | None:
    """The status of a file that may be written; None if there is none.

    Raises:
        ToolFailure: it may not be written.
    """
    try:
        status = status_in(folder, name)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{shown} is a folder: give the path of a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"{shown} is not an ordinary file (a pipe, socket or device) and was not written.")
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolFailure(f"{shown} is write-protected.")  # a rename would pass over the protection
    return status


# --- read -------------------------------------------------------------------------------------------


class ReadArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")
    offset: int | None = Field(None, ge=1, description="First line, from 1.")
    limit: int | None = Field(None, ge=1, description="How many lines; all to the end if left out.")


class ReadTool(BaseTool[ReadArguments]):
    name = "read"
    description = (
        "Read a text file, without line numbers, or an image (png, jpg, gif, webp). Of a long file, read the "
        "part you need."
    )
    arguments = ReadArguments

    def headline(self, arguments: ReadArguments) -> str:
        return arguments.path + line_span(arguments.offset, arguments.limit)

    def stays_inside(self, arguments: ReadArguments, context: ToolContext) -> bool:
        real = context.real(located(arguments.path, context))
        beside = (context.spill_dir, *context.readable)
        return is_open(real, context.cwd) or any(is_inside(real, folder) for folder in beside)

    async def act(self, arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_read, arguments, context)


def _read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    path = located(arguments.path, context)
    content = contents(path, context)
    shown, size = named(path, context), sized(len(content))
    touch = FileTouch(path=shown, action="read")
    if image := image_part(content, shown):
        text = f"[{shown}: {image.media_type}, {image.width} × {image.height}, {size}]"
        return ToolOutcome(text, brief=f"image {size}", files=(touch,), images=(image,))
    if is_binary(content):
        sentence = (
            f"{shown} is a binary file ({size}) and was not shown: use `bash` with a tool for its format."
        )
        raise ToolFailure(sentence, brief="binary ✗")
    context.known_files.remember(path, content)
    text = context.mask(decoded(content))
    part, first, note = lines_of(text, shown, arguments.offset, arguments.limit)
    if not part:
        return ToolOutcome(f"[{shown} is empty]", brief="0 lines", files=(touch,))
    result = _portion(text, part, first, arguments, context.max_tokens)
    if result is None:
        # The pointer gives the path as it was named, unless its name had to be escaped.
        whole = FullText(shown if located(shown, context) == path else str(path), first)
        result = with_notes(clipped(part, context.max_tokens - estimate_tokens(note), whole), note)
    return ToolOutcome(result, brief=many(line_count(part), "line"), files=(touch,))


_MOST_PORTIONS = 12
"""A file of more is clipped to its head and tail: nobody reads that one through."""
_PORTION_NOTE = 40
"""Estimated tokens of the line that says how to continue, at the most."""


def _portion(text: str, part: str, first: int, asked: ReadArguments, room: int) -> str | None:
    """The first lines of a part of a text that is too long for one result, and how to continue; None where it
    fits, or would take too many portions."""
    if fits(part, room - _PORTION_NOTE):
        return None
    shown = first_lines(part, room - _PORTION_NOTE)
    before = len(text) if not shown else len(lines_from(text, 1, first - 1))
    number = 1 + round(before / max(1, len(shown)))
    portions = number + math.ceil((len(part) - len(shown)) / max(1, len(shown)))
    if not shown or portions > _MOST_PORTIONS:
        return None
    lines = line_count(shown)
    left = "" if asked.limit is None else f" and limit {asked.limit - lines}"
    return (
        f"{shown}[Portion {number} of {portions}, lines {first}–{first + lines - 1} of {line_count(text)}. "
        f"Continue with offset {first + lines}{left}.]"
    )


# --- write and edit ---------------------------------------------------------------------------------


class _FileArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")


F = TypeVar("F", bound=_FileArguments)


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a call makes of a file as it is now."""

    before: bytes | None
    """None: there is no file."""
    after: bytes
    change: "Change"
    outcome: str
    """For the model."""
    brief: str


class _ChangeTool(BaseTool[F]):
    """A tool that changes one file."""

    level = "edit"

    @abstractmethod
    def planned(self, arguments: F, path: Path, context: ToolContext) -> _Planned:
        """
        Raises:
            ToolFailure: the change cannot be made.
        """

    def headline(self, arguments: F) -> str:
        return arguments.path

    def stays_inside(self, arguments: F, context: ToolContext) -> bool:
        return is_changeable(context.real(located(arguments.path, context)), context.cwd)

    def diff(self, arguments: F, context: ToolContext) -> str | None:
        path = located(arguments.path, context)
        planned = self.planned(arguments, path, context)
        if planned.before is not None and not context.known_files.knows(path):
            context.known_files.remember(path, planned.before)
        return planned.change.diff

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
                with suppress(ToolFailure):  # the record says that the change was not made
                    context.before_change(path, real, planned.after, planned.before)
                raise
            context.known_files.remember(path, planned.after)
        text, brief = planned.outcome, planned.brief
        if other_names:
            held = f"{many(other_names, 'other name')} (hard links)"
            text += f" The file had {held}: what they name was not changed. To change it, too, link it again."
            brief += ", hard link"
        change = planned.change
        touch = FileTouch(path=shown, action="modified", added=change.added, removed=change.removed)
        return ToolOutcome(text, brief=brief, files=(touch,), diff=change.kept)


def _refuse_stale(path: Path, content: bytes, context: ToolContext) -> None:
    """Hold back a change of a file that is not as our tools last saw it."""
    if context.known_files.is_stale(path, content):
        raise ToolFailure(
            f"{named(path, context)} has changed on disk since it was last read: "
            "read it again, then make the change.",
            brief="stale ✗",
        )


class WriteArguments(_FileArguments):
    content: str = Field(description="All of it, exactly.")


class WriteTool(_ChangeTool[WriteArguments]):
    name = "write"
    description = (
        "Write a whole file: a new one (folders are made as needed) or in place of another. To change a "
        "part, use edit."
    )
    arguments = WriteArguments

    def planned(self, arguments: WriteArguments, path: Path, context: ToolContext) -> _Planned:
        before = None
        if is_there(context.real(path)):
            before = contents(path, context)
            _refuse_stale(path, before, context)
        shown, content = named(path, context), before or b""
        old = "(binary content)\n" if is_binary(content) else decoded(content)
        count = many(line_count(arguments.content), "line")
        outcome = f"{'Wrote' if before is None else 'Replaced'} {shown}: {count}."
        after = in_form_of(content, arguments.content)
        return _Planned(before, after, change(old, decoded(after), shown), outcome, count)


class EditArguments(_FileArguments):
    old: str = Field(description="The text to replace, exactly as in the file, indentation included.")
    new: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence.")


class EditTool(_ChangeTool[EditArguments]):
    name = "edit"
    description = (
        "Replace a piece of text in a file. `old` must occur exactly once (else give lines around it, or set "
        "replace_all). Read the file first."
    )
    arguments = EditArguments

    def planned(self, arguments: EditArguments, path: Path, context: ToolContext) -> _Planned:
        shown = named(path, context)
        if not arguments.old:
            raise ToolFailure("`old` is empty: give the text to replace, or use write to make a new file.")
        before = contents(path, context)
        if is_binary(before) or is_wide(before):
            kind = "in UTF-16 or UTF-32" if is_wide(before) else "a binary file"
            raise ToolFailure(f"{shown} is {kind} and was not edited: use `bash`.", brief="not UTF-8 ✗")
        _refuse_stale(path, before, context)
        found = list(_pattern(arguments.old).finditer(before))
        if not found:
            hint = nearest(context.mask(decoded(before)), arguments.old)
            raise ToolFailure(f"`old` does not occur in {shown}. {hint}", brief="not found ✗")
        lines = [before.count(b"\n", 0, match.start()) + 1 for match in found[:1000]]
        few = ", ".join(map(str, lines[:12])) + (" …" if len(lines) > 12 else "")
        places = f"line{'' if len(lines) == 1 else 's'} {few}"
        if len(found) > 1 and not arguments.replace_all:
            raise ToolFailure(
                f"`old` occurs {len(found)} times in {shown}, at {places}: "
                "add lines around it until it is unique, or set replace_all.",
                brief="not unique ✗",
            )
        after = _replaced(before, found, arguments.new)
        if after == before:
            raise ToolFailure(f"`old` and `new` are the same: nothing to change in {shown}.")
        made = change(decoded(before), decoded(after), shown)
        count = many(len(lines), "replacement")
        return _Planned(
            before, after, made, f"Edited {shown}: {count} at {places}, {made.brief}.", made.brief
        )


_MOST_SEARCHED = 20_000
"""Lines looked at for the nearest one to a text that is not there."""
_QUOTED = 160
"""Characters of a line quoted in a message."""


def _pattern(old: str) -> re.Pattern[bytes]:
    """The text with line ends of either kind: models write LF, whatever the file has."""
    lines = old.replace("\r\n", "\n").split("\n")
    return re.compile(rb"\r?\n".join(re.escape(line.encode()) for line in lines))


def _replaced(before: bytes, found: list[re.Match[bytes]], new: str) -> bytes:
    pieces, position = [], 0
    for match in found:
        pieces += [before[position : match.start()], with_line_ends(new, match[0], before)]
        position = match.end()
    return b"".join([*pieces, before[position:]])


def nearest(text: str, old: str) -> str:
    """One sentence on where a text that is not there almost is."""
    wanted = old.replace("\r\n", "\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n")
    searched = f" of the first {_MOST_SEARCHED:,}" if len(lines) > _MOST_SEARCHED else ""
    lines = lines[:_MOST_SEARCHED]
    wanted = wanted[next((at for at, line in enumerate(wanted) if line.strip()), -1) :]
    starts = [number for number, line in enumerate(lines) if line.strip() == wanted[0].strip() != ""]
    if starts:
        start = max(starts, key=lambda number: same_start(lines[number:], wanted))
        agreeing = same_start(lines[start:], wanted)
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
    matcher = difflib.SequenceMatcher(autojunk=False, b=wanted[0].strip()[:400])
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:400])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = number, ratio
    if best < 0:
        return f"No line{searched} is like its first line: read the file again."
    return f"The nearest line is {best + 1}: {_quoted(lines[best])}."


def _quoted(line: str) -> str:
    return f"`{clip(line, _QUOTED)}`"


# --- diffs ------------------------------------------------------------------------------------------

_CONTEXT = 3
_MOST_COMPARED = 4_000
"""Lines of either side that are compared one by one; a larger change is shown as all out, all in."""
_MOST_KEPT = 2_000
"""Lines of a diff that are kept in the history. Who is asked about a change is shown all of it."""


@dataclass(frozen=True, slots=True)
class Change:
    diff: str
    """All of it; empty where nothing changed."""
    added: int
    removed: int

    @property
    def brief(self) -> str:
        return f"+{self.added} −{self.removed}"

    @property
    def kept(self) -> str | None:
        """What of the diff is kept in the history, if anything changed."""
        lines = self.diff.split("\n", _MOST_KEPT)
        if len(lines) > _MOST_KEPT and lines[-1]:
            lines[-1] = f"… {lines[-1].count(chr(10))} more lines\n"
        return "\n".join(lines) or None


def change(before: str, after: str, name: str) -> Change:
    """What became of a file. Line ends of either kind compare by what they are: CRLF to LF is a change."""
    old, new = _lines(before), _lines(after)
    alike_before = same_start(old, new)
    alike_after = same_start(old[alike_before:][::-1], new[alike_before:][::-1])
    start = max(0, alike_before - _CONTEXT)
    tail = max(0, alike_after - _CONTEXT)
    old, new = old[start : len(old) - tail], new[start : len(new) - tail]
    if max(len(old), len(new)) > _MOST_COMPARED:
        lead, trail = alike_before - start, alike_after - tail
        groups = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, len(old) - trail, lead, len(new) - trail),
                ("equal", len(old) - trail, len(old), len(new) - trail, len(new)),
            ]
        ]
    else:
        groups = list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT))
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
        return Change("", 0, 0)
    return Change("\n".join(out) + "\n", added, removed)


def _lines(text: str) -> list[str]:
    """Lines without their LF; a last line without one is marked, as a change of it is a change."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _range_line(group: Sequence[tuple[str, int, int, int, int]], start: int) -> str:
    old_from, old_to, new_from, new_to = group[0][1], group[-1][2], group[0][3], group[-1][4]
    return f"@@ -{_range(old_from + start, old_to + start)} +{_range(new_from + start, new_to + start)} @@"


def _range(first: int, end: int) -> str:
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"
