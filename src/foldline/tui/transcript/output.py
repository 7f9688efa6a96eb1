"""What a call was given, put out or changed, as lines below its row; cut where it is long.

Foreign text of any size: cleaned here, never raw. Colours of the output become the colour roles nearest to
them; everything else a terminal would act on is left out or becomes a sign.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple

from textual.strip import Strip

from foldline.agent.tools.files import change
from foldline.agent.tools.images import pixels_of
from foldline.agent.tools.text import printed, sized
from foldline.context.calls import subject_of
from foldline.context.facts import NEW_ARGUMENTS, OLD_ARGUMENTS
from foldline.context.harmless import TAB, clean, clean_code, clean_line
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.protocol import BaseMessage, ImagePart, ToolCallPart, ToolResultMessage
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.blocks.code import highlighted
from foldline.tui.blocks.diff import SHORT, DiffBlock, DiffLine, lines_of_diff, path_in
from foldline.tui.blocks.links import to_file
from foldline.tui.blocks.pictures import Picture, PicturesBlock
from foldline.tui.blocks.plain import LinesBlock, StackBlock, TextBlock
from foldline.tui.blocks.styles import Styles
from foldline.tui.transcript.panel import key_name

LINE_LENGTH: Final = 2_000
"""Characters of a line that are shown; the Inspector shows all."""
_MOST_JSON: Final = 200_000
"""Characters of a result up to which JSON is set in lines: a few milliseconds."""

_SGR: Final = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER: Final = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-ln-~]"  # CSI but SGR: cursor movement, erasing
    r"|\x1b\][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|\x1b[()][0-9A-Za-z]"  # character sets
)
_COLORS: Final = ("muted", "alert", "live", "altered", "folded", "accent", "accent", "text")
"""The roles nearest to black, red, green, yellow, blue, magenta, cyan and white."""
_ATTRIBUTES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_ENDED_BY: Final = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("reverse",),
    29: ("strike",),
}


@dataclass(frozen=True, slots=True, eq=False)
class OutputBlock(Block):
    """The first lines of an output, and how many more there are."""

    source: str
    most: int = 400
    style: str = "muted"

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return LinesBlock(self.key, self._lines()).render(width, styles)

    def estimate(self, width: int) -> int:
        return min(self.source.count("\n") + 1, self.most)

    def text(self) -> str:
        return LinesBlock(self.key, self._lines()).text()

    def _lines(self) -> tuple[Spans, ...]:
        lines, more, _ = output_lines(self.source, self.most, self.style)
        if not lines:
            return ((("(no output)", "muted"),),)
        if not more:
            return lines
        return (*lines, ((more_words(more, f"{key_name('inspect')} opens all"), "muted italic"),))


def more_words(count: int, rest: str) -> str:
    """`… 180 more lines, Enter opens`."""
    return f"… {many(count, 'more line')}, {rest}"


class Cut(NamedTuple):
    """The first lines of something, how many more there are, and whether one of the first was cut short."""

    lines: tuple[Spans, ...]
    more: int
    short: bool = False


def output_lines(
    text: str, most: int, style: str = "muted", *, length: int = LINE_LENGTH, json_in_lines: bool = True
) -> Cut:
    """The first `most` lines, `length` characters of each; JSON on one line is set in several."""
    pretty = _set_in_lines(text) if json_in_lines else None
    if pretty is not None:
        lines = pretty.split("\n")
        colored = highlighted([clean(line) for line in lines[:most]], "json")
        return Cut(tuple(map(tuple, colored)), max(len(lines) - most, 0))
    text = text.rstrip("\n")
    first = text.split("\n", most)
    rest = first.pop() if len(first) > most else ""
    shown = tuple(_drawn(first, style, length)) if text.strip() else ()
    return Cut(shown, rest.count("\n") + 1 if rest else 0, any(len(line) > length for line in first))


def _set_in_lines(text: str) -> str | None:
    """JSON that stands on one line as people read it; None for everything else."""
    text = text.strip()
    if text[:1] not in ("{", "[") or len(text) > _MOST_JSON or "\n" in text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, ensure_ascii=False, indent=2) if value else None


def _drawn(lines: list[str], style: str, length: int) -> Iterator[Spans]:
    """Lines with their colours; a colour lasts until the next one, over line ends too."""
    look = _Look(style)
    for line in lines:
        line = _last_state(line)
        over = len(line) - length
        spans = _colored(_OTHER.sub("", line[:length]), look)
        yield (*spans, (f"… {over:,} more characters", "muted italic")) if over > 0 else tuple(spans)


def plain_output(text: str) -> str:
    """The text of an output as it is shown: without colours, of what was written over only the last state."""
    return "\n".join(_SGR.sub("", _OTHER.sub("", _last_state(line))) for line in text.split("\n"))


def _last_state(line: str) -> str:
    return line.removesuffix("\r").rpartition("\r")[2]


def _colored(line: str, look: "_Look") -> list[Span]:
    if "\x1b" not in line:
        return [(part, look.style) for part in (clean(line),) if part]
    spans: list[Span] = []
    column = 0
    parts = _SGR.split(line)  # text, colours, text, colours …
    for at, part in enumerate(parts):
        if at % 2:
            look.change(part)
            continue
        while "\t" in part:
            before = part.index("\t")
            part = part.replace("\t", " " * (TAB - (column + before) % TAB), 1)
        if shown := clean(part):
            spans.append((shown, look.style))
        column += len(shown)
    return spans


class _Look:
    """The style that escape sequences have come to so far."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._color = ""
        self._attributes: tuple[str, ...] = ()

    @property
    def style(self) -> str:
        return " ".join((self._color or self._base, *self._attributes))

    def change(self, codes: str) -> None:
        """Take one sequence: `0`, `1;31`, `38;5;9` …"""
        numbers = iter([int(code or 0) for code in re.split("[;:]", codes)] if len(codes) < 64 else [])
        for number in numbers:
            if number == 0:
                self._color, self._attributes = "", ()
            elif number in _ATTRIBUTES:
                self._attributes = tuple(dict.fromkeys((*self._attributes, _ATTRIBUTES[number])))
            elif number in _ENDED_BY:
                self._attributes = tuple(a for a in self._attributes if a not in _ENDED_BY[number])
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self._color = _COLORS[number % 10]
            elif number == 39:
                self._color = ""
            elif number in (38, 48):
                color = _of_many(numbers)
                self._color = color if number == 38 else self._color


