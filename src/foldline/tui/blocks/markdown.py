"""Answers as blocks: Markdown in pieces of about a screen, parsed when they are drawn, whole or still coming.

Drawn as lines of styled text: paragraphs, headings, lists, quotes, tables. No HTML.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.strip import Strip

from foldline.context.harmless import clean_line
from foldline.tui.blocks.block import MIN_WIDTH, PROSE, Block, Key
from foldline.tui.blocks.cells import (
    Span,
    chop_spans,
    estimated_lines,
    text_of,
    to_strip,
    width_of,
    wrap_spans,
)
from foldline.tui.blocks.code import highlighted
from foldline.tui.blocks.cutter import Code, Content, Cutter, Piece, Prose, Table, pieces, split_row
from foldline.tui.blocks.links import linked
from foldline.tui.blocks.styles import Styles

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode


Line = list[Span]

_LEAST: Final = 8
"""Deeper nesting than fits is drawn at this width and cropped."""
_BULLETS: Final = "•◦▪"
_EMPHASIS: Final = {"inline": "", "strong": "bold", "em": "italic", "s": "strike"}
_BETWEEN: Final = 2
"""Cells between the columns of a table."""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Reference definitions would vanish from the screen; raw HTML stays text.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["reference"])


def prose_lines(source: str, width: int, *, start: int | None = None, ticks: bool = False) -> list[Line]:
    """Markdown as lines. `start` overrides the number of the first item where the source is an ordered list;
    with `ticks`, inline code keeps its backticks (no colour to tell it by)."""
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(_parser().parse(source))
    return _Drawer(ticks, start).blocks(root.children, max(width, _LEAST), tight=False)


def inline_spans(source: str, style: str = "text", *, ticks: bool = False) -> list[Span]:
    """One line of inline Markdown, such as a table's cell, as styled text."""
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(_parser().parseInline(source))
    return _Drawer(ticks, None).inside(root, style)


def code_lines(lines: Sequence[Sequence[Span]], width: int) -> list[Line]:
    """Code lines behind a bar; what is too long continues below."""
    bar = ("▏ ", "muted deco")
    return [[bar, *part] for line in lines for part in chop_spans(line, max(width - 2, _LEAST))]


def table_widths(rows: Sequence[Sequence[Sequence[Span]]]) -> list[int]:
    """The width each column would like to have."""
    columns = max((len(row) for row in rows), default=0)
    return [max((width_of(row[at]) for row in rows if at < len(row)), default=0) for at in range(columns)]


def table_lines(
    rows: Sequence[Sequence[Sequence[Span]]],
    wanted: Sequence[int],
    aligns: Sequence[str],
    width: int,
    head: bool,
) -> list[Line]:
    """Rows of a table; with `head` the first is set off by rules. Columns too wide are wrapped."""
    widths = _fitted(wanted, width - _BETWEEN * (len(wanted) - 1))
    lines: list[Line] = []
    for number, row in enumerate(rows):
        cells = [wrap_spans(list(row[at]) if at < len(row) else [], wide) for at, wide in enumerate(widths)]
        for at in range(max((len(cell) for cell in cells), default=0)):
            line: Line = []
            for column, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
                part = cell[at] if at < len(cell) else []
                free = max(wide - width_of(part), 0)
                align = aligns[column] if column < len(aligns) else "left"
                left = free if align == "right" else free // 2 if align == "center" else 0
                between = _BETWEEN if column else 0
                line += [(" " * (between + left), ""), *part, (" " * (free - left), "")]
            lines.append(line)
        if head and number == 0:
            rule = (" " * _BETWEEN).join("─" * wide for wide in widths)
            lines.append([(rule, "muted deco")])
    return lines


def _fitted(wanted: Sequence[int], width: int) -> list[int]:
    """Column widths in at most `width` cells: the widest give way first, none below 3."""
    wanted = [max(wide, 1) for wide in wanted]
    if sum(wanted) <= width:
        return wanted
    caps = range(4, max(wanted) + 1)
    # The largest cap with which all columns fit.
    cap = 3 + bisect_right(caps, width, key=lambda cap: sum(min(wide, cap) for wide in wanted))
    widths = [min(wide, cap) for wide in wanted]
    spare = width - sum(widths)
    for at, wide in enumerate(wanted):
        if spare > 0 and wide > widths[at]:
            widths[at] += 1
            spare -= 1
    return widths


