"""The bodies of tool calls: shortened arguments, output or a diff.

The text is untrusted, may be of any size, and is sanitised here. ANSI colours are mapped to the nearest
colour roles. Other control sequences are removed or made visible.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

from foldline.agent.tools.diffs import unified_diff
from foldline.agent.tools.images import pixels_of
from foldline.agent.tools.text import printed
from foldline.json_text import parse_json
from foldline.memory.facts import NEW_ARGUMENTS, OLD_ARGUMENTS
from foldline.memory.subjects import subject_of
from foldline.protocol import ImagePart, ToolCallPart, ToolResultMessage
from foldline.text.harmless import TAB, clean, clean_code, clean_line
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.code import highlighted
from foldline.tui.blocks.diff import SHORT, DiffBlock, DiffLine, lines_of_diff, path_in
from foldline.tui.blocks.plain import LinesBlock, StackBlock, TextBlock
from foldline.tui.look.cells import Span, Spans
from foldline.tui.look.links import to_file
from foldline.tui.transcript.keys import key_name
from foldline.view.projection import Projection

NO_OUTPUT: Final = "(no output)"
MORE_CHARACTERS: Final = "… {count:,} more characters"
FULL_OUTPUT: Final = "full output: {file}"
EXPAND: Final = "{key} to expand"
INSPECT: Final = "{key} to inspect"
PICTURE: Final = "[picture {kind}, press {key} to show it]"
LINE_LENGTH: Final = 2_000
"""Maximum number of characters shown per line. The Inspector shows the entire line."""
_MOST_JSON: Final = 200_000
"""Maximum number of characters of JSON that are formatted. This takes a few milliseconds."""

_OTHER: Final = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-ln-~]"  # CSI except SGR: cursor movement, erasing
    r"|\x1b\][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|\x1b[()][0-9A-Za-z]"  # character sets
)
_COLORS: Final = (
    "muted",
    "alert",
    "live",
    "altered",
    "compacted",
    "accent",
    "accent",
    "text",
)
"""The roles for black, red, green, yellow, blue, magenta, cyan and white, in this order."""
_ATTRIBUTES: Final = ("bold", "dim", "italic", "underline", "reverse", "strike")


def output_block(key: Key, output: str) -> LinesBlock:
    """Return the first lines of a command's output, and the number of remaining lines."""
    start = output_lines(output, WHOLE)
    lines = start.lines or (((NO_OUTPUT, "muted"),),)
    if start.more:
        more = more_words(start.more, expand_hint("whole"))
        lines = (*lines, ((more, "muted italic"),))
    return LinesBlock(key, lines)


def more_words(count: int, hint: str) -> str:
    """Return the note about lines that are not shown: `… 180 more lines (Enter to expand)`."""
    return f"… {many(count, 'more line')} ({hint})"


def expand_hint(level: str) -> str:
    """Return the hint on how to see more of a block that is shown at this level."""
    if level == "part":
        return EXPAND.format(key=key_name("open"))
    return INSPECT.format(key=key_name("inspect"))


class OutputStart(NamedTuple):
    """The first lines of an output."""

    lines: tuple[Spans, ...]
    more: int
    """Number of remaining lines."""
    short: bool = False
    """Whether any of the lines was shortened."""


def output_lines(
    text: str,
    most: int,
    style: str = "muted",
    *,
    length: int = LINE_LENGTH,
    json_in_lines: bool = True,
) -> OutputStart:
    """Draw the first `most` lines of an output, each with at most `length` characters.

    If `json_in_lines` is set, JSON on a single line is formatted.
    """
    formatted_json = _formatted_json(text) if json_in_lines else None
    if formatted_json is not None:
        lines = formatted_json.split("\n")
        colored = highlighted([clean(line) for line in lines[:most]], "json")
        return OutputStart(tuple(map(tuple, colored)), max(len(lines) - most, 0))
    text = text.rstrip("\n")
    if not text.strip():
        return OutputStart((), 0)
    first_lines = text.split("\n", most)
    more = 0
    if len(first_lines) > most:
        more = first_lines.pop().count("\n") + 1
    is_short = any(len(line) > length for line in first_lines)
    return OutputStart(tuple(_drawn(first_lines, style, length)), more, is_short)


def _formatted_json(text: str) -> str | None:
    """Format JSON that is on a single line.

    Returns None for any other text.
    """
    text = text.strip()
    if text[:1] not in ("{", "[") or len(text) > _MOST_JSON or "\n" in text:
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return json.dumps(value, ensure_ascii=False, indent=2) if value else None


