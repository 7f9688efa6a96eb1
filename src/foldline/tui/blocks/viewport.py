"""The visible part of a block list.

A position consists of the index of a block and a line number inside this block. Rows are derived from
positions. The top line stays in place when other blocks change. The view follows the end only while the end
is visible.
"""

from collections.abc import Sequence
from typing import Final

from foldline.tui.blocks.block import Block, BlockBatch, BlockList

LinePosition = tuple[int, int]
"""(index of a block, line number inside the block)."""

_NEAR: Final = 3
"""Maximum scroll distance, in screens, over which blocks are measured.

For longer distances, estimated heights are used.
"""


class Viewport:
    """The visible part of a block list, `height` rows high.

    Only visible blocks are measured.
    """

    def __init__(self, block_list: BlockList, follow: bool) -> None:
        self.block_list = block_list
        self.height = 0
        self._may_follow = follow
        self.follow = follow
        """Whether the view follows appended lines. True only while the last line is visible."""
        self.top: LinePosition = (0, 0)
        self.new_below = 0
        """The number of lines added at the end that have not been visible yet."""

    @property
    def position(self) -> int:
        """The line number of the top line, based on the estimated heights of the blocks above."""
        index, line = self.top
        return self.block_list.heights.offset(index) + line

    @property
    def virtual_height(self) -> int:
        """The total number of lines.

        If blocks have shrunk, this includes blank rows below the last line.
        """
        total, position = self.block_list.heights.total, self.position
        return max(total, position + self.height) if position else total

    # --- Scrolling ------------------------------------------------------------------------------------

    def scroll_by(self, lines: int) -> None:
        """Scroll down by this many lines, or up if the number is negative.

        The blocks that are passed are measured.
        """
        if not len(self.block_list):
            return
        index, line = self.top
        measure = self.block_list.measure
        line = min(line, measure(index) - 1) + lines
        while line < 0 and index > 0:
            index -= 1
            line += measure(index)
        line = max(line, 0)
        while index < len(self.block_list) - 1 and line >= measure(index):
            line -= measure(index)
            index += 1
        place = index, max(min(line, measure(index) - 1), 0)
        if lines > 0:
            place = max(min(place, self._end()), self.top)
        self._move(place)

    def scroll_to(self, line: int) -> None:
        """Scroll to a line.

        If the line is far away, estimated heights are used.
        """
        if not len(self.block_list):
            return
        if line <= 0:
            self._move((0, 0))
        elif line >= max(self.virtual_height - self.height, self.position + 1):
            self.to_end()
        elif abs(line - self.position) <= _NEAR * self.height:
            self.scroll_by(line - self.position)
        else:
            self._move(min(self.block_list.heights.locate(line), self._end()))

    def to_end(self) -> None:
        """Show the last line in the last row, and start following the end."""
        self._move(self._end())

    def fill(self) -> None:
        """Scroll back if there are blank rows below the last line."""
        if self.height and len(self.block_list):
            self._move(min(self.top, self._end()))

    def show(self, index: int, row: int = 0) -> None:
        """Show the first line of a block at `row`, if there are enough lines below."""
        self.top = (index, 0)
        self.scroll_by(-row)
        self.fill()

    def start_at(self, index: int) -> None:
        """Show the first line of a block in the first row once the view has a height."""
        self.top = (index, 0)
        self.follow = False

    # --- Changes to the blocks ------------------------------------------------------------------------

    def replace_all(self, blocks: Sequence[Block] | BlockBatch) -> None:
        """Replace all blocks.

        The top line stays in place. If its block is removed, the nearest remaining block takes its place.
        """
        index, line = self.top
        key = None
        if len(self.block_list):
            key = self.block_list[min(index, len(self.block_list) - 1)].key
        self.block_list.replace_all(blocks)
        self.top = (0, 0)
        if key is not None:
            is_kept = self.block_list.find(key) is not None
            self.top = (self.block_list.nearest(key) or 0, line if is_kept else 0)
        if self.follow:
            self.top = self._end() if self.height else (0, 0)
        self.new_below = 0
        self._settle()

    def splice(
        self,
        start: int,
        stop: int,
        blocks: Sequence[Block],
        follow: bool,
    ) -> None:
        """Replace the blocks from index `start` up to, but not including, `stop`.

        The top line stays in place, unless `follow` is set and the view is following the end.
        """
        index, line = self.top
        top_key = None
        if index < len(self.block_list):
            top_key = self.block_list[index].key
        is_at_end = stop == len(self.block_list)
        lines_before = self.block_list.heights.total
        self.block_list.splice(start, stop, blocks)
        if is_at_end:
            self.new_below += self.block_list.heights.total - lines_before
        new_index = self.block_list.find(top_key)
        if new_index is not None:
            self.top = (new_index, line)
        elif index >= start:  # the top block was removed
            self.top = (min(index, start + len(blocks)), 0)
        if follow and self.follow and self.height and len(self.block_list):
            self.top = max(self.top, self._end())
        self._settle()

    def resize(self, width: int, height: int) -> None:
        """Update the layout after a change of size or style.

        The top line stays in place, unless the view is following the end.
        """
        self.height = height
        self.block_list.relayout(width)
        if self.follow and len(self.block_list) and height:
            self.top = self._end()
        self._settle()

    # --- Positions ------------------------------------------------------------------------------------

    def _end(self) -> LinePosition:
        """Return the top position at which the last line is in the last row."""
        missing, index = self.height, len(self.block_list)
        while missing > 0 and index > 0:
            index -= 1
            missing -= self.block_list.measure(index)
        return (index, -missing) if missing <= 0 else (0, 0)

    def _move(self, place: LinePosition) -> None:
        self.top = place
        self._settle()

    def _settle(self) -> None:
        """Measure the visible blocks.

        Also updates `follow` and `new_below`.
        """
        if not len(self.block_list):
            self.top = (0, 0)
            return
        if self.height <= 0:
            return
        index, line = self.top
        index = min(index, len(self.block_list) - 1)
        line = max(min(line, self.block_list.measure(index) - 1), 0)
        self.top = (index, line)
        missing = self.height + line
        while missing > 0 and index < len(self.block_list):
            missing -= self.block_list.measure(index)
            index += 1
        self.follow = (
            self._may_follow and missing >= 0 and index == len(self.block_list)
        )
        lines_below = self.virtual_height - self.position - self.height
        self.new_below = max(min(self.new_below, lines_below), 0)
