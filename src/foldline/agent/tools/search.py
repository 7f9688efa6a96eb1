"""The tools `grep`, `glob` and `ls`. ripgrep searches; where there is none, `pygrep` does."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Any

from pydantic import Field

from foldline.context.numbers import many
from foldline.data import real_path
from foldline.files import is_file, is_there, listed_at
from foldline.programs import find_program, python_command, trusted_environment

from .base import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    fitted,
    in_thread,
    located,
    named,
)
from .paths import is_inside, is_open, kept_in, missing
from .process import environment, spawn
from .text import one_line, sized
from .tree import files_below, matcher

_MOST_MATCHES = 1_000
"""Matching lines in one answer."""
_LINE = 400
"""Characters shown of a line, those around the match."""
_RECORD = 32 * 1024 * 1024
"""Bytes of one record of the searcher; a longer line is passed over."""
_SECONDS = 60
"""How long a search may take."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="The regular expression.")
    path: str | None = Field(None, description="File or folder; the working directory if left out.")
    glob: str | None = Field(None, description="Only such files: `*.py`, `src/**/*.{ts,tsx}`.")
    ignore_case: bool = Field(False, description="Upper and lower case are the same.")


class GrepTool(BaseTool[GrepArguments]):
    name = "grep"
    description = (
        "Search files for lines that match a regular expression: path:line: text. Leaves out binary files "
        "and what .gitignore does."
    )
    arguments = GrepArguments

    def headline(self, arguments: GrepArguments) -> str:
        where = [part for part in (arguments.path, arguments.glob) if part]
        return " ".join([f'"{arguments.pattern}"', *where])

    def stays_inside(self, arguments: GrepArguments, context: ToolContext) -> bool:
        real = context.real(located(arguments.path or ".", context))
        return is_open(real, context.cwd) or is_inside(real, context.spill_dir)

    async def act(self, arguments: GrepArguments, context: ToolContext) -> ToolOutcome:
        root = located(arguments.path or ".", context)
        await asyncio.to_thread(_check, root, context)
        real = context.real(root)
        found = _Found(context, _filter(arguments, context), root, real, kept_in(real))
        timed_out = False
        command = _command(arguments, real)
        env: Mapping[str, str] = trusted_environment(environment())
        if context.box is not None:
            enter = context.box.entered_search
            command, env = await asyncio.to_thread(enter, command, env, str(real), _needed(command))
        async with spawn(command, context.cwd, env) as child:
            try:
                async with asyncio.timeout(_SECONDS):
                    status = await child.follow(found.take)
            except TimeoutError:
                timed_out, status = True, None
        if status not in (None, 0, 1) and not found.lines:
            raise ToolFailure(f"The search failed: {found.complaint() or f'exit {status}'}", brief="failed ✗")
        notes = []
        if len(found.lines) > _MOST_MATCHES:
            notes.append(
                f"[stopped after {_MOST_MATCHES} matches; narrow the pattern, path or glob to see others]\n"
            )
        if timed_out:
            notes.append(f"[stopped after {_SECONDS} s; narrow the path or glob]\n")
        if found.passed_over:
            notes.append(f"[{many(found.passed_over, 'matching line')} too long to show]\n")
        if not found.lines and not notes:
            return ToolOutcome(f"No line matches {arguments.pattern}.", brief="no matches")
        text, full = await fitted("".join([*found.lines[:_MOST_MATCHES], *notes]), context, self.name)
        more = "+" if len(found.lines) > _MOST_MATCHES or timed_out else ""
        count = min(len(found.lines), _MOST_MATCHES)
        brief = f"{count}{more} {'match' if count == 1 and not more else 'matches'}"
        return ToolOutcome(text, brief=brief, full_output=full)


def _check(root: Path, context: ToolContext) -> None:
    """Refuse what cannot be searched.

    Raises:
        ToolFailure: this is nothing to search; a pipe would block.
    """
    if not root.exists():
        raise missing(root, context)
    if not root.is_dir() and not root.is_file():
        raise ToolFailure(f"{named(root, context)} is neither a file nor a folder and was not searched.")


def _command(arguments: GrepArguments, root: Path) -> list[str]:
    """The searcher: both kinds write ripgrep's JSON records."""
    ripgrep = find_program("rg")
    if ripgrep is None or _has_odd_ignore_file(root):
        options = {"pattern": arguments.pattern, "root": str(root), "ignore_case": arguments.ignore_case}
        return python_command("foldline.agent.tools.pygrep", json.dumps(options))
    command = [real_path(ripgrep), "--no-config", "--json", "--hidden", "--no-messages", "--sort", "path"]
    if not any(is_there(folder / ".git") for folder in (root, *root.parents)):
        # Ignore files count outside of repositories, too; within, the flag would carry them into inner ones.
        command.append("--no-require-git")
    command += ["--glob", "!.git", "--ignore-case" if arguments.ignore_case else "--case-sensitive"]
    if arguments.glob and "/" not in arguments.glob and not arguments.glob.startswith("!"):
        # not --glob: that would bring back what .gitignore leaves out
        command += ["--type-add", f"wanted:{arguments.glob}", "--type", "wanted"]
    return [*command, "--regexp", arguments.pattern, "--", str(root)]