def _drawn(lines: list[str], style: str, length: int) -> Iterator[Spans]:
    """Draw lines with their ANSI colours.

    A colour stays active across line ends.
    """
    decoder = AnsiDecoder()
    for line in lines:
        # Show what a terminal would show: the text after the last carriage return.
        line = line.removesuffix("\r").rpartition("\r")[2]
        decoded = decoder.decode_line(_OTHER.sub("", line[:length]))
        decoded.expand_tabs(TAB)
        spans = list(_spans_of(decoded, style))
        if len(line) > length:
            more = MORE_CHARACTERS.format(count=len(line) - length)
            spans.append((more, "muted italic"))
        yield tuple(spans)


def _spans_of(line: Text, base: str) -> Iterator[Span]:
    """Yield a decoded line in the colour roles. Text without a colour has the `base` role."""
    end = 0
    for span in line.spans:
        yield from _cleaned(line.plain[end : span.start], base)
        yield from _cleaned(
            line.plain[span.start : span.end], _role_of(span.style, base)
        )
        end = span.end
    yield from _cleaned(line.plain[end:], base)


def _cleaned(text: str, style: str) -> Iterator[Span]:
    shown = clean(text)
    if shown:
        yield shown, style


@lru_cache(maxsize=1_024)
def _role_of(style: str | Style, base: str) -> str:
    """Convert an ANSI style to a colour role with attributes.

    The role is `text` for a colour that is not one of the first 16.
    """
    if isinstance(style, str):
        return base
    role = base
    if style.color is not None and not style.color.is_default:
        number = style.color.number
        role = "text" if number is None or number > 15 else _COLORS[number % 8]
    attributes = [name for name in _ATTRIBUTES if getattr(style, name)]
    return " ".join((role, *attributes))


PART: Final = 16
"""Maximum number of lines of a partly expanded body. The rows around the body stay visible."""
WHOLE: Final = 400
"""Maximum number of lines of a body that the chat shows."""
_LENGTH: Final = 300
"""Maximum number of characters per line of a partly expanded body."""
BESIDE: Final = 98
"""Minimum width, in cells, at which a diff is shown side by side.

A terminal with 140 columns leaves this width beside the side list.
"""
_ARGUMENT: Final = 8
"""Maximum number of lines shown per argument, except for file contents."""
_PLACE: Final = re.compile(r"([^\s:][^:]*):(\d+)(?=: )")
_TAIL_LINES: Final = 6
_TAIL_CHARACTERS: Final = 4_000
"""Maximum number of lines and characters of output shown below a running command."""
_CONTENT: Final = ("content", "contents", "file_text")
"""Names that different agents use for the argument of a write tool that holds the content."""


class Body(NamedTuple):
    """The body below a row."""

    block: Block
    more: bool
    """Whether the chat can show more of the body."""


def call_body(
    key: Key,
    call: ToolCallPart,
    result: ToolResultMessage | None,
    projection: Projection,
    *,
    most: int,
    further: str,
) -> Body:
    """Draw the body of a call, with at most about `most` lines.

    `further` is the hint on how to show the remaining lines.
    """
    changed = _changed(call, result)
    if changed:
        diff_lines = [_short(line) for line in changed[:most]]
        more = len(changed) - most
        if more > 0:
            diff_lines.append(DiffLine("skip", 0, more_words(more, further)))
        diff = "" if result is None else result.details.diff or ""
        path = path_in(diff) or subject_of(call).text
        return Body(DiffBlock(key, tuple(diff_lines), path, BESIDE), more > 0)
    parts: list[Block] = []
    arguments = tuple(_argument_lines(call))
    if arguments:
        parts.append(LinesBlock(key, arguments))
    has_more = False
    if result is not None:
        style = "alert" if result.is_error and not _command(call) else "muted"
        length = LINE_LENGTH if most > PART else _LENGTH
        output = output_lines(result.text, most, style, length=length)
        has_more = output.more > 0 or output.short
        lines = output.lines
        if call.name == "search":
            lines = tuple(map(_with_file_link, lines))
        pictures = _picture_names(result)
        if output.more > 0:
            lines = (*lines, ((more_words(output.more, further), "muted italic"),))
        gap = int(bool(parts) and not _command(call))
        if lines or not pictures:
            parts.append(
                LinesBlock(key, lines or (((NO_OUTPUT, "muted italic"),),), gap=gap)
            )
        parts += pictures
        if result.details.full_output:
            file = FULL_OUTPUT.format(file=clean_line(result.details.full_output))
            parts.append(TextBlock(key, file, "muted italic"))
    parts = parts or [TextBlock(key, "(no arguments)", "muted italic")]
    return Body(StackBlock(key, tuple(parts)), has_more)