def _of_many(numbers: Iterator[int]) -> str:
    """The role of a colour of 256 or more; of all but the first sixteen only that there is one."""
    match next(numbers, 0):
        case 5:
            number = next(numbers, 0)
            return _COLORS[number % 8] if number < 16 else "text"
        case 2:
            for _ in range(3):
                next(numbers, 0)
            return "text"
        case _:
            return ""


PART: Final = 16
"""Lines of what is opened that are shown at first: a row, its body and the rows around fit on a screen."""
WHOLE: Final = 400
"""Lines of it that the chat shows at all."""
_LENGTH: Final = 300
"""Characters of a line that are shown at first."""
BESIDE: Final = 98
"""Cells from which the old lines of a diff stand beside the new ones: what 140 columns leave beside the side
list."""
_ARGUMENT: Final = 8
"""Lines of an argument that is no file."""
_PLACE: Final = re.compile(r"([^\s:][^:]*):(\d+)(?=: )")
_TAIL, _TAIL_KEPT = 6, 4_000
"""Lines, and characters they are looked for in, below a command that still runs."""
_CONTENT: Final = ("content", "contents", "file_text")
"""What agents call what a write writes."""


class Body(NamedTuple):
    """What stands below a row, and whether there is more that the chat can show."""

    block: Block
    more: bool


