"""The `grep`, `glob` and `ls` tools.

`grep` runs ripgrep, or `pygrep` if ripgrep is not installed.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path

from pydantic import Field

from foldline.data import Environ, real_path
from foldline.files import is_file, is_there, listed_at
from foldline.json_text import JsonObject
from foldline.programs import find_program, python_command, trusted_environment
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many, sized

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
from .paths import is_inside, is_open, missing, protected_in
from .process import environment, spawn
from .tree import files_below, matcher

SEARCH_FAILED = "The search failed: {reason}"
STOPPED = (
    "[stopped after {most} matches; narrow the pattern, path or glob to see others]\n"
)
TOO_SLOW = "[stopped after {seconds} s; narrow the path or glob]\n"
LONG_LINES = "[{lines} too long to show]\n"
NO_MATCH = "No line matches {pattern}."
NOT_SEARCHED = "{path} is neither a file nor a folder and was not searched."
NO_GLOB = "{pattern} is not a valid glob pattern: {reason}."
NO_FILES = "No file matches {pattern} in {folder}."
ALL_FOLDERS = " `**/{pattern}` also searches all subfolders."
NEWEST = "[the {shown} newest of {total} files; narrow the pattern to see others]\n"
NOT_RELATIVE = "The pattern must be relative to the folder: pass the folder as `path`, the rest as `pattern`."
GLOB_IN_FILE = "{path} is a file: pass a folder as `path`."
EMPTY = "[{folder} is empty]"
MORE_ENTRIES = "[{count} more; use glob with a pattern to find them]\n"
A_FILE = "{path} is a file, not a folder: use `read` to see its content."
NOT_LISTED = "{path} could not be listed: {reason}."
_MOST_MATCHES = 1_000
"""Maximum number of matching lines in one result."""
_LINE = 400
"""Maximum length of the part of a line that is shown around the match, in characters."""
_RECORD = 32 * 1024 * 1024
"""Maximum size of one record from the search program, in bytes. Larger records are skipped."""
_SECONDS = 60
"""Time limit of a search, in seconds."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, description="The regular expression.")
    path: str | None = Field(
        None, description="File or folder; by default, the working directory."
    )
    glob: str | None = Field(
        None, description="Only matching files: `*.py`, `src/**/*.{ts,tsx}`."
    )
    ignore_case: bool = Field(False, description="Ignore case.")


class GrepTool(BaseTool[GrepArguments]):
    name = "grep"
    description = (
        "Search files for lines that match a regular expression: path:line: text. Leaves out binary files, "
        "and files that .gitignore excludes."
    )
    arguments = GrepArguments

    def headline(self, arguments: GrepArguments) -> str:
        parts = (f'"{arguments.pattern}"', arguments.path, arguments.glob)
        return " ".join(filter(None, parts))

    def stays_inside(self, arguments: GrepArguments, context: ToolContext) -> bool:
        real = context.real(located(arguments.path or ".", context))
        return is_open(real, context.cwd) or is_inside(real, context.spill_dir)

    async def act(self, arguments: GrepArguments, context: ToolContext) -> ToolOutcome:
        root = located(arguments.path or ".", context)
        await asyncio.to_thread(_check, root, context)
        real = context.real(root)
        matches = _MatchCollector(
            context, _filter(arguments, context), root, real, protected_in(real)
        )
        timed_out = False
        command = _command(arguments, real)
        env: Environ = trusted_environment(environment())
        if context.box is not None:
            enter = context.box.entered_search
            command, env = await asyncio.to_thread(
                enter, command, env, str(real), _program_paths(command)
            )
        status = None
        async with spawn(command, context.cwd, env) as child:
            try:
                async with asyncio.timeout(_SECONDS):
                    status = await child.follow(matches.take)
            except TimeoutError:
                timed_out = True
        if status not in (None, 0, 1) and not matches.lines:
            reason = matches.error_text() or f"exit {status}"
            raise ToolFailure(SEARCH_FAILED, reason=reason)
        is_cut = len(matches.lines) > _MOST_MATCHES
        notes = []
        if is_cut:
            notes.append(STOPPED.format(most=_MOST_MATCHES))
        if timed_out:
            notes.append(TOO_SLOW.format(seconds=_SECONDS))
        if matches.skipped:
            skipped = many(matches.skipped, "matching line")
            notes.append(LONG_LINES.format(lines=skipped))
        if not matches.lines and not notes:
            text = NO_MATCH.format(pattern=arguments.pattern)
            return ToolOutcome(text, brief="no matches")
        lines = matches.lines[:_MOST_MATCHES]
        text, full = await fitted("".join(lines + notes), context, self.name)
        brief = many(len(lines), "match", "matches")
        if is_cut or timed_out:
            brief = f"{len(lines)}+ matches"
        return ToolOutcome(text, brief=brief, full_output=full)


