"""The scrolling list of transcript and panels: draws only what is visible; cursor, search and selection.

Gutter and fading are drawn with every line and are no part of a block's strips: a compaction changes every
line's gutter by one `refresh()`.
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

from foldline.tui.blocks.block import MIN_WIDTH, Block, BlockBatch, BlockList, Key, StripCache, keys_from
from foldline.tui.blocks.cells import Spans, to_strip
from foldline.tui.blocks.styles import (
    Themed,
    ThinBar,
    cursor_row,
    faded,
    selected_text,
    with_matches,
    with_selection,
)
from foldline.tui.blocks.viewport import Place, Viewport
from foldline.tui.textual_private import SizedScrollView

_LINE_BITS: Final = 20
"""Selection offsets are (character, index << 20 | line): stable where heights are still estimates."""

Gutter = Callable[[Key, int], Spans]
"""What stands left of a line: (key, line of the block, gap lines included) to styled text."""
Faded = Callable[[Key], bool]
"""Whether a block is drawn muted: what the model has no longer."""


class ViewMessage(Message):
    """A message of a view."""

    def __init__(self, view: "BlockView") -> None:
        super().__init__()
        # Ours also where another widget made us post it: messages do not bubble past their sender.
        self.set_sender(view)
        self.view = view


class KeyMessage(ViewMessage):
    """A message about one block."""

    def __init__(self, view: "BlockView", key: Key) -> None:
        super().__init__(view)
        self.key = key


class BlockView(Themed, SizedScrollView, can_focus=True, inherit_bindings=False):
    """A list of blocks with a gutter, a cursor, search and mouse selection.

    Positions are keys. The top line stays on its row whatever happens above or below it; the view follows
    its end only while the last line is visible.
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
    """Whether the first click on a block opens it already."""

    class CursorMoved(KeyMessage):
        """The cursor stands on another block."""

    class Opened(KeyMessage):
        """Enter on the block with this key."""

    class BelowChanged(ViewMessage):
        """Another number of unseen lines below."""

    new_below: var[int] = var(0, init=False)
    """Lines below the last visible one that came while the view did not follow."""

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
        """`gutter` fills the `gutter_width` cells left of every line; the cursor's mark stands in its first
        cell. `margin` cells stay free at the right. With `follow=False` the view starts at its top and
        never follows."""
        super().__init__(id=id)
        self._gutter = gutter
        self._gutter_width = gutter_width
        self._faded = faded
        self._margin = margin
        self._drawn = StripCache()
        self.rendered = 0
        """Blocks drawn so far."""
        self._sheet = BlockList(lambda block: block.gap + len(self._strips(block)))
        self._viewport = Viewport(self._sheet, follow)
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
        """Keep nothing of what was shown: a screen that the collector does not look at any more would
        (`uncollected`)."""
        self._drawn.clear()
        self._sheet.replace_all(())

    # --- The blocks -----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self._sheet)

    @property
    def follow(self) -> bool:
        """Whether the view follows its end."""
        return self._viewport.follow

    @property
    def top(self) -> tuple[Key, int] | None:
        """The block at the top row and the line of it that stands there."""
        index, line = self._viewport.top
        return (self._sheet[index].key, line) if index < len(self._sheet) else None

    def index_of(self, key: Key | None) -> int | None:
        """The number of the block with this key, counted from 0."""
        return self._sheet.find(key)

    def holds(self, key: Key | None) -> TypeGuard[Key]:
        """Whether there is a block with this key."""
        return self._sheet.find(key) is not None

    def in_sight(self, key: Key) -> bool:
        """Whether any line of the block with this key is on the screen."""
        return self._row_of_key(key) is not None

    def block(self, key: Key) -> Block | None:
        """The block with this key."""
        index = self._sheet.find(key)
        return None if index is None else self._sheet[index]

    def block_at(self, index: int) -> Block:
        """The block with this number. Raises `IndexError`."""
        return self._sheet[index]

    def new_batch(self) -> BlockBatch:
        """An empty batch, for blocks that are to be shown here."""
        return BlockBatch(self._sheet.width)

    def set_blocks(self, blocks: Iterable[Block] | BlockBatch) -> None:
        """Show other blocks. Top line and cursor stay at their entries, or the nearest still there."""
        at, old = self._sheet.find(self._cursor), self._sheet.blocks
        self._viewport.replace_all(blocks if isinstance(blocks, BlockBatch) else list(blocks))
        self._place()
        self.refresh()
        if at is not None:
            self._keep_cursor(keys_from(old, at))
        self._ensure_cursor()

    def set_blocks_around(self, key: Key | None, blocks: Iterable[Block] | BlockBatch) -> None:
        """Show other blocks, of which that with this key stays on its row, where it has one."""
        row = self._row_of_key(key)
        self.set_blocks(blocks)
        index = self._sheet.find(key)
        if index is not None and row is not None:
            self._viewport.show(index, row)
            self._place()
            self.refresh()

    def append(self, *blocks: Block) -> None:
        """Add blocks at the end; the view follows if its last line was visible."""
        self._splice(len(self._sheet), len(self._sheet), blocks, follow=True)

    def replace_from(self, key: Key, blocks: Sequence[Block]) -> None:
        """Replace everything from `key` on, or append where there is no such block: for streaming."""
        index = self._sheet.find(key)
        start = len(self._sheet) if index is None else index
        self._splice(start, len(self._sheet), blocks, follow=True)

    def replace(self, key: Key, block: Block, *, follow: bool = False) -> None:
        """Put another block in the place of one; it grows and shrinks downwards, the top line stays. With
        `follow`, a view that follows its end keeps doing so. Raises `KeyError` for an unknown key."""
        index = self._known(key)
        self._splice(index, index + 1, (block,), follow=follow)

    def insert_after(self, key: Key, *blocks: Block) -> None:
        """Put blocks below the one with this key, in place. Raises `KeyError` for an unknown key."""
        index = self._known(key) + 1
        self._splice(index, index, blocks, follow=False)

    def insert_before(self, key: Key, *blocks: Block) -> None:
        """Put blocks above the one with this key, which stays on its row. Raises `KeyError`."""
        index = self._known(key)
        row = self._row_of(index)
        self._splice(index, index, blocks, follow=False)
        if row is not None and row > 0:
            self._viewport.show(index + len(blocks), row)
            self._place()
            self.refresh()

    def remove_blocks(self, keys: Iterable[Key]) -> None:
        """Take blocks out, in place; unknown keys are left aside."""
        found = sorted(index for key in keys if (index := self._sheet.find(key)) is not None)
        while found:  # runs of neighbours, from the last
            stop = found.pop() + 1
            start = stop - 1
            while found and found[-1] == start - 1:
                start = found.pop()
            self._splice(start, stop, (), follow=False)

    def _known(self, key: Key) -> int:
        index = self._sheet.find(key)
        if index is None:
            raise KeyError(key)
        return index

    def _splice(self, start: int, stop: int, blocks: Sequence[Block], *, follow: bool) -> None:
        at = self._sheet.find(self._cursor)
        around = [self._sheet[near].key for near in (stop, start - 1) if 0 <= near < len(self._sheet)]
        before = self._viewport.top
        self._viewport.splice(start, stop, blocks, follow)
        self._place()
        if self._viewport.top != before or start <= before[0]:
            self.refresh()
        else:  # nothing above the first changed block moved: repaint from there to the lower edge
            row = self._sheet.heights.offset(start) - self._viewport.position
            width, height = self.size
            if row < height:
                self.refresh(Region(0, row, width, height - row))
        if at is not None and start <= at < stop:
            self._keep_cursor((*(block.key for block in blocks), *around))
        self._ensure_cursor()

    # --- Looks and layout -----------------------------------------------------------------------------

    def set_gutter(self, gutter: Gutter | None, faded: Faded | None = None) -> None:
        """Another gutter, and what is drawn muted. Draws no block anew."""
        self._gutter, self._faded = gutter, faded
        self.refresh()

    def _restyle(self) -> None:
        before = self.roles
        super()._restyle()
        if self.roles != before:
            self.lay_out()

    def _place(self) -> None:
        """Tell Textual what the viewport has found: the size once, then the position."""
        if not self.is_mounted:
            return
        port = self._viewport
        self._placing = True
        try:
            size = Size(self.container_size.width, port.virtual_height)
            if size != self.virtual_size:
                # Set without a layout of the screen: our own size does not depend on it.
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
        return max(width - self.scrollbar_size_vertical, 0), max(height - self.scrollbar_size_horizontal, 0)

    def lay_out(self) -> None:
        """Another size, theme or calibration: draw what is visible anew, with the top line where it was."""
        width, height = self._content_size()
        self._laid_out = width, height
        self._drawn.clear()
        self._viewport.resize(self._body_width(), height if width else 0)
        self._place()
        self.refresh()
        self._ensure_cursor()

    # --- Scrolling ------------------------------------------------------------------------------------

    def scroll_lines(self, lines: int) -> None:
        """Scroll by lines, as a reader does."""
        self._viewport.scroll_by(lines)
        self._place()

    def scroll_pages(self, pages: int) -> None:
        """Scroll by screens less one line."""
        self.scroll_lines(pages * max(self._viewport.height - 1, 1))

    def follow_end(self) -> None:
        """Show the last line and follow from here on."""
        self._viewport.to_end()
        self._place()

    def fill(self) -> None:
        """Leave no row blank below the last line while lines above are out of sight: for short lists, whose
        reader takes what is seen for all there is."""
        self._viewport.fill()
        self._place()

    def scroll_to_line(self, key: Key, line: int) -> None:
        """Bring a line of a block, counted over the blocks below it too, to the top row."""
        index = self._sheet.find(key)
        if index is not None and self._viewport.height:
            self._viewport.show(index)
            self._viewport.scroll_by(line)
            self._place()

    def scroll_to_key(self, key: Key, only_if_hidden: bool = True) -> None:
        """Bring a block into view, moving as little as possible; without `only_if_hidden` to the top row."""
        index = self._sheet.find(key)
        if index is None or not self._viewport.height:
            return
        port = self._viewport
        top, line = port.top
        row = self._row_of(index)
        if not only_if_hidden or index < top or (index == top and line > self._sheet[index].gap):
            port.show(index)
        elif row is None:
            port.show(index, max(port.height - self._sheet.measure(index), 0))
        elif (past := row + self._sheet.measure(index) - port.height) > 0:
            port.scroll_by(min(past, row))  # never past its own first line
        self._place()

    def scroll_to(self, *args: object, **options: object) -> None:
        """Without animation: lines between here and there would be measured for nothing."""
        options["animate"] = False
        super().scroll_to(*args, **options)  # type: ignore[arg-type]

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Wheel, scrollbar and Textual's own scrolling arrive here as a line number."""
        super().watch_scroll_y(old_value, new_value)
        if not (self._placing or self.sizing) and round(new_value) != self._viewport.position:
            self._viewport.scroll_to(round(new_value))
            self._place()

    # --- The cursor -----------------------------------------------------------------------------------

    @property
    def cursor(self) -> Key | None:
        """The block the cursor stands on."""
        return self._cursor

    @property
    def counterpart(self) -> Key | None:
        """The block that carries `▷`: where the cursor of another panel has its counterpart."""
        return self._counterpart

    @counterpart.setter
    def counterpart(self, key: Key | None) -> None:
        old, self._counterpart = self._counterpart, key
        if old != key:
            self._repaint(old, key)

    def cursor_to(self, key: Key | None, *, quiet: bool = False, scroll: bool = True) -> None:
        """Put the cursor on a block, and that into view; an unknown key changes nothing. `quiet` posts no
        `CursorMoved`: for a cursor that only answers another panel's."""
        if key is not None and self._sheet.find(key) is None:
            return
        old, self._cursor = self._cursor, key
        if key is not None and scroll:
            self.scroll_to_key(key)
        if old != key:
            self._repaint(old, key)
            if key is not None and not quiet:
                self.post_message(self.CursorMoved(self, key))

    def move_cursor(self, delta: int) -> None:
        """Move the cursor by blocks. A block taller than the screen is scrolled through by lines first; a
        cursor out of sight comes back to the nearest visible block."""
        index = self._sheet.find(self._cursor)
        step = 1 if delta > 0 else -1
        if index is None or self._row_of(index) is None:
            above = index is not None and index < self._viewport.top[0]
            self._cursor_near(0 if above else self._viewport.height - 1)
            return
        if self._goes_on(index, step):
            self.scroll_lines(step)
            return
        target = index
        for _ in range(abs(delta)):
            following = self._stop_from(target + step, step)
            if following is None:
                break
            target = following
        if target != index:
            self.cursor_to(self._sheet[target].key)
        else:
            self.scroll_lines(step)  # headings beyond the last stop

    def _goes_on(self, index: int, step: int) -> bool:
        """Whether a block taller than the screen continues past the edge the cursor moves to."""
        row, height = self._row_of(index), self._sheet.heights[index]
        if row is None or height <= self._viewport.height:
            return False
        return row + height > self._viewport.height if step > 0 else row < 0

    def _stop_from(self, index: int, step: int) -> int | None:
        """The nearest block at or after `index`, in the direction of `step`, where the cursor may stand."""
        while 0 <= index < len(self._sheet):
            if self._sheet[index].stop:
                return index
            index += step
        return None

    def _cursor_near(self, row: int) -> None:
        """Put the cursor on the visible block nearest to a row."""
        for at in sorted(range(self._viewport.height), key=lambda at: abs(at - row)):
            if self._cursor_at_row(at):
                return

    def _cursor_at_row(self, row: int) -> bool:
        place = self._place_at(row)
        if place is None or not self._sheet[place[0]].stop:
            return False
        self.cursor_to(self._sheet[place[0]].key, scroll=False)
        return True

    def _cursor_to_edge(self, step: int) -> None:
        index = self._stop_from(0 if step < 0 else len(self._sheet) - 1, -step)
        if index is not None:
            self.cursor_to(self._sheet[index].key, scroll=False)

    def _keep_cursor(self, candidates: Iterable[Key]) -> None:
        """Keep the cursor if its block is still there, else take the first of `candidates` that is."""
        if self._cursor is None or self._sheet.find(self._cursor) is not None:
            return
        lost, self._cursor = self._cursor, None
        if not any(map(self._stand_on, map(self._sheet.find, self._sheet.those_here(candidates)))):
            self._stand_on(self._sheet.nearest(lost))

    def _stand_on(self, index: int | None) -> bool:
        """Put a cursor whose block went on this one; False where it may not stand there."""
        if index is None or not self._sheet[index].stop:
            return False
        self._cursor = self._sheet[index].key
        self.post_message(self.CursorMoved(self, self._cursor))
        return True

    def _ensure_cursor(self) -> None:
        """A view with the focus has a cursor: where it follows at its end, else at its top."""
        if self._cursor is None and self.has_focus:
            self._cursor_near(self._viewport.height - 1 if self.follow else 0)

    # --- Keys and mouse -------------------------------------------------------------------------------

    def action_cursor(self, delta: int) -> None:
        self.move_cursor(delta)

    def action_page(self, direction: int) -> None:
        """A screen less one line; the cursor goes along, as near to its row as it can."""
        row, before = self._row_of_key(self._cursor), self._viewport.top
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
        """To the last line; the view follows again."""
        self.follow_end()
        self._cursor_to_edge(1)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self, self._cursor))

    def watch_has_focus(self, has_focus: bool) -> None:
        # Not `on_focus`: that runs before `has_focus` is set.
        super().watch_has_focus(has_focus)
        self._ensure_cursor()
        self._repaint(self._cursor)

    def on_click(self, event: events.Click) -> None:
        """Puts the cursor there; at its place, on a block's first line, it opens that as Enter does."""
        row, before = event.get_content_offset_capture(self).y, self._cursor
        place = self._place_at(row)
        if place is None or self.text_selection is not None:
            return
        index, line = place
        was_there = self._sheet[index].key == before if not self.opens_at_once else event.chain == 1
        if self._cursor_at_row(row) and was_there and line == self._sheet[index].gap:
            self.action_open()

    def watch_new_below(self) -> None:
        self.post_message(self.BelowChanged(self))

    # --- Drawing --------------------------------------------------------------------------------------

    def _left(self, wide: bool) -> int:
        """Cells of gutter before a line's body: of a wide line only the cursor's column."""
        return min(self._gutter_width, 1) if wide else self._gutter_width

    def _body_width(self, wide: bool = False) -> int:
        return max(self._laid_out[0] - self._left(wide) - self._margin, MIN_WIDTH)

    def _strips(self, block: Block) -> Sequence[Strip]:
        strips = self._drawn.get(block)
        if strips is None:
            self.rendered += 1
            strips = block.render(self._body_width(block.wide), self.roles)
            self._drawn.put(block, strips)
        return strips

    def _place_at(self, row: int) -> Place | None:
        """The block and its line at a row of the screen."""
        line = self._viewport.position + row
        if not 0 <= line < self._sheet.heights.total:
            return None
        return self._sheet.heights.locate(line)

    def _row_of(self, index: int) -> int | None:
        """The row of a block's first line (negative: above the screen); None if all of it is hidden."""
        if index < self._viewport.top[0]:
            return None
        row = self._sheet.heights.offset(index) - self._viewport.position
        return row if row < self._viewport.height else None

    def _row_of_key(self, key: Key | None) -> int | None:
        index = self._sheet.find(key)
        return None if index is None else self._row_of(index)

    def _line(self, block: Block, line: int, mark: str = "") -> Strip:
        """One line of a block behind its gutter, in whose first cell `mark` stands."""
        strips = self._strips(block)
        at = line - block.gap
        body = strips[at] if 0 <= at < len(strips) else Strip.blank(0)
        if self._faded is not None and not block.wide and self._faded(block.key):
            body = faded(body, self.roles["muted"])
        left = self._left(block.wide and at == 0)
        marks = self._gutter(block.key, line) if self._gutter is not None else ()
        gutter = to_strip(((text, f"{style} deco") for text, style in marks), self.roles)
        gutter = gutter.adjust_cell_length(left, self.roles["deco"])
        if mark and left:
            gutter = Strip.join([to_strip([(mark, "accent deco")], self.roles), gutter.crop(1, left)])
        return Strip.join([gutter, body])

    def render_line(self, y: int) -> Strip:
        place = self._place_at(y)
        if place is None:
            return Strip.blank(self.size.width, self.rich_style)
        index, line = place
        block = self._sheet[index]
        at_cursor, mark = False, ""
        top, top_line = self._viewport.top
        first = max(block.gap, top_line) if index == top else block.gap  # of its lines, on the screen
        if block.key in (self._cursor, self._counterpart) and line == first:
            # Exactly one cursor on the screen: a view without the focus shows none.
            at_cursor = block.key == self._cursor and self.has_focus
            mark = "▶" if at_cursor else "▷" if block.key == self._counterpart else ""
        strip = self._line(block, line, mark).extend_cell_length(self._laid_out[0])
        if self._needle is not None:
            style = self.roles["accent bold underline"]
            strip = with_matches(strip, self._needle, style, self._left(block.wide))
        if at_cursor:
            strip = cursor_row(strip, self.roles["reverse"])
        at = index << _LINE_BITS | line
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = with_selection(strip, *span, self.roles["reverse"])
        return strip.apply_style(self.rich_style).apply_offsets(0, at)

    def _repaint(self, *keys: Key | None) -> None:
        """Paint blocks again that are on screen."""
        for key in keys:
            index = self._sheet.find(key)
            if index is not None and (row := self._row_of(index)) is not None:
                height = self._sheet.heights[index] + min(row, 0)
                self.refresh(Region(0, max(row, 0), self.size.width, height))

    # --- Search and selection -------------------------------------------------------------------------

    def set_search(self, text: str) -> None:
        """Mark where `text` stands on screen; the empty text ends it. Draws no block anew."""
        self._needle = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self.refresh()

    def show_match(self, key: Key) -> None:
        """Bring the first line of a block that shows what is looked for into sight, with lines around it; the
        block itself where no line does."""
        index = self._sheet.find(key)
        if index is None or not self._viewport.height:
            return
        block, needle = self._sheet[index], self._needle
        strips = enumerate(self._strips(block), block.gap)
        line = next((at for at, strip in strips if needle is not None and needle.search(strip.text)), None)
        if line is None:
            self.scroll_to_key(key)
            return
        row = self._sheet.heights.offset(index) + line - self._viewport.position
        if index < self._viewport.top[0] or not 0 <= row < self._viewport.height:
            self.scroll_to_line(key, line)
            self.scroll_lines(-(self._viewport.height // 3))

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: of blocks selected whole what they stand for, else the lines as they are drawn;
        gutter and decoration left out."""
        if not len(self._sheet):
            return None
        last = (len(self._sheet) << _LINE_BITS) - 1
        first, start = (selection.start.y, selection.start.x) if selection.start else (0, 0)
        final, stop = (selection.end.y, selection.end.x) if selection.end else (last, -1)
        final = min(final, last)
        parts: list[str] = []
        for index in range(first >> _LINE_BITS, (final >> _LINE_BITS) + 1):
            block = self._sheet[index]
            low, high = index << _LINE_BITS, (index + 1) << _LINE_BITS
            if first <= low + block.gap and (first < low or not start) and final >= high - 1:
                parts += [""] * block.gap + [block.text()]
                continue
            for at in range(max(first, low), min(final + 1, low + block.gap + len(self._strips(block)))):
                line = self._line(block, at - low)
                parts.append(selected_text(line, start if at == first else 0, stop if at == final else -1))
        return "\n".join(parts), "\n"
