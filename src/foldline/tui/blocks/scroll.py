"""A scrolling list of blocks, of which only the visible ones are drawn."""

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from textual.geometry import Region, Size
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

from foldline.tui.blocks.block import (
    MIN_WIDTH,
    Block,
    BlockBatch,
    BlockList,
    Key,
    StripCache,
)
from foldline.tui.blocks.viewport import LinePosition, Viewport
from foldline.tui.look.styles import Themed, ThinBar
from foldline.tui.look.textual_private import SizedScrollView


class BlockScroll(Themed, SizedScrollView):
    """A scrolling list of blocks.

    Positions are keys. The top line stays in place when other blocks change. The view follows the end only
    while the last line is visible.
    """

    DEFAULT_CSS = """
    BlockScroll {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """

    new_below: var[int] = var(0, init=False)
    """Number of lines added below the visible lines while the view was not following the end."""

    def __init__(
        self, gutter_width: int, margin: int, follow: bool, id: str | None
    ) -> None:
        super().__init__(id=id)
        self._gutter_width = gutter_width
        self._margin = margin
        self._drawn = StripCache()
        self.rendered = 0
        """Total number of block renderings so far. Used only by tests."""
        self._blocks = BlockList(lambda block: block.gap + len(self._strips(block)))
        self._viewport = Viewport(self._blocks, follow)
        self._placing = False
        self._laid_out: tuple[int, int] = (0, 0)

    def on_mount(self) -> None:
        self.show_scrollbars()
        self.vertical_scrollbar.renderer = ThinBar  # type: ignore[misc]  # as Textual documents it

    def blocks_changed(self) -> None:
        """Called after blocks have been added, removed or laid out again."""

    def on_unmount(self) -> None:
        """Remove all blocks, so that they are freed even if the screen is not garbage collected.

        Screens are exempt from garbage collection (`uncollected`).
        """
        self._drawn.clear()
        self._blocks.replace_all(())

    # --- The blocks -----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    @property
    def follow(self) -> bool:
        """Whether the view is following the end."""
        return self._viewport.follow

    @property
    def top(self) -> tuple[Key, int] | None:
        """The key of the block in the top row, and which of the block's lines is in that row."""
        index, line = self._viewport.top
        if index >= len(self._blocks):
            return None
        return self._blocks[index].key, line

    def index_of(self, key: Key | None) -> int | None:
        """Return the index of the block with this key.

        Returns None if there is no such block.
        """
        return self._blocks.find(key)

    def holds(self, key: Key | None) -> TypeGuard[Key]:
        """Whether there is a block with this key."""
        return self._blocks.find(key) is not None

    def in_sight(self, key: Key) -> bool:
        """Whether any of this block's lines is on the screen."""
        return self._row_of_key(key) is not None

    def block(self, key: Key) -> Block | None:
        """Return the block with this key.

        Returns None if there is no such block.
        """
        index = self._blocks.find(key)
        return None if index is None else self._blocks[index]

    def block_at(self, index: int) -> Block:
        """Return the block at this index.

        Raises:
            IndexError: There is no such block.
        """
        return self._blocks[index]

    def new_batch(self) -> BlockBatch:
        """Create an empty batch with the width of this view."""
        return BlockBatch(self._blocks.width)

    def set_blocks(self, blocks: Iterable[Block] | BlockBatch) -> None:
        """Replace all blocks.

        The top line and the cursor stay on their blocks, or move to the nearest remaining block.
        """
        self._viewport.replace_all(
            blocks if isinstance(blocks, BlockBatch) else list(blocks)
        )
        self._place()
        self.refresh()
        self.blocks_changed()

    def set_blocks_around(
        self, key: Key | None, blocks: Iterable[Block] | BlockBatch
    ) -> None:
        """Replace all blocks.

        If the block with this key is visible, it stays on the same row.
        """
        row = self._row_of_key(key)
        self.set_blocks(blocks)
        index = self._blocks.find(key)
        if index is not None and row is not None:
            self._show_at(index, row)

    def _show_at(self, index: int, row: int) -> None:
        self._viewport.show(index, row)
        self._place()
        self.refresh()

    def append(self, *blocks: Block) -> None:
        """Add blocks at the end."""
        self._splice(len(self._blocks), len(self._blocks), blocks, follow=True)

    def replace_from(self, key: Key, blocks: Sequence[Block]) -> None:
        """Replace the block with this key and all blocks after it. Used for streaming.

        If there is no such block, the blocks are appended.
        """
        index = self._blocks.find(key)
        start = len(self._blocks) if index is None else index
        self._splice(start, len(self._blocks), blocks, follow=True)

    def replace(self, key: Key, block: Block, *, follow: bool = False) -> None:
        """Replace one block.

        The top line stays in place, unless `follow` is set and the view is following the end.

        Raises:
            KeyError: The key is unknown.
        """
        index = self._index(key)
        self._splice(index, index + 1, (block,), follow=follow)

    def insert_before(self, key: Key, *blocks: Block) -> None:
        """Insert blocks above the block with this key, which stays on the same row.

        Raises:
            KeyError: The key is unknown.
        """
        index = self._index(key)
        row = self._row_of(index)
        self._splice(index, index, blocks, follow=False)
        if row is not None and row > 0:
            self._show_at(index + len(blocks), row)

    def remove_blocks(self, keys: Iterable[Key]) -> None:
        """Remove blocks. Unknown keys are ignored."""
        positions = map(self._blocks.find, keys)
        indices = sorted(index for index in positions if index is not None)
        while indices:  # remove runs of adjacent blocks, starting from the last
            stop = indices.pop() + 1
            start = stop - 1
            while indices and indices[-1] == start - 1:
                start = indices.pop()
            self._splice(start, stop, (), follow=False)

    def _index(self, key: Key) -> int:
        index = self._blocks.find(key)
        if index is None:
            raise KeyError(key)
        return index

    def _splice(
        self,
        start: int,
        stop: int,
        blocks: Sequence[Block],
        *,
        follow: bool,
    ) -> None:
        before = self._viewport.top
        self._viewport.splice(start, stop, blocks, follow)
        self._place()
        if self._viewport.top != before or start <= before[0]:
            self.refresh()
        else:  # lines above the first changed block have not moved: repaint only the lines from there on
            row = self._blocks.heights.offset(start) - self._viewport.position
            width, height = self.size
            if row < height:
                self.refresh(Region(0, row, width, height - row))
        self.blocks_changed()

    # --- Layout ---------------------------------------------------------------------------------------

    def _restyle(self) -> None:
        before = self.roles
        super()._restyle()
        if self.roles != before:
            self.lay_out()

    def _place(self) -> None:
        """Pass the viewport's size and position on to Textual."""
        if not self.is_mounted:
            return
        port = self._viewport
        self._placing = True
        try:
            size = Size(self.container_size.width, port.virtual_height)
            if size != self.virtual_size:
                # Set without a new layout of the screen, because this widget's size does not depend on it.
                self.set_reactive(Widget.virtual_size, size)
                self.vertical_scrollbar.window_virtual_size = size.height
            self.scroll_y = self.scroll_target_y = port.position
        finally:
            self._placing = False
        self.new_below = port.new_below

    def sized(self) -> None:
        if self._laid_out != self._content_size():
            self.lay_out()

    def _content_size(self) -> tuple[int, int]:
        width, height = self.container_size
        return max(width - self.scrollbar_size_vertical, 0), max(
            height - self.scrollbar_size_horizontal, 0
        )

    def lay_out(self) -> None:
        """Redraw everything after a change of size, theme or calibration.

        The top line stays in place.
        """
        width, height = self._content_size()
        self._laid_out = width, height
        self._drawn.clear()
        self._viewport.resize(self._body_width(), height if width else 0)
        self._place()
        self.refresh()
        self.blocks_changed()

    # --- Scrolling ------------------------------------------------------------------------------------

    def scroll_lines(self, lines: int) -> None:
        """Scroll down by this many lines, or up if the number is negative."""
        self._viewport.scroll_by(lines)
        self._place()

    def scroll_pages(self, pages: int) -> None:
        """Scroll down by this many pages, or up if the number is negative.

        A page is one line less than the screen's height.
        """
        self.scroll_lines(pages * max(self._viewport.height - 1, 1))

    def follow_end(self) -> None:
        """Show the last line, and start following the end."""
        self._viewport.to_end()
        self._place()

    def fill(self) -> None:
        """Scroll back if there are blank rows below the last line.

        Otherwise, the few visible rows of a list would look like a complete, short list.
        """
        self._viewport.fill()
        self._place()

    def scroll_to_line(self, key: Key, line: int) -> None:
        """Scroll a line of a block to the top row.

        If `line` is beyond the end of the block, it refers to a line of a block further down.
        """
        index = self._blocks.find(key)
        if index is not None and self._viewport.height:
            self._viewport.show(index)
            self._viewport.scroll_by(line)
            self._place()

    def scroll_to_key(self, key: Key, only_if_hidden: bool = True) -> None:
        """Scroll as little as possible to make a block visible.

        If `only_if_hidden` is not set, scroll the block to the top row.
        """
        index = self._blocks.find(key)
        port = self._viewport
        if index is None:
            return
        if not port.height:
            if not only_if_hidden:
                port.start_at(index)
            return
        top, line = port.top
        row = self._row_of(index)
        if (
            not only_if_hidden
            or index < top
            or (index == top and line > self._blocks[index].gap)
        ):
            port.show(index)
        elif row is None:
            port.show(index, max(port.height - self._blocks.measure(index), 0))
        else:
            hidden_lines = row + self._blocks.measure(index) - port.height
            if hidden_lines > 0:
                port.scroll_by(min(hidden_lines, row))  # keep its first line visible
        self._place()

    def scroll_to(self, *args: object, **options: object) -> None:
        """Scroll without animation, because an animation would measure all lines in between."""
        options["animate"] = False
        super().scroll_to(*args, **options)  # type: ignore[arg-type]

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Adopt a scroll position set by the mouse wheel, the scrollbar or Textual."""
        super().watch_scroll_y(old_value, new_value)
        if (
            not (self._placing or self.sizing)
            and round(new_value) != self._viewport.position
        ):
            self._viewport.scroll_to(round(new_value))
            self._place()

    # --- Drawing --------------------------------------------------------------------------------------

    def _gutter_cells(self, wide: bool) -> int:
        """Return the width of the gutter, in cells.

        For a wide line, this is only the width of the cursor's column.
        """
        return min(self._gutter_width, 1) if wide else self._gutter_width

    def _body_width(self, wide: bool = False) -> int:
        return max(
            self._laid_out[0] - self._gutter_cells(wide) - self._margin, MIN_WIDTH
        )

    def _strips(self, block: Block) -> Sequence[Strip]:
        strips = self._drawn.get(block)
        if strips is None:
            self.rendered += 1
            strips = block.render(self._body_width(block.wide), self.roles)
            self._drawn.put(block, strips)
        return strips

    def _place_at(self, row: int) -> LinePosition | None:
        """Return the position of the line at this row of the screen.

        Returns None if there is no line.
        """
        line = self._viewport.position + row
        if not 0 <= line < self._blocks.heights.total:
            return None
        return self._blocks.heights.locate(line)

    def _row_of(self, index: int) -> int | None:
        """Return the row of a block's first line.

        The number is negative if the line is above the screen. Returns None if no line of the block is
        visible.
        """
        if index < self._viewport.top[0]:
            return None
        row = self._blocks.heights.offset(index) - self._viewport.position
        return row if row < self._viewport.height else None

    def _row_of_key(self, key: Key | None) -> int | None:
        index = self._blocks.find(key)
        return None if index is None else self._row_of(index)

    def _repaint(self, *keys: Key | None) -> None:
        """Repaint the blocks with these keys, if they are visible."""
        for key in keys:
            index = self._blocks.find(key)
            if index is not None and (row := self._row_of(index)) is not None:
                height = self._blocks.heights[index] + min(row, 0)
                self.refresh(Region(0, max(row, 0), self.size.width, height))