def _check(root: Path, context: ToolContext) -> None:
    """Check that a path can be searched.

    A pipe, for example, would block.

    Raises:
        ToolFailure: the path is neither a file nor a folder.
    """
    if not root.exists():
        raise missing(root, context)
    if not root.is_dir() and not root.is_file():
        raise ToolFailure(NOT_SEARCHED, path=named(root, context))


def _command(arguments: GrepArguments, root: Path) -> list[str]:
    """Return the command line of ripgrep or `pygrep`, which both write records in ripgrep's JSON format."""
    ripgrep = find_program("rg")
    if ripgrep is None or _has_odd_ignore_file(root):
        options = {
            "pattern": arguments.pattern,
            "root": str(root),
            "ignore_case": arguments.ignore_case,
        }
        return python_command("foldline.agent.tools.pygrep", json.dumps(options))
    command = [
        real_path(ripgrep),
        "--no-config",
        "--json",
        "--hidden",
        "--no-messages",
        "--sort",
        "path",
    ]
    if not any(is_there(folder / ".git") for folder in (root, *root.parents)):
        # Ignore files also apply outside of repositories. In one, the flag would affect nested repositories.
        command.append("--no-require-git")
    command += [
        "--glob",
        "!.git",
        "--ignore-case" if arguments.ignore_case else "--case-sensitive",
    ]
    if (
        arguments.glob
        and "/" not in arguments.glob
        and not arguments.glob.startswith("!")
    ):
        # do not use --glob, which would include ignored files
        command += ["--type-add", f"wanted:{arguments.glob}", "--type", "wanted"]
    return [*command, "--regexp", arguments.pattern, "--", str(root)]


def _has_odd_ignore_file(root: Path) -> bool:
    """Return whether an ignore file in or above the folder would block ripgrep.

    A pipe, for example, would.
    """
    ignore_files = (
        folder / name for folder in (root, *root.parents) for name in _IGNORE_FILES
    )
    return any(is_there(path) and not is_file(path) for path in ignore_files)


def _program_paths(command: list[str]) -> list[str]:
    """Return the search program's own files and folders, which the sandbox must make readable."""
    if command[0] == sys.executable:
        return [sys.prefix, sys.base_prefix, *sys.path]
    return command[:1]


def _filter(arguments: GrepArguments, context: ToolContext) -> Callable[[str], bool]:
    """Return a predicate for absolute paths that the `glob` argument selects."""
    if not arguments.glob:
        return lambda path: True
    pattern = arguments.glob.removeprefix("!")
    try:
        fits = matcher(pattern, anywhere=True)
    except ValueError as error:
        raise ToolFailure(NO_GLOB, pattern=arguments.glob, reason=error) from None
    is_positive = pattern == arguments.glob
    start = str(context.cwd).rstrip(os.sep) + os.sep
    return lambda path: (
        fits(path.removeprefix(start).replace(os.sep, "/").lstrip("/")) == is_positive
    )


