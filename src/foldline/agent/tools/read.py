"""The tool `read`: a file, or some of its lines, exactly as they are; images as images."""

import asyncio
from pathlib import Path

from pydantic import Field

from foldline.context.tokens import estimate_tokens
from foldline.protocol import FileTouch

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import Whole, clipped, with_notes
from .failure import ToolFailure
from .files import contents
from .paths import is_inside, is_open, located, named
from .pictures import picture
from .text import counted, decoded, is_binary, line_count, lines_from, sized


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
    level = "read"

    def __init__(self) -> None:
        super().__init__(ReadArguments)

    def headline(self, arguments: ReadArguments) -> str:
        match arguments.offset, arguments.limit:
            case None, None:
                return arguments.path
            case first, None:
                return f"{arguments.path}:{first}-"
            case first, count:
                return f"{arguments.path}:{first or 1}-{(first or 1) + (count or 1) - 1}"

    def stays_inside(self, arguments: ReadArguments, context: ToolContext) -> bool:
        path = located(arguments.path, context)
        return is_open(path, context.cwd) or is_inside(path, context.spill_dir)

    async def act(self, arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_read, arguments, context)


def _read(arguments: ReadArguments, context: ToolContext) -> ToolOutcome:
    path = located(arguments.path, context)
    content = contents(path, context)
    shown = named(path, context)
    touch = FileTouch(path=shown, action="read")
    if image := picture(content, shown):
        size = sized(len(content))
        text = f"[{shown}: {image.media_type}, {image.width} × {image.height}, {size}]"
        return ToolOutcome(text, brief=f"image {size}", files=(touch,), images=(image,))
    if is_binary(content):
        raise ToolFailure(
            f"{shown} is a binary file ({sized(len(content))}) and was not shown: "
            "use `bash` with a tool for its format.",
            brief="binary ✗",
        )
    context.known_files.remember(path, content)
    text = context.mask(decoded(content))
    total = line_count(text)
    first = arguments.offset or 1
    if first > max(total, 1):
        raise ToolFailure(f"{shown} has only {counted(total, 'line')}; line {first} is beyond its end.")
    part = lines_from(text, first, arguments.limit)
    count = line_count(part)
    if not part:
        return ToolOutcome(f"[{shown} is empty]", brief="0 lines", files=(touch,))
    note = "" if count == total else f"[lines {first}–{first + count - 1} of {total}]"
    whole = Whole(_readable(path, shown, context), first)
    result = with_notes(clipped(part, context.max_tokens - estimate_tokens(note), whole), note)
    return ToolOutcome(result, brief=counted(count, "line"), files=(touch,))


def _readable(path: Path, shown: str, context: ToolContext) -> str:
    """The path for the pointer: as it was named, unless its name had to be escaped."""
    return shown if located(shown, context) == path else str(path)
