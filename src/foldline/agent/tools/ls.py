"""The tool `ls`: what a folder holds, with sizes."""

import asyncio
import os
from pathlib import Path

from pydantic import Field

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import fitted
from .failure import ToolFailure
from .paths import is_open, located, missing, named
from .text import counted, one_line, sized

_MOST = 500
"""Names in one answer."""


class LsArguments(Arguments):
    path: str | None = Field(None, description="Folder; the working directory if left out.")


class LsTool(BaseTool[LsArguments]):
    name = "ls"
    description = "List a folder: folders first (with /), then files with sizes. Hidden and ignored ones too."
    level = "read"

    def __init__(self) -> None:
        super().__init__(LsArguments)

    def headline(self, arguments: LsArguments) -> str:
        return arguments.path or "."

    def stays_inside(self, arguments: LsArguments, context: ToolContext) -> bool:
        return is_open(located(arguments.path or ".", context), context.cwd)

    async def act(self, arguments: LsArguments, context: ToolContext) -> ToolOutcome:
        folder = located(arguments.path or ".", context)
        lines = await asyncio.to_thread(_listed, folder, context)
        if not lines:
            return ToolOutcome(f"[{named(folder, context)} is empty]", brief="empty")
        text = "".join(f"{line}\n" for line in lines[:_MOST])
        if len(lines) > _MOST:
            text += f"[{len(lines) - _MOST} more; use glob with a pattern to find them]\n"
        text, full = await fitted(text, context, self.name)
        return ToolOutcome(text, brief=counted(len(lines), "entry", "entries"), full_output=full)


def _listed(folder: Path, context: ToolContext) -> list[str]:
    shown = named(folder, context)
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: (not _is_folder(entry), entry.name))
            return [_line(entry) for entry in ordered]
    except FileNotFoundError:
        raise missing(folder, context) from None
    except NotADirectoryError:
        raise ToolFailure(f"{shown} is a file, not a folder: use `read` to see it.") from None
    except OSError as error:
        raise ToolFailure(f"{shown} could not be listed: {error.strerror or error}.") from None


def _line(entry: os.DirEntry[str]) -> str:
    name = one_line(os.fsencode(entry.name).decode("utf-8", "replace"))
    try:
        if entry.is_symlink():
            target = os.fsencode(Path(entry.path).readlink()).decode("utf-8", "replace")
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
