"""The tool `glob`: files by the pattern of their path, newest first."""

import os
from collections.abc import Callable
from heapq import nlargest
from pathlib import Path

from pydantic import Field

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import fitted, in_thread
from .failure import ToolFailure
from .globs import matcher
from .paths import is_open, located, missing, named
from .text import counted
from .walk import files_below

_MOST = 500
"""Files in one answer."""


class GlobArguments(Arguments):
    pattern: str = Field(
        min_length=1, description="Such as `**/*.py`, `src/**/test_*.{ts,tsx}`, relative to path."
    )
    path: str | None = Field(None, description="Folder; the working directory if left out.")


class GlobTool(BaseTool[GlobArguments]):
    name = "glob"
    description = "Find files by a pattern of their path, newest first. Leaves out what .gitignore does."
    level = "read"

    def __init__(self) -> None:
        super().__init__(GlobArguments)

    def headline(self, arguments: GlobArguments) -> str:
        return f"{arguments.pattern} {arguments.path or ''}".rstrip()

    def stays_inside(self, arguments: GlobArguments, context: ToolContext) -> bool:
        return is_open(located(arguments.path or ".", context), context.cwd)

    async def act(self, arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
        root = located(arguments.path or ".", context)
        found, total = await in_thread(lambda stop: _found(arguments.pattern, root, context, stop))
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
        return ToolOutcome(text, brief=counted(total, "file"), full_output=full)


def _found(pattern: str, root: Path, context: ToolContext, stop: Callable[[], bool]) -> tuple[list[str], int]:
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
    start = len(str(root).rstrip(os.sep)) + 1
    fitting = [path for path in files_below(root, stop) if fits(path[start:].replace(os.sep, "/"))]
    return nlargest(_MOST, fitting, key=_changed), len(fitting)


def _changed(path: str) -> int:
    """When it was last changed, in nanoseconds; 0 for a file that has gone meanwhile."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
