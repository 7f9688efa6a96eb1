"""Draws Markdown responses, complete or streamed, as blocks of about one screen.

A block is parsed into lines of styled text when it is drawn. HTML is not interpreted but shown as text.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from textual.strip import Strip

from foldline.text.harmless import clean_line
from foldline.tui.blocks.block import MIN_WIDTH, PROSE, Block, Key
from foldline.tui.blocks.code import highlighted, highlighted_part
from foldline.tui.blocks.cutter import (
    Code,
    Content,
    Cutter,
    MarkdownPiece,
    Prose,
    TableRows,
    pieces,
)
from foldline.tui.look.cells import (
    Span,
    chop_spans,
    estimated_lines,
    text_of,
    to_strip,
    width_of,
    wrap_spans,
)
from foldline.tui.look.links import linked
from foldline.tui.look.styles import Styles

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode


Line = list[Span]

_LEAST: Final = 8
"""Minimum width of nested content, in cells. On a narrower screen, the lines are cropped."""
_BULLETS: Final = "•◦▪"
_EMPHASIS: Final = {"inline": "", "strong": "bold", "em": "italic", "s": "strike"}
_BETWEEN: Final = 2
"""Number of cells between the columns of a table."""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # "reference" is disabled because link definitions would not be shown. Raw HTML stays text.
    return (
        MarkdownIt("commonmark", {"html": False})
        .enable(["table", "strikethrough"])
        .disable(["reference"])
    )


def prose_lines(
    source: str, width: int, *, start: int | None = None, ticks: bool = False
) -> list[Line]:
    """Draw Markdown as lines of styled text.

    Args:
        start: The number of the first item, if the source starts inside an ordered list.
        ticks: Whether inline code keeps its backticks, for terminals without colours.
    """
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(_parser().parse(source))
    return _Drawer(ticks, start).blocks(root.children, max(width, _LEAST), tight=False)


def table_rows_lines(content: TableRows, width: int, *, ticks: bool) -> list[Line]:
    """Draw a piece of a table.

    If the parser finds more than a table in it, draw it like any other Markdown.
    """
    from markdown_it.tree import SyntaxTreeNode

    source = "\n".join((*content.sample, *content.rows))
    root = SyntaxTreeNode(_parser().parse(source))
    if [node.type for node in root.children] != ["table"]:
        return prose_lines("\n".join(content.shown), width, ticks=ticks)
    rows, aligns = _Drawer(ticks, None).rows(root.children[0])
    sampled = len(content.sample) - 1  # without the delimiter row
    shown = rows[sampled:] if content.rows else rows
    widths = table_widths(rows[:sampled])
    return table_lines(shown, widths, aligns, width, head=not content.rows)


def code_lines(lines: Sequence[Sequence[Span]], width: int) -> list[Line]:
    """Draw code with a bar on its left.

    Long lines continue on the next line.
    """
    bar = ("▏ ", "muted deco")
    return [
        [bar, *part]
        for line in lines
        for part in chop_spans(line, max(width - 2, _LEAST))
    ]


def table_widths(rows: Sequence[Sequence[Sequence[Span]]]) -> list[int]:
    """Return the width of each column without wrapping, in cells."""
    columns = max((len(row) for row in rows), default=0)
    return [
        max((width_of(row[at]) for row in rows if at < len(row)), default=0)
        for at in range(columns)
    ]


def table_lines(
    rows: Sequence[Sequence[Sequence[Span]]],
    natural_widths: Sequence[int],
    aligns: Sequence[str],
    width: int,
    head: bool,
) -> list[Line]:
    """Draw table rows, wrapping the cells in wide columns.

    If `head` is set, the first row is the header row, and a rule is drawn below it.
    """
    widths = _fitted(natural_widths, width - _BETWEEN * (len(natural_widths) - 1))
    lines: list[Line] = []
    for number, row in enumerate(rows):
        cells = [
            wrap_spans(list(row[at]) if at < len(row) else [], wide)
            for at, wide in enumerate(widths)
        ]
        for at in range(max((len(cell) for cell in cells), default=0)):
            line: Line = []
            for column, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
                part = cell[at] if at < len(cell) else []
                free = max(wide - width_of(part), 0)
                align = aligns[column] if column < len(aligns) else "left"
                padding = {"right": free, "center": free // 2}.get(align, 0)
                between = _BETWEEN if column else 0
                line += [
                    (" " * (between + padding), ""),
                    *part,
                    (" " * (free - padding), ""),
                ]
            lines.append(line)
        if head and number == 0:
            rule = (" " * _BETWEEN).join("─" * wide for wide in widths)
            lines.append([(rule, "muted deco")])
    return lines


def _fitted(natural_widths: Sequence[int], width: int) -> list[int]:
    """Narrow the widest columns until all columns fit into `width` cells.

    No column becomes narrower than 3 cells.
    """
    natural_widths = [max(wide, 1) for wide in natural_widths]
    if sum(natural_widths) <= width:
        return natural_widths
    caps = range(4, max(natural_widths) + 1)
    # The largest cap on the widths of columns at which all columns fit.
    cap = 3 + bisect_right(
        caps, width, key=lambda cap: sum(min(wide, cap) for wide in natural_widths)
    )
    widths = [min(wide, cap) for wide in natural_widths]
    spare = width - sum(widths)
    for at, wide in enumerate(natural_widths):
        if spare > 0 and wide > widths[at]:
            widths[at] += 1
            spare -= 1
    return widths


class _Drawer:
    """Draws parsed Markdown.

    `number` is the number of the first item in the first ordered list.
    """

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
        """Draw blocks one below the other.

        If `in_item` is set, nested lists have no gap above them.
        """
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
                return self._wrapped(
                    node, "bold underline" if node.tag == "h1" else "bold", width
                )
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth)
            case "blockquote":
                inner = self.blocks(
                    node.children,
                    width - 2,
                    tight=False,
                    depth=depth,
                )
                return [
                    [
                        ("▎ ", "muted deco"),
                        *((text, f"{style} muted") for text, style in line),
                    ]
                    for line in inner
                ]
            case "fence" | "code_block":
                source = [
                    clean_line(line)
                    for line in node.content.removesuffix("\n").split("\n")
                ]
                return code_lines(highlighted(source, node.info.split(" ")[0]), width)
            case "hr":
                return [[("─" * width, "muted deco")]]
            case "table":
                rows, aligns = self.rows(node)
                return table_lines(rows, table_widths(rows), aligns, width, head=True)
            case _:
                return [
                    [(clean_line(line), "text")] for line in node.content.split("\n")
                ]

    def _wrapped(self, node: "SyntaxTreeNode", style: str, width: int) -> list[Line]:
        return wrap_spans(self.inside(node, style), width)

    def _list(self, node: "SyntaxTreeNode", width: int, depth: int) -> list[Line]:
        tight = all(
            child.hidden
            for item in node.children
            for child in item.children
            if child.type == "paragraph"
        )
        number = (
            int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        )
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
            inner = self.blocks(
                item.children,
                width - wide,
                tight,
                depth + 1,
                in_item=True,
            ) or [[]]
            margin = (" " * wide, "deco")
            lines.append([(f"{sign:>{wide}}", "muted"), *inner[0]])
            lines += [[margin, *line] if line else [] for line in inner[1:]]
        return lines

    def rows(self, table: "SyntaxTreeNode") -> tuple[list[list[list[Span]]], list[str]]:
        """Return the cells of a table, and the alignment of each column."""
        rows: list[list[list[Span]]] = []
        aligns: list[str] = []
        for part in table.children:
            for row in part.children:
                style = "bold" if part.type == "thead" else "text"
                rows.append([self.inside(cell, style) for cell in row.children])
                aligns = aligns or [
                    str(cell.attrs.get("style", "")).removeprefix("text-align:")
                    for cell in row.children
                ]
        return rows, aligns

    def inside(self, node: "SyntaxTreeNode", style: str) -> list[Span]:
        """Draw the content of a node as styled text. `\n` stands for a hard break."""
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
                return [
                    *spans,
                    (" (", "muted"),
                    *linked(target, "muted"),
                    (")", "muted"),
                ]
            case "image":
                title = clean_line(node.content) or clean_line(
                    str(node.attrs.get("src", ""))
                )
                return [(f"[image: {title}]", "muted")]
            case "code_inline":
                code = clean_line(node.content)
                return [(f"`{code}`" if self._ticks else code, f"{style} code")]
            case "softbreak":
                return [(" ", style)]
            case "hardbreak":
                return [("\n", style)]
            case _:
                # Clean again: entities like &#x202e; create characters that the source does not contain.
                return linked(clean_line(node.content), style) if node.content else []


@dataclass(frozen=True, slots=True, eq=False)
class MarkdownBlock(Block):
    """A piece of Markdown that is parsed and highlighted when it is drawn."""

    content: Content
    indent: int = field(default=0, kw_only=True)
    """Indent in cells."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        margin = (" " * self.indent, "deco")
        inner = max(width - self.indent, MIN_WIDTH)
        return [
            to_strip([margin, *line], styles)
            for line in self.lines(inner, styles.no_color)
        ] or [Strip.blank(0)]

    def lines(self, width: int, ticks: bool) -> list[Line]:
        """Draw the lines as styled text, without the indent.

        `ticks` has the same meaning as in `prose_lines`.
        """
        match self.content:
            case Prose(source, number):
                return prose_lines(
                    source,
                    min(width, PROSE),
                    start=number,
                    ticks=ticks,
                )
            case Code(fence, start, stop):
                lines = highlighted_part(fence.source, start, stop, fence.language)
                return code_lines(lines, width)
            case TableRows() as rows:
                return table_rows_lines(rows, width, ticks=ticks)

    def estimate(self, width: int) -> int:
        match self.content:
            case Prose(source):
                return estimated_lines(source, min(width - self.indent, PROSE))
            case Code(_, start, stop):
                return stop - start
            case TableRows(shown=rows):
                return len(rows)

    def text(self) -> str:
        match self.content:
            case Prose(source):
                return source
            case Code(fence, start, stop):
                return "\n".join(fence.source[start:stop])
            case TableRows(shown=rows):
                return "\n".join(rows)