def _has_odd_ignore_file(root: Path) -> bool:
    """Return whether an ignore file in or above the folder is not a regular file, such as a pipe: ripgrep
    would read it for ever."""
    ignore_files = (folder / name for folder in (root, *root.parents) for name in _IGNORE_FILES)
    return any(is_there(path) and not is_file(path) for path in ignore_files)


def _needed(command: list[str]) -> list[str]:
    """The files that the searcher is made of."""
    is_ours = command[0] == sys.executable
    return [sys.prefix, sys.base_prefix, *sys.path] if is_ours else [command[0]]


def _filter(arguments: GrepArguments, context: ToolContext) -> Callable[[str], bool]:
    """Which files count, by absolute path."""
    if not arguments.glob:
        return lambda path: True
    pattern = arguments.glob.removeprefix("!")
    try:
        fits = matcher(pattern, anywhere=True)
    except ValueError as error:
        raise ToolFailure(f"{arguments.glob} is no glob: {error}.") from None
    wanted = pattern == arguments.glob
    start = str(context.cwd).rstrip(os.sep) + os.sep
    return lambda path: fits(path.removeprefix(start).replace(os.sep, "/").lstrip("/")) == wanted


@dataclass
class _Found:
    """Takes the searcher's records and keeps the matching lines."""

    context: ToolContext
    wanted: Callable[[str], bool]
    root: Path
    """What is searched, as it was named."""
    real: Path
    """And where that led when the call was allowed, which is what the searcher is given."""
    kept: Callable[[Path], bool]
    """Whether a path in there is not searched: see `kept_in`."""
    lines: list[str] = field(default_factory=list)
    passed_over: int = 0
    _rest: bytearray = field(default_factory=bytearray)
    _skipping: bool = False
    _other: bytearray = field(default_factory=bytearray)

    async def take(self, chunk: bytes) -> bool:
        self._rest += chunk
        if b"\n" not in chunk:
            if len(self._rest) > _RECORD:
                self._skipping = True
                self._rest.clear()
            return True
        *records, self._rest = self._rest.split(b"\n")
        for record in records:
            if self._skipping:
                self._skipping = False
                self.passed_over += 1
            else:
                self._record(record)
        return len(self.lines) <= _MOST_MATCHES

    def complaint(self) -> str:
        """What the searcher said that was no record: on one line, in short."""
        text = " ".join((self._other + self._rest).decode("utf-8", "replace").split())
        return text[:500]

    def _is_kept(self, path: str) -> bool:
        try:
            return self.kept(Path(real_path(path)))
        except OSError:
            return False

    def _record(self, record: bytearray) -> None:
        try:
            parsed: dict[str, Any] = json.loads(record)
        except ValueError:  # a complaint of the searcher's
            self._other += record[:1000] + b"\n"
            return
        if parsed["type"] != "match":
            return
        data = parsed["data"]
        path = str(self.root / os.path.relpath(os.fsdecode(_bytes(data["path"])), self.real))
        if not self.wanted(path) or self._is_kept(path):
            return
        content = _bytes(data["lines"])
        start = data["submatches"][0]["start"] if data["submatches"] else 0
        name = named(path, self.context)
        self.lines.append(f"{name}:{data['line_number']}: {_window(content, start, self.context.mask)}\n")


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()


