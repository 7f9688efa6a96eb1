"""The scrolling list widget on which transcript and panels are based.

It has a cursor, search and selection. The gutter and the muted style are added when a line is drawn. They are
not part of a block's cached strips, so that one `refresh()` is enough when a compaction changes them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, TypeGuard

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.selection import Selection
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
from foldline.tui.look.cells import Spans, to_strip
from foldline.tui.look.styles import (
    Themed,
    ThinBar,
    cursor_row,
    faded,
    selected_text,
    with_matches,
    with_selection,
)
from foldline.tui.look.textual_private import SizedScrollView

_LINE_BITS: Final = 20
"""Number of bits used for the line in a selection offset, (character, index << 20 | line).

These offsets do not depend on estimated heights.
"""

Gutter = Callable[[Key, int], Spans]
"""Returns the gutter of a line as styled text.

The arguments are the block's key, and the number of the line in the block, counting the gap.
"""
Faded = Callable[[Key], bool]
"""Returns whether a block is drawn muted, because the model's view no longer contains it."""


class ViewMessage(Message):
    """Base class of a view's messages."""

    def __init__(self, view: "BlockView") -> None:
        super().__init__()
        # By default, the sender is the widget whose handler posts the message, and bubbling would stop there.
        self.set_sender(view)
        self.view = view


class KeyMessage(ViewMessage):
    """A message about one block."""

    def __init__(self, view: "BlockView", key: Key) -> None:
        super().__init__(view)
        self.key = key


