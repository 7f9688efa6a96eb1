"""The tool `write`: a whole file, new or replaced."""

import asyncio
import os
from pathlib import Path

from pydantic import Field

from foldline.protocol import FileTouch

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .diffs import change
from .failure import ToolFailure
from .files import contents, replace
from .guarded import may_be_changed
from .paths import located, named
from .text import counted, decoded, is_binary, line_count


class WriteArguments(Arguments):
    path: str = Field(description="Relative to the working directory, or absolute.")
    content: str = Field(description="All of it, exactly.")


class WriteTool(BaseTool[WriteArguments]):
    name = "write"
    description = (
        "Write a whole file: a new one (folders are made as needed) or in place of another. To change a "
        "part, use edit."
    )
    level = "edit"

    def __init__(self) -> None:
        super().__init__(WriteArguments)

    def headline(self, arguments: WriteArguments) -> str:
        return arguments.path

    def stays_inside(self, arguments: WriteArguments, context: ToolContext) -> bool:
        return may_be_changed(located(arguments.path, context), context.cwd)

    def diff(self, arguments: WriteArguments, context: ToolContext) -> str | None:
        path = located(arguments.path, context)
        before = _before(path, context)
        if before is None:
            before = b""
        elif not context.known_files.knows(path):
            context.known_files.remember(path, before)
        return change(_shown_text(before), arguments.content, named(path, context)).diff

    async def act(self, arguments: WriteArguments, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_write, arguments, context)


def refuse_stale(path: Path, content: bytes, context: ToolContext) -> None:
    """Hold back a change of a file the model does not know as it is now.

    Raises:
        ToolFailure: the file is not as our tools last saw it.
    """
    if context.known_files.is_stale(path, content):
        raise ToolFailure(
            f"{named(path, context)} has changed on disk since it was last read: "
            "read it again, then make the change.",
            brief="stale ✗",
        )


def _write(arguments: WriteArguments, context: ToolContext) -> ToolOutcome:
    path = located(arguments.path, context)
    shown = named(path, context)
    content = arguments.content.encode()
    with context.known_files.lock:
        before = _before(path, context)
        context.before_change(path, before, content)
        replace(path, content, shown)
        context.known_files.remember(path, content)
    made = change(_shown_text(before or b""), arguments.content, shown)
    count = counted(line_count(arguments.content), "line")
    touch = FileTouch(path=shown, action="modified", added=made.added, removed=made.removed)
    verb = "Wrote" if before is None else "Replaced"
    return ToolOutcome(f"{verb} {shown}: {count}.", brief=count, files=(touch,), diff=made.kept)


def _before(path: Path, context: ToolContext) -> bytes | None:
    """What the file holds now; None where there is none."""
    if not os.path.lexists(path) or not path.exists():
        return None
    before = contents(path, context)
    refuse_stale(path, before, context)
    return before


def _shown_text(content: bytes) -> str:
    return "(binary content)\n" if is_binary(content) else decoded(content)
