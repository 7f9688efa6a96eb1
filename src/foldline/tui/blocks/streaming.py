"""An answer that is still coming, as blocks: what is finished stays, only the open tail is drawn again."""

from typing import NamedTuple

from foldline.tui.blocks.cutter import Cutter
from foldline.tui.blocks.markdown import MarkdownBlock, block_of
from foldline.tui.blocks.pieces import Piece


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