@dataclass
class _MatchCollector:
    """Reads the records of the search program, and collects the matching lines."""

    context: ToolContext
    is_selected: Callable[[str], bool]
    root: Path
    """The searched path as given in the call."""
    real: Path
    """`root` as resolved at the time of approval, which is passed to the search program."""
    is_protected: Callable[[Path], bool]
    """Returns whether a resolved path must not be shown; see `protected_in`."""
    lines: list[str] = field(default_factory=list)
    skipped: int = 0
    """Number of matching lines that were skipped because they were too long."""
    _unread: bytearray = field(default_factory=bytearray)
    _skipping: bool = False
    _errors: bytearray = field(default_factory=bytearray)

    async def take(self, chunk: bytes) -> bool:
        self._unread += chunk
        if b"\n" not in chunk:
            if len(self._unread) > _RECORD:
                self._skipping = True
                self._unread.clear()
            return True
        *records, self._unread = self._unread.split(b"\n")
        for record in records:
            if self._skipping:
                self._skipping = False
                self.skipped += 1
            else:
                self._add(record)
        return len(self.lines) <= _MOST_MATCHES

    def error_text(self) -> str:
        """The search program's error output, on one line."""
        text = " ".join(
            (self._errors + self._unread).decode("utf-8", "replace").split()
        )
        return text[:500]

    def _may_show(self, path: str) -> bool:
        if not self.is_selected(path):
            return False
        try:
            return not self.is_protected(Path(real_path(path)))
        except OSError:
            return True

    def _add(self, record: bytearray) -> None:
        try:
            parsed: JsonObject = json.loads(record)
        except ValueError:  # an error message
            self._errors += record[:1000] + b"\n"
            return
        if parsed["type"] != "match":
            return
        data = parsed["data"]
        path = str(
            self.root / os.path.relpath(os.fsdecode(_bytes(data["path"])), self.real)
        )
        if not self._may_show(path):
            return
        start = data["submatches"][0]["start"] if data["submatches"] else 0
        excerpt = _excerpt(_bytes(data["lines"]), start, self.context.mask)
        self.lines.append(
            f"{named(path, self.context)}:{data['line_number']}: {excerpt}\n"
        )


def _bytes(value: dict[str, str]) -> bytes:
    return (
        base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()
    )