class BlockView(Themed, SizedScrollView, can_focus=True, inherit_bindings=False):
    """A list of blocks with a gutter, a cursor, search and mouse selection.

    Positions are keys. The top line stays in place when other blocks change. The view follows the end only
    while the last line is visible.
    """

    DEFAULT_CSS = """
    BlockView {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False),
        Binding("down,j", "cursor(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "home", "First", show=False),
        Binding("end", "end", "Last", show=False),
        Binding("enter", "open", "Open or close", show=False),
    ]

    opens_at_once: bool = False
    """Whether a single click expands a block. If not, the first click only moves the cursor."""

    class CursorMoved(KeyMessage):
        """The cursor has moved to the block with this key."""

    class BlockOpened(KeyMessage):
        """The block was opened with Enter or a click."""

    class BelowChanged(ViewMessage):
        """The number of unseen lines at the end has changed."""

    new_below: var[int] = var(0, init=False)
    """Number of lines added below the visible lines while the view was not following the end."""

    def __init__(
        self,
        blocks: Iterable[Block] = (),
        *,
        gutter: Gutter | None = None,
        gutter_width: int = 3,
        faded: Faded | None = None,
        margin: int = 1,
        follow: bool = True,
        id: str | None = None,
    ) -> None:
        """Create a view.

        Args:
            gutter: Returns the `gutter_width` cells to the left of a line. The first cell is reserved for the
                cursor.
            faded: Returns whether a block is muted.
            margin: The number of blank cells on the right.
            follow: Whether to start at the end and follow it, rather than at the top.
        """
        super().__init__(id=id)
        self._gutter = gutter
        self._gutter_width = gutter_width
        self._faded = faded
        self._margin = margin
        self._drawn = StripCache()
        self.rendered = 0
        """Total number of block renderings so far. Used only by tests."""
        self._blocks = BlockList(lambda block: block.gap + len(self._strips(block)))
        self._viewport = Viewport(self._blocks, follow)
        self._placing = False
        self._laid_out: tuple[int, int] = (0, 0)
        self._cursor: Key | None = None
        self._counterpart: Key | None = None
        self._needle: re.Pattern[str] | None = None
        self.set_blocks(blocks)

    def on_mount(self) -> None:
        self.show_scrollbars()
        self.vertical_scrollbar.renderer = ThinBar  # type: ignore[misc]  # as Textual documents it

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
        self._keep_cursor()
        self._ensure_cursor()

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
        self._keep_cursor()
        self._ensure_cursor()

    # --- Style and layout -----------------------------------------------------------------------------

    def set_gutter(self, gutter: Gutter | None, faded: Faded | None = None) -> None:
        """Change the gutter, and which blocks are muted.

        Cached strips remain valid.
        """
        self._gutter = gutter
        self._faded = faded
        self.refresh()

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
        self._ensure_cursor()

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
        if index is None or not self._viewport.height:
            return
        port = self._viewport
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

    # --- The cursor -----------------------------------------------------------------------------------

    @property
    def cursor(self) -> Key | None:
        """The key of the block with the cursor.

        None if there is no cursor.
        """
        return self._cursor

    @property
    def counterpart(self) -> Key | None:
        """The key of the block marked `▷`.

        This block corresponds to the one at the cursor of another panel.
        """
        return self._counterpart

    @counterpart.setter
    def counterpart(self, key: Key | None) -> None:
        old, self._counterpart = self._counterpart, key
        if old != key:
            self._repaint(old, key)

    def cursor_to(
        self, key: Key | None, *, quiet: bool = False, scroll: bool = True
    ) -> None:
        """Move the cursor to a block, and scroll the block into view.

        Unknown keys are ignored.

        If `quiet` is set, `CursorMoved` is not posted. Use this if the cursor merely follows another panel's
        cursor.
        """
        if key is not None and self._blocks.find(key) is None:
            return
        old, self._cursor = self._cursor, key
        if key is not None and scroll:
            self.scroll_to_key(key)
        if old != key:
            self._repaint(old, key)
            if key is not None and not quiet:
                self.post_message(self.CursorMoved(self, key))

    def move_cursor(self, delta: int) -> None:
        """Move the cursor by `delta` blocks.

        A block taller than the screen is first scrolled through line by line. If the cursor is not visible,
        it moves to the nearest visible block instead.
        """
        index = self._blocks.find(self._cursor)
        step = 1 if delta > 0 else -1
        if index is None or self._row_of(index) is None:
            above = index is not None and index < self._viewport.top[0]
            self._cursor_near(0 if above else self._viewport.height - 1)
            return
        if self._continues(index, step):
            self.scroll_lines(step)
            return
        target = index
        for _ in range(abs(delta)):
            next_stop = self._stop_from(target + step, step)
            if next_stop is None:
                break
            target = next_stop
        if target != index:
            self.cursor_to(self._blocks[target].key)
        else:
            self.scroll_lines(
                step
            )  # show headings beyond the last block that can have the cursor

    def _continues(self, index: int, step: int) -> bool:
        """Whether a block is taller than the screen and continues beyond it in this direction."""
        row = self._row_of(index)
        height = self._blocks.heights[index]
        if row is None or height <= self._viewport.height:
            return False
        return row + height > self._viewport.height if step > 0 else row < 0

    def _stop_from(self, index: int, step: int) -> int | None:
        """Return the index of the first block on which the cursor can be placed.

        The search starts at `index` and goes in the direction of `step`. Returns None if there is no such
        block.
        """
        while 0 <= index < len(self._blocks):
            if self._blocks[index].stop:
                return index
            index += step
        return None

    def _cursor_near(self, row: int) -> None:
        """Move the cursor to the visible block nearest to a row."""
        for at in sorted(range(self._viewport.height), key=lambda at: abs(at - row)):
            if self._cursor_at_row(at):
                return

    def _cursor_at_row(self, row: int) -> bool:
        place = self._place_at(row)
        if place is None or not self._blocks[place[0]].stop:
            return False
        self.cursor_to(self._blocks[place[0]].key, scroll=False)
        return True

    def _cursor_to_edge(self, step: int) -> None:
        index = self._stop_from(0 if step < 0 else len(self._blocks) - 1, -step)
        if index is not None:
            self.cursor_to(self._blocks[index].key, scroll=False)

    def _keep_cursor(self) -> None:
        """If the cursor's block was removed, move the cursor to the nearest block."""
        if self._cursor is None or self.holds(self._cursor):
            return
        index = self._blocks.nearest(self._cursor, stops=True)
        self._cursor = None
        if index is not None:
            self._cursor = self._blocks[index].key
            self.post_message(self.CursorMoved(self, self._cursor))

    def _ensure_cursor(self) -> None:
        """Set the cursor if the view has the focus but no cursor.

        The cursor is placed at the end if the view is following the end, and otherwise at the top.
        """
        if self._cursor is None and self.has_focus:
            self._cursor_near(self._viewport.height - 1 if self.follow else 0)

    # --- Keys and mouse -------------------------------------------------------------------------------

    def action_cursor(self, delta: int) -> None:
        self.move_cursor(delta)

    def action_page(self, direction: int) -> None:
        """Scroll by one line less than the screen's height.

        The cursor stays near its row.
        """
        row = self._row_of_key(self._cursor)
        before = self._viewport.top
        self.scroll_pages(direction)
        if self._viewport.top == before:
            self._cursor_to_edge(direction)
        else:
            self._cursor_near(row if row is not None else self._viewport.height // 2)

    def action_home(self) -> None:
        self._viewport.scroll_to(0)
        self._place()
        self._cursor_to_edge(-1)

    def action_end(self) -> None:
        """Scroll to the last line and follow the end."""
        self.follow_end()
        self._cursor_to_edge(1)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.BlockOpened(self, self._cursor))

    def watch_has_focus(self, has_focus: bool) -> None:
        # Not `on_focus`: that runs before `has_focus` is set.
        super().watch_has_focus(has_focus)
        self._ensure_cursor()
        self._repaint(self._cursor)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked block.

        If the cursor was already there, a click on the block's first line opens the block.
        """
        row = event.get_content_offset_capture(self).y
        before = self._cursor
        place = self._place_at(row)
        if place is None or self.text_selection is not None:
            return
        index, line = place
        block = self._blocks[index]
        may_open = event.chain == 1 if self.opens_at_once else block.key == before
        if self._cursor_at_row(row) and may_open and line == block.gap:
            self.action_open()

    def watch_new_below(self) -> None:
        self.post_message(self.BelowChanged(self))

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

    def _line(self, block: Block, line: int, mark: str = "") -> Strip:
        """Draw the gutter and one line of a block, with `mark` in the cursor's column."""
        strips = self._strips(block)
        at = line - block.gap
        body = strips[at] if 0 <= at < len(strips) else Strip.blank(0)
        if self._faded is not None and not block.wide and self._faded(block.key):
            body = faded(body, self.roles["muted"])
        gutter_width = self._gutter_cells(block.wide and at == 0)
        marks = self._gutter(block.key, line) if self._gutter is not None else ()
        gutter = to_strip(
            ((text, f"{style} deco") for text, style in marks), self.roles
        )
        gutter = gutter.adjust_cell_length(gutter_width, self.roles["deco"])
        if mark and gutter_width:
            gutter = Strip.join(
                [
                    to_strip([(mark, "accent deco")], self.roles),
                    gutter.crop(1, gutter_width),
                ]
            )
        return Strip.join([gutter, body])

    def render_line(self, y: int) -> Strip:
        place = self._place_at(y)
        if place is None:
            return Strip.blank(self.size.width, self.rich_style)
        index, line = place
        block = self._blocks[index]
        top, top_line = self._viewport.top
        first_visible = max(block.gap, top_line) if index == top else block.gap
        # Only the view with the focus shows its cursor.
        at_cursor = (
            block.key == self._cursor and self.has_focus and line == first_visible
        )
        mark = ""
        if at_cursor:
            mark = "▶"
        elif block.key == self._counterpart and line == first_visible:
            mark = "▷"
        strip = self._line(block, line, mark).extend_cell_length(self._laid_out[0])
        if self._needle is not None:
            style = self.roles["accent bold underline"]
            strip = with_matches(
                strip, self._needle, style, self._gutter_cells(block.wide)
            )
        if at_cursor:
            strip = cursor_row(strip, self.roles["reverse"])
        at = index << _LINE_BITS | line
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = with_selection(strip, *span, self.roles["reverse"])
        return strip.apply_style(self.rich_style).apply_offsets(0, at)

    def _repaint(self, *keys: Key | None) -> None:
        """Repaint the blocks with these keys, if they are visible."""
        for key in keys:
            index = self._blocks.find(key)
            if index is not None and (row := self._row_of(index)) is not None:
                height = self._blocks.heights[index] + min(row, 0)
                self.refresh(Region(0, max(row, 0), self.size.width, height))

    # --- Search and selection -------------------------------------------------------------------------

    def set_search(self, text: str) -> None:
        """Highlight `text` in all lines.

        An empty string ends the search. Cached strips remain valid.
        """
        self._needle = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self.refresh()

    def show_match(self, key: Key) -> None:
        """Scroll the first matching line of a block into view.

        If no line matches, scroll to the block.
        """
        index = self._blocks.find(key)
        if index is None or not self._viewport.height:
            return
        block = self._blocks[index]
        needle = self._needle
        line = None
        if needle is not None:
            strips = enumerate(self._strips(block), block.gap)
            line = next((at for at, strip in strips if needle.search(strip.text)), None)
        if line is None:
            self.scroll_to_key(key)
            return
        row = self._blocks.heights.offset(index) + line - self._viewport.position
        if index < self._viewport.top[0] or not 0 <= row < self._viewport.height:
            self.scroll_to_line(key, line)
            self.scroll_lines(-(self._viewport.height // 3))

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without gutter and decoration.

        For a block that is selected completely, this is the result of `text()`. For a block that is selected
        in part, these are the selected lines as they are drawn.
        """
        if not len(self._blocks):
            return None
        last = (len(self._blocks) << _LINE_BITS) - 1
        first, start = 0, 0
        if selection.start:
            first, start = selection.start.y, selection.start.x
        final, stop = last, -1
        if selection.end:
            final, stop = min(selection.end.y, last), selection.end.x
        parts: list[str] = []
        for index in range(first >> _LINE_BITS, (final >> _LINE_BITS) + 1):
            block = self._blocks[index]
            low, high = index << _LINE_BITS, (index + 1) << _LINE_BITS
            if (
                first <= low + block.gap
                and (first < low or not start)
                and final >= high - 1
            ):
                parts += [""] * block.gap + [block.text()]
                continue
            for at in range(
                max(first, low),
                min(final + 1, low + block.gap + len(self._strips(block))),
            ):
                line = self._line(block, at - low)
                parts.append(
                    selected_text(
                        line, start if at == first else 0, stop if at == final else -1
                    )
                )
        return "\n".join(parts), "\n"
