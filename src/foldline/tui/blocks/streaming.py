"""An answer that is still coming, as blocks: what is finished stays, only the open tail is drawn again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from textual.strip import Strip

from foldline.tui.blocks.block import MIN_WIDTH, Block
from foldline.tui.blocks.cells import Spans, to_strip, wrap_spans
from foldline.tui.blocks.cutter import Cutter
from foldline.tui.blocks.markdown import MarkdownBlock, block_of
from foldline.tui.blocks.pieces import Piece
from foldline.tui.blocks.styles import Styles


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


@dataclass(frozen=True, slots=True, eq=False)
class LinesBlock(Block):
    """Lines of styled text, one below the other; what is too long is wrapped. Their text must be clean."""

    lines: tuple[Spans, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        inner = max(width, MIN_WIDTH)
        return [to_strip(part, styles) for line in self.lines for part in wrap_spans(line, inner)]

    def estimate(self, width: int) -> int:
        return sum(1 + sum(len(text) for text, _ in line) // max(width, MIN_WIDTH) for line in self.lines)

    def text(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in self.lines)


@dataclass(frozen=True, slots=True, eq=False)
class LaterBlock(Block):
    """A block that holds nothing but the way to make another, and about how many lines that has."""

    make: Callable[[], Block]
    lines: int

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return self.make().render(width, styles)

    def estimate(self, width: int) -> int:
        return self.lines

    def text(self) -> str:
        return self.make().text()


@dataclass(frozen=True, slots=True, eq=False)
class StackBlock(Block):
    """Its parts in order, each with its gap above it; the gap of the first is the stack's own business."""

    parts: tuple[Block, ...]

    def render(self, width: int, styles: Styles) -> list[Strip]:
        strips: list[Strip] = []
        for at, part in enumerate(self.parts):
            strips += [Strip.blank(0)] * (part.gap if at else 0)
            strips += part.render(width, styles)
        return strips

    def estimate(self, width: int) -> int:
        return sum(part.estimate(width) + (part.gap if at else 0) for at, part in enumerate(self.parts))

    def text(self) -> str:
        return "\n".join(part.text() for part in self.parts)