def _with_file_link(line: Spans) -> Spans:
    """Link the `PATH:LINE` at the start of a search result to the file."""
    if not line:
        return line
    (text, style), *others = line
    match = _PLACE.match(text)
    if match is None:
        return line
    link = (match[0], to_file(match[1], style, match[2]))
    return (link, (text[match.end() :], style), *others)


def live_tail(key: Key, output: str) -> Block | None:
    """Return the last lines of a running command's output.

    Returns None if there is no output.
    """
    lines = clean(as_printed(output)).rstrip().splitlines()[-_TAIL_LINES:]
    return TextBlock(key, "\n".join(lines), "muted", prose=False) if lines else None


def as_printed(output: str) -> str:
    """Return the last part of a running command's output, as a terminal would show it."""
    return plain_output(output[-_TAIL_CHARACTERS:])


def plain_output(text: str) -> str:
    """Return an output's text without control sequences and overwritten text."""
    return printed(text.encode("utf-8", "replace"))


def _changed(
    call: ToolCallPart, result: ToolResultMessage | None
) -> tuple[DiffLine, ...]:
    """Return the diff made by an edit or write, or an empty tuple.

    The diff is taken from the call's result or, if there is none, made from the call's arguments. An edit's
    arguments do not contain the line numbers.
    """
    if result is not None and result.details.diff:
        return tuple(lines_of_diff(result.details.diff))
    if result is not None and result.is_error:
        return ()
    arguments = call.parsed()
    old = _first(arguments, OLD_ARGUMENTS)
    new = _first(arguments, NEW_ARGUMENTS)
    if old is not None and new is not None:
        if old.count("\n") + new.count("\n") > WHOLE:
            return ()
        diff = unified_diff(old, new, "").text
        return tuple(replace(line, number=0, before=0) for line in lines_of_diff(diff))
    if call.name.lower() not in ("write", "create"):
        return ()
    content = _first(arguments, _CONTENT)
    if content is None:
        return ()
    lines = content.rstrip("\n").split("\n")
    return tuple(
        DiffLine("new", at, clean_code(line)) for at, line in enumerate(lines, 1)
    )


def is_short_diff(result: ToolResultMessage) -> bool:
    """Whether a result is a diff short enough to be expanded from the start."""
    diff = result.details.diff
    if not diff or diff.count("\n") > SHORT + 3:
        return False
    return len(tuple(lines_of_diff(diff))) <= SHORT


def _short(line: DiffLine) -> DiffLine:
    more = len(line.content) - LINE_LENGTH
    if more <= 0:
        return line
    note = MORE_CHARACTERS.format(count=more)
    return replace(line, content=f"{line.content[:LINE_LENGTH]} {note}")


def _first(arguments: dict[str, object], names: Collection[str]) -> str | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
    return None


def _command(call: ToolCallPart) -> str:
    """Return the entire shell command of a call, or an empty string."""
    command = call.parsed().get("command")
    return command if isinstance(command, str) else ""


def _argument_lines(call: ToolCallPart) -> Iterator[Spans]:
    """Yield the lines of a call's arguments.

    A command is shown as it was typed. Other arguments are shown with their names. Invalid JSON is shown
    unchanged.
    """
    arguments = call.parsed()
    if not arguments and call.arguments.strip() not in ("", "{}"):
        yield from output_lines(call.arguments, _ARGUMENT, "text").lines
    command = _command(call)
    if command:
        first, *others = clean(command).rstrip("\n").split("\n")
        yield (("$ ", "accent"), (first, "text"))
        yield from ((("  ", "accent"), (line, "text")) for line in others)
    for name, value in arguments.items():
        if name == "command" and command:
            continue
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        yield from _named_argument(name, text)


def _named_argument(name: str, text: str) -> Iterator[Spans]:
    lines, more, _ = output_lines(text, _ARGUMENT, "text", json_in_lines=False)
    head = (f"{clean_line(name)}: ", "muted")
    yield (head, *lines[0]) if lines else (head,)
    yield from ((("  ", "text"), *line) for line in lines[1:])
    if more:
        yield ((f"  … {more:,} more lines", "muted italic"),)


def _picture_names(result: ToolResultMessage) -> list[Block]:
    """Return a line for each image in a result, which says how to show the image."""
    return [
        TextBlock(
            (result.index, 0), PICTURE.format(kind=_kind(part), key=key_name("picture"))
        )
        for part in result.parts
        if isinstance(part, ImagePart)
    ]


def _kind(part: ImagePart) -> str:
    """Return the type of an image and its size in pixels: `png 640×480`."""
    width, height = pixels_of(part)
    kind = clean_line(part.media_type.removeprefix("image/"))
    return f"{kind} {width}×{height}" if width and height else kind
