"""The scrolling list widget on which transcript and panels are based.

It has a cursor, search and selection. The gutter and the muted style are added when a line is drawn. They are
not part of a block's cached strips, so that one `refresh()` is enough when a compaction changes them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.scroll import BlockScroll
from foldline.tui.look.cells import Spans, to_strip
from foldline.tui.look.styles import (
    cursor_row,
    faded,
    selected_text,
    with_matches,
    with_selection,
)

_LINE_BITS: Final = 20
"""Number of bits used for the line in a selection offset, (character, index << 20 | line).

These offsets do not depend on estimated heights.
"""

_WHOLE_LINE: Final = (0, -1)
"""The span that Textual returns for a line that is selected completely."""

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


class BlockView(BlockScroll, can_focus=True, inherit_bindings=False):
    """A list of blocks with a gutter, a cursor, search and mouse selection."""

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
        super().__init__(gutter_width, margin, follow, id)
        self._gutter = gutter
        self._faded = faded
        self._cursor: Key | None = None
        self._counterpart: Key | None = None
        self._needle: re.Pattern[str] | None = None
        self.set_blocks(blocks)

    def set_gutter(self, gutter: Gutter | None, faded: Faded | None = None) -> None:
        """Change the gutter, and which blocks are muted.

        Cached strips remain valid.
        """
        self._gutter = gutter
        self._faded = faded
        self.refresh()

    def blocks_changed(self) -> None:
        self._keep_cursor()
        self._ensure_cursor()

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
        last = len(self._blocks) - 1
        first = selection.start.y >> _LINE_BITS if selection.start else 0
        final = selection.end.y >> _LINE_BITS if selection.end else last
        parts: list[str] = []
        for index in range(first, min(final, last) + 1):
            parts += self._selected_parts(index, selection)
        return "\n".join(parts), "\n"

    def _selected_parts(self, index: int, selection: Selection) -> Iterator[str]:
        """Yield the selected text of a block."""
        block = self._blocks[index]
        start = index << _LINE_BITS
        end = start + (1 << _LINE_BITS) - 1
        ends = (selection.get_span(start + block.gap), selection.get_span(end))
        if ends == (_WHOLE_LINE, _WHOLE_LINE):
            yield from [""] * block.gap
            yield block.text()
            return
        for line in range(block.gap + len(self._strips(block))):
            span = selection.get_span(start + line)
            if span is not None:
                yield selected_text(self._line(block, line), *span)