class _Drawer:
    """Draws parsed Markdown; `number` is taken by the first ordered list."""

    def __init__(self, ticks: bool, number: int | None) -> None:
        self._ticks = ticks
        self._number = number

    def blocks(
        self,
        nodes: Sequence["SyntaxTreeNode"],
        width: int,
        tight: bool,
        depth: int = 0,
        *,
        in_item: bool = False,
    ) -> list[Line]:
        """Blocks below each other. In an item a nested list follows without a gap, even in a loose list."""
        lines: list[Line] = []
        for node in nodes:
            if lines and not tight and not (in_item and node.type.endswith("_list")):
                lines.append([])
            lines += self._block(node, max(width, _LEAST), depth)
        return lines

    def _block(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        match node.type:
            case "paragraph":
                return self._wrapped(node, "text", width)
            case "heading":
                return self._wrapped(node, "bold underline" if node.tag == "h1" else "bold", width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth)
            case "blockquote":
                inner = self.blocks(node.children, width - 2, tight=False, depth=depth)
                return [
                    [("▎ ", "muted deco"), *((text, f"{style} muted") for text, style in line)]
                    for line in inner
                ]
            case "fence" | "code_block":
                source = [clean_line(line) for line in node.content.removesuffix("\n").split("\n")]
                return code_lines(highlighted(source, node.info.split(" ")[0]), width)
            case "hr":
                return [[("─" * width, "muted deco")]]
            case "table":
                return self._table(node, width)
            case _:
                return [[(clean_line(line), "text")] for line in node.content.split("\n")]

    def _wrapped(self, node: "SyntaxTreeNode", style: str, width: int) -> list[Line]:
        return wrap_spans(self.inside(node, style), width)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        tight = all(
            child.hidden for item in node.children for child in item.children if child.type == "paragraph"
        )
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        if number is not None and self._number is not None:
            number, self._number = self._number, None
        signs = [
            f"{_BULLETS[min(depth, 2)]} " if number is None else f"{number + at}. "
            for at in range(len(node.children))
        ]
        wide = max(map(len, signs), default=0)
        lines: list[Line] = []
        for sign, item in zip(signs, node.children, strict=True):
            if lines and not tight:
                lines.append([])
            inner = self.blocks(item.children, width - wide, tight, depth + 1, in_item=True) or [[]]
            lines += [
                [(f"{sign:>{wide}}", "muted") if at == 0 else (" " * wide, "deco"), *line]
                if line or at == 0
                else []
                for at, line in enumerate(inner)
            ]
        return lines

    def _table(self, node: "SyntaxTreeNode", width: int) -> list[Line]:
        rows: list[list[list[Span]]] = []
        aligns: list[str] = []
        for part in node.children:
            for row in part.children:
                style = "bold" if part.type == "thead" else "text"
                rows.append([self.inside(cell, style) for cell in row.children])
                aligns = aligns or [
                    str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in row.children
                ]
        return table_lines(rows, table_widths(rows), aligns, width, head=True)

    def inside(self, node: "SyntaxTreeNode", style: str) -> list[Span]:
        """What stands in a node, as styled text; `\\n` is a hard break."""
        return [span for child in node.children for span in self._inline(child, style)]

    def _inline(self, node: "SyntaxTreeNode", style: str) -> list[Span]:
        if node.type in _EMPHASIS:
            return self.inside(node, f"{style} {_EMPHASIS[node.type]}".strip())
        match node.type:
            case "link":
                spans = self.inside(node, f"{style} underline".strip())
                target = clean_line(str(node.attrs.get("href", "")))
                shown = text_of(spans)
                if target in (shown, f"mailto:{shown}"):
                    return spans
                return [*spans, (" (", "muted"), *linked(target, "muted"), (")", "muted")]
            case "image":
                return [
                    (
                        f"[image: {clean_line(node.content) or clean_line(str(node.attrs.get('src', '')))}]",
                        "muted",
                    )
                ]
            case "code_inline":
                code = clean_line(node.content)
                return [(f"`{code}`" if self._ticks else code, f"{style} code")]
            case "softbreak":
                return [(" ", style)]
            case "hardbreak":
                return [("\n", style)]
            case _:
                # Entities such as &#x202e; make characters that were not in the source.
                return linked(clean_line(node.content), style) if node.content else []


@dataclass(frozen=True, slots=True, eq=False)
class MarkdownBlock(Block):
    """One piece of Markdown, indented by `indent` cells. Knows its source; parsing and colouring wait until
    it is drawn."""

    content: Content
    indent: int = field(default=0, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        margin = (" " * self.indent, "deco")
        inner = max(width - self.indent, MIN_WIDTH)
        return [to_strip([margin, *line], styles) for line in self.lines(inner, styles.no_color)] or [
            Strip.blank(0)
        ]

    def lines(self, width: int, ticks: bool) -> list[Line]:
        """The lines of styled text, without the indent; for `ticks`, see `prose_lines`."""
        match self.content:
            case Prose(source, number):
                return prose_lines(source, min(width, PROSE), start=number, ticks=ticks)
            case Code(fence, start, stop):
                return code_lines(fence.lines(start, stop), width)
            case Table(sample, aligns, rows, head):
                wanted = table_widths(_parsed(sample, True, ticks))
                return table_lines(_parsed(rows, head, ticks), wanted, aligns, width, head)

    def estimate(self, width: int) -> int:
        match self.content:
            case Prose(source):
                return estimated_lines(source, min(width - self.indent, PROSE))
            case Code(_, start, stop):
                return stop - start
            case Table(_, _, rows, head):
                return len(rows) + head

    def text(self) -> str:
        match self.content:
            case Prose(source):
                return source
            case Code(fence, start, stop):
                return "\n".join(fence.source[start:stop])
            case Table(_, _, rows):
                return "\n".join(rows)


def markdown_blocks(
    text: str, entry_index: int, first_piece: int = 0, *, indent: int = 0, gap: int = 1
) -> list[MarkdownBlock]:
    """A whole answer as blocks with the keys (entry_index, first_piece), (entry_index, first_piece + 1) …

    `text` may be anything: it is cleaned here. `gap` is the number of blank lines above the first block.
    """
    return [
        block_of(piece, (entry_index, first_piece + number), indent, gap if number == 0 else 0)
        for number, piece in enumerate(pieces(text))
    ]


def agreement_lines(text: str, width: int) -> list[Line]:
    """Markdown as lines for somebody who is to agree to it.

    Empty if drawing it would hide a letter or digit, as it does with the address of a picture or the title of
    a link: then the source has to be shown.
    """
    lines: list[Line] = []
    for block in markdown_blocks(text, 0, gap=0):
        margin: Span = (" " * block.indent, "deco")
        lines += [[]] * block.gap
        if isinstance(block.content, Code) and not block.content.start and block.content.fence.language:
            lines.append([margin, (block.content.fence.language, "muted")])
        lines += [[margin, *line] for line in block.lines(max(width - block.indent, MIN_WIDTH), ticks=True)]
    shown = "".join(part for line in lines for part, style in line if "deco" not in style)
    return [] if _letters(text) - _letters(shown) else lines


def _letters(text: str) -> Counter[str]:
    """How often each letter and digit occurs."""
    return Counter(filter(str.isalnum, text.casefold()))


def block_of(piece: Piece, key: Key, indent: int, gap: int) -> MarkdownBlock:
    """A piece as a block, with `gap` blank lines above it where it asks for none itself."""
    return MarkdownBlock(key, piece.content, indent=indent + piece.indent, gap=int(piece.gap) or gap)


def _parsed(rows: Iterable[str], head: bool, ticks: bool) -> list[list[list[Span]]]:
    return [
        [inline_spans(cell, "bold" if head and not at else "text", ticks=ticks) for cell in split_row(row)]
        for at, row in enumerate(rows)
    ]


class Feed(NamedTuple):
    """What a delta changed; unless empty, `view.replace_from(feed.blocks[0].key, feed.blocks)` shows it."""

    finished: tuple[MarkdownBlock, ...]
    """Blocks that will not change again, with one exception: those of a fence in several pieces come once
    more, coloured as a whole, when it closes."""
    open: tuple[MarkdownBlock, ...]
    """The tail as far as it changed: mostly one block, replaced by the next feed."""

    @property
    def blocks(self) -> tuple[MarkdownBlock, ...]:
        return self.finished + self.open


class StreamingMarkdown:
    """Takes the deltas of one answer. After `finish()` its blocks are those of `markdown_blocks`."""

    def __init__(self, entry_index: int, first_piece: int = 0, *, indent: int = 0, gap: int = 1) -> None:
        self._entry = entry_index
        self._first = first_piece
        self._indent = indent
        self._gap = gap
        self._cutter = Cutter()
        self._tail: dict[int, tuple[Piece, MarkdownBlock]] = {}

    def feed(self, delta: str) -> Feed:
        """More text: what that finishes, and the new tail. Costs what the open tail costs, not the answer."""
        done = self._cutter.feed(delta)
        return self._changed(done, self._cutter.open())

    def finish(self) -> Feed:
        """The end of the answer (or of the patience): the tail is finished."""
        return self._changed(self._cutter.close(), {})

    def _changed(self, done: dict[int, Piece], tail: dict[int, Piece]) -> Feed:
        old, self._tail = self._tail, {}
        finished = [self._block(number, piece, old) for number, piece in done.items()]
        for number, piece in tail.items():
            self._tail[number] = (piece, self._block(number, piece, old))
        opened = [block for _, block in self._tail.values()]
        if not finished:  # what is drawn already need not be put there again
            while opened and len(opened) == len(old) and any(opened[0] is block for _, block in old.values()):
                opened.pop(0)
                old.pop(min(old))
        return Feed(tuple(finished), tuple(opened))

    def _block(self, number: int, piece: Piece, old: dict[int, tuple[Piece, MarkdownBlock]]) -> MarkdownBlock:
        """The block of a piece: the same object as before where nothing about it changed."""
        before = old.get(number)
        if before is not None and before[0] == piece:
            return before[1]
        return block_of(piece, (self._entry, self._first + number), self._indent, 0 if number else self._gap)