def markdown_blocks(
    text: str, entry_index: int, first_piece: int = 0, *, indent: int = 0, gap: int = 1
) -> list[MarkdownBlock]:
    """Convert a complete response to blocks.

    The blocks have the keys (entry_index, first_piece), (entry_index, first_piece + 1) … `gap` is the number
    of blank lines above the first block. The text need not be sanitised, because that is done here.
    """
    return [
        block_of(
            piece,
            (entry_index, first_piece + number),
            indent,
            gap if number == 0 else 0,
        )
        for number, piece in enumerate(pieces(text))
    ]


def agreement_lines(text: str, width: int) -> list[Line]:
    """Draw Markdown that the user has to approve.

    Returns an empty list if any letter or digit of the source would not be visible, for example in an image's
    address or a link's title. In that case, the caller shows the source.
    """
    lines: list[Line] = []
    for block in markdown_blocks(text, 0, gap=0):
        margin: Span = (" " * block.indent, "deco")
        lines += [[]] * block.gap
        if (
            isinstance(block.content, Code)
            and not block.content.start
            and block.content.fence.language
        ):
            lines.append([margin, (block.content.fence.language, "muted")])
        lines += [
            [margin, *line]
            for line in block.lines(max(width - block.indent, MIN_WIDTH), ticks=True)
        ]
    shown = "".join(
        part for line in lines for part, style in line if "deco" not in style
    )
    return [] if _letters(text) - _letters(shown) else lines


