"""Answers as blocks: Markdown in pieces of about a screen, parsed when they are drawn."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, Block, Key
from foldline.tui.blocks.cells import Span, estimated_lines, to_strip
from foldline.tui.blocks.cutter import pieces
from foldline.tui.blocks.pieces import Code, Content, Piece, Prose, Table, split_row
from foldline.tui.blocks.prose import Line, code_lines, inline_spans, prose_lines, table_lines, table_widths
from foldline.tui.blocks.styles import Styles


@dataclass(frozen=True, slots=True, eq=False)
class MarkdownBlock(Block):
    """One piece of Markdown, indented by `indent` cells. Knows its source; parsing and colouring wait until
    it is drawn."""

    content: Content
    indent: int = field(default=0, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        margin: Span = (" " * self.indent, "deco")
        inner = max(width - self.indent, MIN_WIDTH)
        return [to_strip([margin, *line], styles) for line in self._lines(inner, styles.no_color)] or [
            Strip.blank(0)
        ]

    def _lines(self, width: int, ticks: bool) -> list[Line]:
        match self.content:
            case Prose(source, number):
                return prose_lines(source, width, start=number, ticks=ticks)
            case Code(fence, start, stop):
                return code_lines(fence.lines(start, stop), width)
            case Table(sample, aligns, rows, head):
                wanted = table_widths(_parsed(sample, True, ticks))
                return table_lines(_parsed(rows, head, ticks), wanted, aligns, width, head)

    def estimate(self, width: int) -> int:
        match self.content:
            case Prose(source):
                return estimated_lines(source, width - self.indent)
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


def block_of(piece: Piece, key: Key, indent: int, gap: int) -> MarkdownBlock:
    """A piece as a block, with `gap` blank lines above it where it asks for none itself."""
    return MarkdownBlock(key, piece.content, indent=indent + piece.indent, gap=int(piece.gap) or gap)


def _parsed(rows: Iterable[str], head: bool, ticks: bool) -> list[list[list[Span]]]:
    return [
        [inline_spans(cell, "bold" if head and not at else "text", ticks=ticks) for cell in split_row(row)]
        for at, row in enumerate(rows)
    ]