def _window(content: bytes, start: int, mask: Callable[[str], str]) -> str:
    """The line, or of a long one what is around the match."""
    before = mask(content[:start].decode("utf-8", "replace"))
    line = mask(content.decode("utf-8", "replace"))
    line = line.rstrip("\r\n").replace("\r", "␍").replace("\n", "␊")
    if len(line) <= _LINE:
        return line
    begin = max(0, min(len(before) - _LINE // 4, len(line) - _LINE))
    end = begin + _LINE
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


_MOST_FILES = 500
"""Files, or names, in one answer."""


class GlobArguments(Arguments):
    pattern: str = Field(
        min_length=1, description="Such as `**/*.py`, `src/**/test_*.{ts,tsx}`, relative to path."
    )
    path: str | None = Field(None, description="Folder; the working directory if left out.")


class GlobTool(BaseTool[GlobArguments]):
    name = "glob"
    description = "Find files by a pattern of their path, newest first. Leaves out what .gitignore does."
    arguments = GlobArguments

    def headline(self, arguments: GlobArguments) -> str:
        return f"{arguments.pattern} {arguments.path or ''}".rstrip()

    def stays_inside(self, arguments: GlobArguments, context: ToolContext) -> bool:
        return is_open(context.real(located(arguments.path or ".", context)), context.cwd)

    async def act(self, arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
        root = located(arguments.path or ".", context)
        found, total = await in_thread(lambda stop: _newest_files(arguments.pattern, root, context, stop))
        if not total:
            hint = (
                "" if "**" in arguments.pattern else f" `**/{arguments.pattern}` looks in all folders below."
            )
            where = named(root, context)
            return ToolOutcome(f"No file fits {arguments.pattern} in {where}.{hint}", brief="no files")
        text = "".join(f"{named(path, context)}\n" for path in found)
        if total > len(found):
            text += f"[the {len(found)} newest of {total} files; make the pattern narrower to see others]\n"
        text, full = await fitted(text, context, self.name)
        return ToolOutcome(text, brief=many(total, "file"), full_output=full)


def _newest_files(
    pattern: str, root: Path, context: ToolContext, stop: Callable[[], bool]
) -> tuple[list[str], int]:
    """The newest files that fit, and how many fit in all."""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ToolFailure(
            "The pattern must lie below the folder: give the folder as `path`, the rest as `pattern`."
        )
    if not root.exists():
        raise missing(root, context)
    if not root.is_dir():
        raise ToolFailure(f"{named(root, context)} is a file: give a folder as `path`.")
    try:
        fits = matcher(pattern)
    except ValueError as error:
        raise ToolFailure(f"{pattern} is no pattern glob understands: {error}.") from None
    real = context.real(root)
    start = len(str(real).rstrip(os.sep)) + 1
    found = (path[start:] for path in files_below(real, stop))
    fitting = [os.path.join(root, below) for below in found if fits(below.replace(os.sep, "/"))]  # noqa: PTH118
    return nlargest(_MOST_FILES, fitting, key=_changed), len(fitting)


def _changed(path: str) -> int:
    """When it was last changed, in nanoseconds; 0 for a file that is gone."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


class LsArguments(Arguments):
    path: str | None = Field(None, description="Folder; the working directory if left out.")


class LsTool(BaseTool[LsArguments]):
    name = "ls"
    description = "List a folder: folders first (with /), then files with sizes. Hidden and ignored ones too."
    arguments = LsArguments

    def headline(self, arguments: LsArguments) -> str:
        return arguments.path or "."

    def stays_inside(self, arguments: LsArguments, context: ToolContext) -> bool:
        return is_open(context.real(located(arguments.path or ".", context)), context.cwd)

    async def act(self, arguments: LsArguments, context: ToolContext) -> ToolOutcome:
        folder = located(arguments.path or ".", context)
        lines = await asyncio.to_thread(_folder_lines, folder, context)
        if not lines:
            return ToolOutcome(f"[{named(folder, context)} is empty]", brief="empty")
        text = "".join(f"{line}\n" for line in lines[:_MOST_FILES])
        if len(lines) > _MOST_FILES:
            text += f"[{len(lines) - _MOST_FILES} more; use glob with a pattern to find them]\n"
        text, full = await fitted(text, context, self.name)
        return ToolOutcome(text, brief=many(len(lines), "entry", "entries"), full_output=full)


def _folder_lines(folder: Path, context: ToolContext) -> list[str]:
    shown = named(folder, context)
    try:
        with listed_at(context.real(folder)) as listed, os.scandir(listed) as entries:
            ordered = sorted(entries, key=lambda entry: (not _is_folder(entry), entry.name))
            return [_entry_line(entry, listed) for entry in ordered]
    except FileNotFoundError:
        raise missing(folder, context) from None
    except NotADirectoryError:
        raise ToolFailure(f"{shown} is a file, not a folder: use `read` to see it.") from None
    except OSError as error:
        raise ToolFailure(f"{shown} could not be listed: {error.strerror or error}.") from None


def _entry_line(entry: os.DirEntry[str], folder: int) -> str:
    name = one_line(os.fsencode(entry.name).decode("utf-8", "replace"))
    try:
        if entry.is_symlink():
            link = os.readlink(entry.name, dir_fd=folder)
            target = os.fsencode(link).decode("utf-8", "replace")
            return f"{name}{'/' if _is_folder(entry) else ''} -> {one_line(target)}"
        if _is_folder(entry):
            return f"{name}/"
        return f"{name}  {sized(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:
        return name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A link to a folder counts as one; a link in a loop does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False