def _letters(text: str) -> Counter[str]:
    """Count each letter and digit of a text, ignoring case."""
    return Counter(filter(str.isalnum, text.casefold()))


def block_of(piece: MarkdownPiece, key: Key, indent: int, gap: int) -> MarkdownBlock:
    """Convert a piece to a block.

    If the piece itself has no gap, `gap` is the number of blank lines above the block.
    """
    return MarkdownBlock(
        key,
        piece.content,
        indent=indent + piece.indent,
        gap=int(piece.gap) or gap,
    )


class StreamingMarkdown:
    """Converts the deltas of one response to blocks.

    The final blocks are the same as those returned by `markdown_blocks`. Show the changed blocks with
    `view.replace_from(blocks[0].key, blocks)`.
    """

    def __init__(
        self,
        entry_index: int,
        first_piece: int = 0,
        *,
        indent: int = 0,
        gap: int = 1,
    ) -> None:
        self._entry = entry_index
        self._first = first_piece
        self._indent = indent
        self._gap = gap
        self._cutter = Cutter()
        self._finished = 0
        """Number of finished blocks."""
        self._open: list[MarkdownBlock] = []
        """The blocks of the unfinished last part, usually one."""

    def feed(self, delta: str) -> list[MarkdownBlock]:
        """Add text, and return the changed blocks.

        The time depends on the length of the unfinished last part, not of the entire response.
        """
        return self._changed(self._cutter.feed(delta), self._cutter.open())

    def finish(self) -> list[MarkdownBlock]:
        """End the response, and return its last blocks."""
        return self._changed(self._cutter.close(), [])

    def _changed(
        self, finished: list[MarkdownPiece], unfinished: list[MarkdownPiece]
    ) -> list[MarkdownBlock]:
        """Return the changed blocks, without those at the start that are already shown."""
        shown = self._open
        blocks = [
            self._block(at, piece) for at, piece in enumerate([*finished, *unfinished])
        ]
        self._finished += len(finished)
        self._open = blocks[len(finished) :]
        same = 0
        while same < min(len(blocks), len(shown)) and blocks[same] is shown[same]:
            same += 1
        if same == len(blocks) < len(shown):
            same = max(same - 1, 0)  # so that the blocks after it are removed
        return blocks[same:]

    def _block(self, at: int, piece: MarkdownPiece) -> MarkdownBlock:
        """Convert the piece at this position after the finished blocks.

        If the piece has not changed, its previous block is returned.
        """
        number = self._finished + at
        gap = 0 if number else self._gap
        block = block_of(piece, (self._entry, self._first + number), self._indent, gap)
        if at < len(self._open):
            before = self._open[at]
            if (before.content, before.indent, before.gap) == (
                block.content,
                block.indent,
                block.gap,
            ):
                return before
        return block
