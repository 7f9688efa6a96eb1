"""The lines of a sheet that are on screen. A place is (block, line inside); rows are derived from it.

Rule 1: the top line stays on its row whatever happens to other blocks. Rule 2: following is earned.
"""

from collections.abc import Sequence
from typing import Final

from foldline.tui.blocks.block import Block, BlockBatch, BlockList, Key, keys_from

Place = tuple[int, int]
"""(index of a block, line inside it)."""

_NEAR: Final = 3
"""Scrolling up to this many screens counts real lines; farther it goes by estimated heights."""


class Viewport:
    """A window of `height` rows on a sheet. Only what it shows is measured."""

    def __init__(self, sheet: BlockList, follow: bool) -> None:
        self.sheet = sheet
        self.height = 0
        self._may_follow = follow
        self.follow = follow
        """Whether the last line is kept visible: only while it is."""
        self.top: Place = (0, 0)
        self._seen: Place = (0, 0)  # the reader has seen everything above this line

    @property
    def position(self) -> int:
        """The line at the top, counted from the first of the sheet (above it: estimates)."""
        index, line = self.top
        return self.sheet.heights.offset(index) + line

    @property
    def virtual_height(self) -> int:
        """All lines, and blank ones below the last where something above it closed and the top line stays."""
        total, position = self.sheet.heights.total, self.position
        return max(total, position + self.height) if position else total

    @property
    def new_below(self) -> int:
        """Lines below that the reader has not seen yet."""
        return max(self.sheet.heights.total - self._line_of(self._seen), 0)

    # What the reader does.

    def scroll_by(self, lines: int) -> None:
        """Move the window by real lines."""
        if not len(self.sheet):
            return
        index, line = self.top
        measure = self.sheet.measure
        line = min(line, measure(index) - 1) + lines
        while line < 0 and index > 0:
            index -= 1
            line += measure(index)
        line = max(line, 0)
        while index < len(self.sheet) - 1 and line >= measure(index):
            line -= measure(index)
            index += 1
        place = index, max(min(line, measure(index) - 1), 0)
        if lines > 0:
            place = max(min(place, self._end()), self.top)
        self._move(place)

    def scroll_to(self, line: int) -> None:
        """Move the window to a line of the sheet: exactly where it is near, else by estimate."""
        if not len(self.sheet):
            return
        if line <= 0:
            self._move((0, 0))
        elif line >= max(self.virtual_height - self.height, self.position + 1):
            self.to_end()
        elif abs(line - self.position) <= _NEAR * self.height:
            self.scroll_by(line - self.position)
        else:
            self._move(min(self.sheet.heights.locate(line), self._end()))

    def to_end(self) -> None:
        """Show the last line in the last row, and follow from here on."""
        self._move(self._end())

    def fill(self) -> None:
        """Leave no row blank below the last line while there are lines above the top one."""
        if self.height and len(self.sheet):
            self._move(min(self.top, self._end()))

    def show(self, index: int, row: int = 0) -> None:
        """Bring the first line of a block into `row`, as far as there are lines below."""
        self.top = (index, 0)
        self.scroll_by(-row)
        self.fill()

    # What happens to the sheet.

    def replace_all(self, blocks: Sequence[Block] | BlockBatch) -> None:
        """Other blocks: the top line, or the nearest entry that is still there, keeps its row."""
        index, line = self.top
        old = self.sheet.replace_all(blocks)
        self.top = (0, 0)
        if old:
            at_top = old[min(index, len(old) - 1)].key
            key = next(self.sheet.those_here(keys_from(old, index)), None)
            found = self.sheet.nearest(at_top) if key is None else self.sheet.find(key)
            self.top = (found or 0, line if key == at_top else 0)
        if self.follow:
            self.top = self._end() if self.height else (0, 0)
        self._settle()
        self._seen = (len(self.sheet), 0)

    def splice(self, start: int, stop: int, blocks: Sequence[Block], follow: bool) -> None:
        """Replace blocks. With `follow`, and while following, the last line stays visible; else the top line
        stays where it is and what follows grows or shrinks below it."""
        self._seen = self._before(self._seen)
        top, seen = self._held(self.top), self._held(self._seen)
        self.sheet.splice(start, stop, blocks)
        self.top = self._moved(self.top, top, start, stop, len(blocks))
        self._seen = self._moved(self._seen, seen, start, stop, len(blocks))
        if follow and self.follow and self.height and len(self.sheet):
            self.top = max(self.top, self._end())
        self._settle()

    def resize(self, width: int, height: int) -> None:
        """Another size or look: the top line stays, or the last one where the view follows."""
        self._seen = self._after(self._seen)
        self.height = height
        self.sheet.relayout(width)
        if self.follow and len(self.sheet) and height:
            self.top = self._end()
        self._settle()

    # Places.

    def _held(self, place: Place) -> Key | None:
        index, _ = place
        return self.sheet[index].key if index < len(self.sheet) else None

    def _moved(self, place: Place, key: Key | None, start: int, stop: int, count: int) -> Place:
        """Where a place is after a splice: at the same block, or where the spliced blocks begin or end."""
        index, line = place
        if index >= stop:
            return index - (stop - start) + count, line
        if index < start:
            return place
        if key is not None and (found := self.sheet.find(key)) is not None:
            return found, line
        return min(index, start + count), 0

    def _line_of(self, place: Place) -> int:
        index, line = place
        heights = self.sheet.heights
        if index >= len(heights):
            return heights.total
        return heights.offset(index) + min(line, heights[index])

    def _after(self, place: Place) -> Place:
        """A place at the end of a block, as the start of the next: it survives another height."""
        index, line = place
        if index < len(self.sheet) and line >= self.sheet.heights[index]:
            return index + 1, 0
        return place

    def _before(self, place: Place) -> Place:
        """A place at the start of a block, as the end of the one before: it survives an insertion."""
        index, line = place
        return (index - 1, self.sheet.heights[index - 1]) if index and not line else place

    def _end(self) -> Place:
        """The top line that puts the last line into the last row."""
        missing, index = self.height, len(self.sheet)
        while missing > 0 and index > 0:
            index -= 1
            missing -= self.sheet.measure(index)
        return (index, -missing) if missing <= 0 else (0, 0)

    def _move(self, place: Place) -> None:
        self.top = place
        self._settle()

    def _settle(self) -> None:
        """Measure what is visible, see whether the last line is, note what has been seen."""
        if not len(self.sheet):
            self.top, self._seen = (0, 0), (0, 0)
            return
        if self.height <= 0:
            return
        index, line = self.top
        index = min(index, len(self.sheet) - 1)
        line = max(min(line, self.sheet.measure(index) - 1), 0)
        self.top = (index, line)
        missing = self.height + line
        while missing > 0 and index < len(self.sheet):
            missing -= self.sheet.measure(index)
            index += 1
        self.follow = self._may_follow and missing >= 0 and index == len(self.sheet)
        bottom = (index, 0) if missing >= 0 else (index - 1, self.sheet.heights[index - 1] + missing)
        if self._line_of(bottom) > self._line_of(self._seen):
            self._seen = bottom