def _excerpt(content: bytes, start: int, mask: Callable[[str], str]) -> str:
    """Return a line, clipped to the part around the match."""
    before = mask(content[:start].decode("utf-8", "replace"))
    line = mask(content.decode("utf-8", "replace"))
    line = line.rstrip("\r\n").replace("\r", "␍").replace("\n", "␊")
    if len(line) <= _LINE:
        return line
    begin = max(0, min(len(before) - _LINE // 4, len(line) - _LINE))
    end = begin + _LINE
    before_cut = "…" if begin else ""
    after_cut = "…" if end < len(line) else ""
    return f"{before_cut}{line[begin:end]}{after_cut}"


_MOST_FILES = 500
"""Maximum number of files or names in one result."""


class GlobArguments(Arguments):
    pattern: str = Field(
        min_length=1,
        description="For example `**/*.py` or `src/**/test_*.{ts,tsx}`, relative to path.",
    )
    path: str | None = Field(
        None, description="Folder; by default, the working directory."
    )


class GlobTool(BaseTool[GlobArguments]):
    name = "glob"
    description = "Find files by a pattern for their path, newest first. Leaves out what .gitignore excludes."
    arguments = GlobArguments

    def headline(self, arguments: GlobArguments) -> str:
        return f"{arguments.pattern} {arguments.path or ''}".rstrip()

    def stays_inside(self, arguments: GlobArguments, context: ToolContext) -> bool:
        return is_open(
            context.real(located(arguments.path or ".", context)), context.cwd
        )

    async def act(self, arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
        root = located(arguments.path or ".", context)
        pattern = arguments.pattern
        files, total = await in_thread(
            lambda stop: _newest_files(pattern, root, context, stop)
        )
        if not total:
            text = NO_FILES.format(pattern=pattern, folder=named(root, context))
            if "**" not in pattern:
                text += ALL_FOLDERS.format(pattern=pattern)
            return ToolOutcome(text, brief="no files")
        text = "".join(f"{named(path, context)}\n" for path in files)
        if total > len(files):
            text += NEWEST.format(shown=len(files), total=total)
        text, full = await fitted(text, context, self.name)
        return ToolOutcome(text, brief=many(total, "file"), full_output=full)


def _newest_files(
    pattern: str, root: Path, context: ToolContext, stop: Callable[[], bool]
) -> tuple[list[str], int]:
    """Return the newest matching files, and the number of all matching files."""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ToolFailure(NOT_RELATIVE)
    if not root.exists():
        raise missing(root, context)
    if not root.is_dir():
        raise ToolFailure(GLOB_IN_FILE, path=named(root, context))
    try:
        fits = matcher(pattern)
    except ValueError as error:
        raise ToolFailure(NO_GLOB, pattern=pattern, reason=error) from None
    real = context.real(root)
    start = len(str(real).rstrip(os.sep)) + 1
    names = (path[start:] for path in files_below(real, stop))
    fitting = [name for name in names if fits(name.replace(os.sep, "/"))]
    matches = [os.path.join(root, name) for name in fitting]  # noqa: PTH118
    return nlargest(_MOST_FILES, matches, key=_change_time), len(matches)


def _change_time(path: str) -> int:
    """Return the time of a file's last change in nanoseconds.

    Returns 0 if the file is missing.
    """
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


class LsArguments(Arguments):
    path: str | None = Field(
        None, description="Folder; by default, the working directory."
    )


class LsTool(BaseTool[LsArguments]):
    name = "ls"
    description = "List a folder: folders first (with /), then files with sizes, including ignored ones."
    arguments = LsArguments

    def headline(self, arguments: LsArguments) -> str:
        return arguments.path or "."

    def stays_inside(self, arguments: LsArguments, context: ToolContext) -> bool:
        return is_open(
            context.real(located(arguments.path or ".", context)), context.cwd
        )

    async def act(self, arguments: LsArguments, context: ToolContext) -> ToolOutcome:
        folder = located(arguments.path or ".", context)
        lines = await asyncio.to_thread(_folder_lines, folder, context)
        if not lines:
            text = EMPTY.format(folder=named(folder, context))
            return ToolOutcome(text, brief="empty")
        text = "".join(f"{line}\n" for line in lines[:_MOST_FILES])
        if len(lines) > _MOST_FILES:
            text += MORE_ENTRIES.format(count=len(lines) - _MOST_FILES)
        text, full = await fitted(text, context, self.name)
        return ToolOutcome(
            text, brief=many(len(lines), "entry", "entries"), full_output=full
        )


def _folder_lines(folder: Path, context: ToolContext) -> list[str]:
    shown = named(folder, context)
    try:
        with (
            listed_at(context.real(folder)) as descriptor,
            os.scandir(descriptor) as entries,
        ):
            ordered = sorted(
                entries, key=lambda entry: (not _is_folder(entry), entry.name)
            )
            return [_entry_line(entry, descriptor) for entry in ordered]
    except FileNotFoundError:
        raise missing(folder, context) from None
    except NotADirectoryError:
        raise ToolFailure(A_FILE, path=shown) from None
    except OSError as error:
        raise ToolFailure(
            NOT_LISTED, path=shown, reason=error.strerror or error
        ) from None


def _entry_line(entry: os.DirEntry[str], folder: int) -> str:
    name = _display_name(entry.name)
    suffix = "/" if _is_folder(entry) else ""
    try:
        if entry.is_symlink():
            target = os.readlink(entry.name, dir_fd=folder)
            return f"{name}{suffix} -> {_display_name(target)}"
        if not suffix:
            suffix = f"  {sized(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:
        return name
    return name + suffix


def _display_name(name: str) -> str:
    return escaped_line(os.fsencode(name).decode("utf-8", "replace"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one.

    Returns False for a link loop.
    """
    try:
        return entry.is_dir()
    except OSError:
        return False
