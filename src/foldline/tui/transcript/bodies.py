"""What an opened call shows below its row: arguments, output, or what was changed; cut where it is long."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from foldline.agent.tools.text import printed
from foldline.context.harmless import clean_code
from foldline.protocol import ImagePart, ToolCallPart, ToolResultMessage
from foldline.tui.blocks import (
    Block,
    DiffBlock,
    DiffLine,
    Key,
    LinesBlock,
    Spans,
    StackBlock,
    TextBlock,
    clean,
    clean_line,
    diff_lines,
    lines_of_diff,
)

from .output import LINE_LENGTH, more_words, output_lines

PART: Final = 16
"""Lines of what is opened that are shown at first: a row, its body and the rows around fit on a screen."""
WHOLE: Final = 400
"""Lines of it that the chat shows at all."""
_LENGTH: Final = 300
"""Characters of a line that are shown at first."""
_ARGUMENT: Final = 8
"""Lines of an argument that is no file."""
_TAIL, _TAIL_KEPT = 6, 4_000
"""Lines, and characters they are looked for in, below a command that still runs."""
_OLD: Final = ("old", "old_string", "old_str", "oldText")
_NEW: Final = ("new", "new_string", "new_str", "newText")
_CONTENT: Final = ("content", "contents", "file_text")
"""What agents call what an edit takes away and puts there, and what a write writes."""


class Body(NamedTuple):
    """What stands below a row, and whether there is more that the chat can show."""

    block: Block
    more: bool


def call_body(
    key: Key, call: ToolCallPart, result: ToolResultMessage | None, *, most: int, further: str
) -> Body:
    """The body of a call, at most about `most` lines; `further` says what shows the rest, in words."""
    changed = _changed(call, result)
    if changed:
        shown = DiffBlock(key, tuple(map(_short, changed[:most])))
        more = len(changed) - most
        rest = (TextBlock(key, more_words(more, further), "muted"),) if more > 0 else ()
        return Body(StackBlock(key, (shown, *rest)), more > 0)
    parts: list[Block] = [LinesBlock(key, given)] if (given := tuple(_given(call))) else []
    more, short = 0, False
    if result is not None:
        style = "alert" if result.is_error and not _command(call) else "muted"
        length = LINE_LENGTH if most > PART else _LENGTH
        lines, more, short = output_lines(result.text, most, style, length=length)
        lines = (*lines, *_pictures(result))
        if more > 0:
            lines = (*lines, ((more_words(more, further), "muted italic"),))
        gap = int(bool(parts) and not _command(call))
        parts.append(LinesBlock(key, lines or ((("(no output)", "muted italic"),),), gap=gap))
        if result.details.full_output:
            whole = clean_line(f"whole output: {result.details.full_output}")
            parts.append(TextBlock(key, whole, "muted italic"))
    parts = parts or [TextBlock(key, "no arguments", "muted italic")]
    return Body(StackBlock(key, tuple(parts)), more > 0 or short)


def live_tail(key: Key, output: str) -> Block | None:
    """The last lines of a command that still runs, as a terminal would show them."""
    lines = clean(as_printed(output)).rstrip().splitlines()[-_TAIL:]
    return TextBlock(key, "\n".join(lines), "muted") if lines else None


def as_printed(output: str) -> str:
    """The end of what a running command has put out, as a terminal would have left it."""
    return printed(output[-_TAIL_KEPT:].encode("utf-8", "replace"))


def _changed(call: ToolCallPart, result: ToolResultMessage | None) -> tuple[DiffLine, ...]:
    """What an edit or write changed: as the tool says, else as its arguments do, then without numbers."""
    if result is not None and result.details.diff:
        return tuple(lines_of_diff(result.details.diff))
    if result is not None and result.is_error:
        return ()
    arguments = call.parsed()
    old, new = _first(arguments, _OLD), _first(arguments, _NEW)
    if old is not None and new is not None:
        before, after = ([clean_code(line) for line in text.split("\n")] for text in (old, new))
        if len(before) + len(after) > WHOLE:
            return ()
        return tuple(replace(line, number=0) for line in diff_lines(before, after))
    content = _first(arguments, _CONTENT) if call.name.lower() in ("write", "create") else None
    if content is None:
        return ()
    lines = content.rstrip("\n").split("\n")
    return tuple(DiffLine("new", at, clean_code(line)) for at, line in enumerate(lines, 1))


def _short(line: DiffLine) -> DiffLine:
    over = len(line.content) - LINE_LENGTH
    if over <= 0:
        return line
    return replace(line, content=f"{line.content[:LINE_LENGTH]} … {over:,} more characters")


def _first(arguments: dict[str, object], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)


def _command(call: ToolCallPart) -> str:
    """A shell command in full: the row shows as much of it as there is room for."""
    command = call.parsed().get("command")
    return command if isinstance(command, str) else ""


def _given(call: ToolCallPart) -> Iterator[Spans]:
    """The arguments: a command as it would be typed, all others by name. Broken JSON as it came."""
    if command := _command(call):
        for at, line in enumerate(clean(command).rstrip("\n").split("\n")):
            yield (("$ " if at == 0 else "  ", "accent"), (line, "text"))
    arguments = {name: value for name, value in call.parsed().items() if name != "command" or not command}
    if not arguments and not command and call.arguments.strip() not in ("", "{}"):
        yield from output_lines(call.arguments, _ARGUMENT, "text").lines
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines, more, _ = output_lines(text, _ARGUMENT, "text", json_in_lines=False)
        head = (f"{clean_line(name)}: ", "muted")
        yield (head, *lines[0]) if lines else (head,)
        yield from ((("  ", "text"), *line) for line in lines[1:])
        if more:
            yield ((f"  … {more:,} more lines", "muted italic"),)


def _pictures(result: ToolResultMessage) -> Iterator[Spans]:
    for part in result.parts:
        if isinstance(part, ImagePart):
            size = f" {part.width}×{part.height}" if part.width and part.height else ""
            yield ((f"[picture {clean_line(part.media_type.removeprefix('image/'))}{size}]", "muted"),)