def call_body(
    key: Key,
    call: ToolCallPart,
    result: ToolResultMessage | None,
    projection: Projection,
    *,
    most: int,
    further: str,
) -> Body:
    """The body of a call, at most about `most` lines; `further` says what shows the rest, in words."""
    changed = _changed(call, result)
    if changed:
        more = len(changed) - most
        rest = (DiffLine("skip", 0, more_words(more, further)),) if more > 0 else ()
        path = path_in((result and result.details.diff) or "") or subject_of(call).text
        return Body(DiffBlock(key, (*map(_short, changed[:most]), *rest), path, BESIDE), more > 0)
    parts: list[Block] = [LinesBlock(key, given)] if (given := tuple(_given(call))) else []
    more, short = 0, False
    if result is not None:
        style = "alert" if result.is_error and not _command(call) else "muted"
        length = LINE_LENGTH if most > PART else _LENGTH
        lines, more, short = output_lines(result.text, most, style, length=length)
        if call.name == "search":
            lines = tuple(map(_located, lines))
        pictures = pictures_of(result, projection, words=True)
        if more > 0:
            lines = (*lines, ((more_words(more, further), "muted italic"),))
        gap = int(bool(parts) and not _command(call))
        if lines or not pictures:
            parts.append(LinesBlock(key, lines or ((("(no output)", "muted italic"),),), gap=gap))
        if pictures:
            parts.append(PicturesBlock(key, pictures, gap=0 if lines else gap))
        if result.details.full_output:
            whole = clean_line(f"whole output: {result.details.full_output}")
            parts.append(TextBlock(key, whole, "muted italic"))
    parts = parts or [TextBlock(key, "no arguments", "muted italic")]
    return Body(StackBlock(key, tuple(parts)), more > 0 or short)


def _located(line: Spans) -> Spans:
    """A line of a search, its `PATH:LINE` linked to the file."""
    found = _PLACE.match(line[0][0]) if line else None
    if found is None:
        return line
    (text, style), *rest = line
    return ((found[0], to_file(found[1], style, found[2])), (text[found.end() :], style), *rest)


def live_tail(key: Key, output: str) -> Block | None:
    """The last lines of a command that still runs, as a terminal would show them."""
    lines = clean(as_printed(output)).rstrip().splitlines()[-_TAIL:]
    return TextBlock(key, "\n".join(lines), "muted", prose=False) if lines else None


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
    old, new = _first(arguments, OLD_ARGUMENTS), _first(arguments, NEW_ARGUMENTS)
    if old is not None and new is not None:
        if old.count("\n") + new.count("\n") > WHOLE:
            return ()
        return tuple(replace(line, number=0, before=0) for line in lines_of_diff(change(old, new, "").diff))
    content = _first(arguments, _CONTENT) if call.name.lower() in ("write", "create") else None
    if content is None:
        return ()
    lines = content.rstrip("\n").split("\n")
    return tuple(DiffLine("new", at, clean_code(line)) for at, line in enumerate(lines, 1))


def opens_by_itself(result: ToolResultMessage) -> bool:
    """Whether it changed so few lines that they are seen without asking."""
    diff = result.details.diff or ""
    return bool(diff) and diff.count("\n") <= SHORT + 3 and len(tuple(lines_of_diff(diff))) <= SHORT


def _short(line: DiffLine) -> DiffLine:
    over = len(line.content) - LINE_LENGTH
    if over <= 0:
        return line
    return replace(line, content=f"{line.content[:LINE_LENGTH]} … {over:,} more characters")


def _first(arguments: dict[str, object], names: Collection[str]) -> str | None:
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


def pictures_of(
    message: BaseMessage, projection: Projection, names: Sequence[str] = (), *, words: bool = False
) -> tuple[Picture, ...]:
    """The pictures of a message. `names` are how the first of them are called; with
    `words`, it is said where one is not shown."""
    parts = [(at, part) for at, part in enumerate(message.parts) if isinstance(part, ImagePart)]
    pictures: list[Picture] = []
    for (at, part), name in zip_longest(parts, names[: len(parts)]):
        width, height = pixels_of(part)
        size = f" {width}×{height}" if width and height else ""
        kind = clean_line(part.media_type.removeprefix("image/")) + size
        said = f"[picture {kind}, {key_name('picture')} shows it]" if words else ""
        caption = f"{clean_line(name or kind)} · {sized(len(part.data) * 3 // 4)}"
        load = partial(_part, projection, message.index, at)
        pictures.append(Picture(hash(part.data), load, (width, height), caption, said))
    return tuple(pictures)


def _part(projection: Projection, index: int, number: int) -> ImagePart | None:
    """A part of a message as it is on disk now, where it is a picture."""
    entry = projection.entry(index)
    part = entry.parts[number] if isinstance(entry, BaseMessage) and number < len(entry.parts) else None
    return part if isinstance(part, ImagePart) else None
