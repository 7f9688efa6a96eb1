"""The one scrolling component of transcript and panels: blocks with a cursor, search and selection."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from foldline.tui.blocks.block import Block, BlockBatch, Key, keys_from
from foldline.tui.blocks.canvas import BlockCanvas, Faded, Gutter
from foldline.tui.blocks.styles import cursor_row, selected_text, with_matches, with_selection

_LINE_BITS: Final = 20
"""Selection offsets are (character, index << 20 | line): stable where heights are still estimates."""


class ViewMessage(Message):
    """A message of a view; `@on(..., "#id")` selects by the view."""

    def __init__(self, view: "BlockView") -> None:
        super().__init__()
        # Ours also where another widget made us post it: messages do not bubble past their sender.
        self.set_sender(view)
        self.view = view

    @property
    def control(self) -> "BlockView":
        return self.view


class BlockView(BlockCanvas, can_focus=True, inherit_bindings=False):
    """A list of blocks with a gutter, an optional cursor, search and mouse selection.

    Positions are keys. The top line stays on its row whatever happens above or below it; the view follows
    its end only while the last line is visible.
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

    class CursorMoved(ViewMessage):
        """The cursor stands on another block."""

        def __init__(self, view: "BlockView", key: Key) -> None:
            super().__init__(view)
            self.key = key

    class Opened(ViewMessage):
        """Enter on the block with this key."""

        def __init__(self, view: "BlockView", key: Key) -> None:
            super().__init__(view)
            self.key = key

    class BelowChanged(ViewMessage):
        """Another number of unseen lines below."""

        def __init__(self, view: "BlockView", count: int) -> None:
            super().__init__(view)
            self.count = count

    def __init__(
        self,
        blocks: Iterable[Block] = (),
        *,
        gutter: Gutter | None = None,
        gutter_width: int = 3,
        faded: Faded | None = None,
        margin: int = 1,
        cursor: bool = True,
        follow: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """`gutter` fills the `gutter_width` cells left of every line; the cursor's mark stands in its first
        cell. `margin` cells stay free at the right. Without `cursor` the keys scroll. With `follow=False`
        the view starts at its top and never follows."""
        super().__init__(
            gutter=gutter,
            gutter_width=gutter_width,
            faded=faded,
            margin=margin,
            follow=follow,
            name=name,
            id=id,
            classes=classes,
        )
        self._has_cursor = cursor
        self._cursor: Key | None = None
        self._counterpart: Key | None = None
        self._needle: re.Pattern[str] | None = None
        self.set_blocks(blocks)

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
        index = self._sheet.find(self._cursor) if self._cursor is not None else None
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
        """Whether a block taller than the screen goes on past the edge the cursor moves to."""
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
            place = self._place_at(at)
            if place is not None and self._sheet[place[0]].stop:
                self.cursor_to(self._sheet[place[0]].key, scroll=False)
                return

    def _cursor_to_edge(self, step: int) -> None:
        index = self._stop_from(0 if step < 0 else len(self._sheet) - 1, -step)
        if index is not None:
            self.cursor_to(self._sheet[index].key, scroll=False)

    def _keep_cursor(self, candidates: Iterable[Key]) -> None:
        """Keep the cursor if its block is still there, else take the first of `candidates` that is."""
        if self._cursor is None or self._sheet.find(self._cursor) is not None:
            return
        lost, self._cursor = self._cursor, None
        found = map(self._sheet.find, self._sheet.those_here(candidates))
        for index in chain(found, self._nearest(lost)):
            if index is not None and self._sheet[index].stop:
                self._cursor = self._sheet[index].key
                self.post_message(self.CursorMoved(self, self._cursor))
                return

    def _nearest(self, lost: Key) -> Iterator[int | None]:
        yield self._sheet.nearest(lost)

    def set_blocks(self, blocks: Iterable[Block] | BlockBatch) -> None:
        """Show other blocks. Top line and cursor stay at their entries, or the nearest still there."""
        at = self._sheet.find(self._cursor) if self._cursor is not None else None
        old = self._sheet.blocks
        super().set_blocks(blocks)
        if at is not None:
            self._keep_cursor(keys_from(old, at))
        self._ensure_cursor()

    def set_blocks_around(self, key: Key | None, blocks: Iterable[Block] | BlockBatch) -> None:
        """Show other blocks, of which that with this key stays on its row, where it has one."""
        index = self._sheet.find(key) if key is not None else None
        row = self._row_of(index) if index is not None else None
        self.set_blocks(blocks)
        index = self._sheet.find(key) if key is not None else None
        if index is not None and row is not None:
            self._viewport.show(index, row)
            self._place()
            self.refresh()

    def _splice(self, start: int, stop: int, blocks: Sequence[Block], *, follow: bool) -> None:
        at = self._sheet.find(self._cursor) if self._cursor is not None else None
        around = [self._sheet[near].key for near in (stop, start - 1) if 0 <= near < len(self._sheet)]
        super()._splice(start, stop, blocks, follow=follow)
        if at is not None and start <= at < stop:
            self._keep_cursor((*(block.key for block in blocks), *around))
        self._ensure_cursor()

    def _lay_out(self) -> None:
        super()._lay_out()
        self._ensure_cursor()

    def _ensure_cursor(self) -> None:
        """A view with the focus has a cursor: where it follows at its end, else at its top."""
        if self._has_cursor and self._cursor is None and self.has_focus:
            self._cursor_near(self._viewport.height - 1 if self.follow else 0)

    # --- Keys and mouse -------------------------------------------------------------------------------

    def action_cursor(self, delta: int) -> None:
        if self._has_cursor:
            self.move_cursor(delta)
        else:
            self.scroll_lines(delta)

    def action_page(self, direction: int) -> None:
        """A screen less one line; the cursor goes along, as near to its row as it can."""
        index = self._sheet.find(self._cursor) if self._cursor is not None else None
        row = self._row_of(index) if index is not None else None
        before = self._viewport.top
        self.scroll_pages(direction)
        if not self._has_cursor:
            return
        if self._viewport.top == before:
            self._cursor_to_edge(direction)
        else:
            self._cursor_near(row if row is not None else self._viewport.height // 2)

    def action_home(self) -> None:
        self._viewport.scroll_to(0)
        self._place()
        if self._has_cursor:
            self._cursor_to_edge(-1)

    def action_end(self) -> None:
        """To the last line; the view follows again."""
        self.follow_end()
        if self._has_cursor:
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
        if not self._has_cursor or self.text_selection is not None:
            return
        place = self._place_at(event.get_content_offset_capture(self).y)
        if place is not None and self._sheet[place[0]].stop:
            self.cursor_to(self._sheet[place[0]].key, scroll=False)

    def watch_new_below(self, count: int) -> None:
        self.post_message(self.BelowChanged(self, count))

    # --- Drawing --------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        place = self._place_at(y)
        if place is None:
            return Strip.blank(self.size.width, self.rich_style)
        index, line = place
        block = self._sheet[index]
        at_cursor, mark = False, ""
        if block.key in (self._cursor, self._counterpart) and line == self._cursor_line(index):
            # Exactly one cursor on the screen: a view without the focus shows none.
            at_cursor = block.key == self._cursor and self._has_cursor and self.has_focus
            mark = "▶" if at_cursor else "▷" if block.key == self._counterpart else ""
        strip = self._line(block, line, mark).extend_cell_length(self._laid_out[0])
        if self._needle is not None:
            style = self._roles["accent bold underline"]
            strip = with_matches(strip, self._needle, style, self._left(block.wide))
        if at_cursor:
            strip = cursor_row(strip, self._roles["reverse"])
        at = index << _LINE_BITS | line
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = with_selection(strip, *span, self._roles["reverse"])
        return strip.apply_style(self.rich_style).apply_offsets(0, at)

    def _cursor_line(self, index: int) -> int:
        """The line of a block that shows the cursor: its first one, or the first on screen."""
        top, line = self._viewport.top
        first = self._sheet[index].gap
        return max(first, line) if index == top else first

    def _repaint(self, *keys: Key | None) -> None:
        """Paint blocks again that are on screen."""
        for key in keys:
            index = self._sheet.find(key) if key is not None else None
            row = self._row_of(index) if index is not None else None
            if index is not None and row is not None:
                height = self._sheet.heights[index] + min(row, 0)
                self.refresh(Region(0, max(row, 0), self.size.width, height))

    # --- Search and selection -------------------------------------------------------------------------

    def set_search(self, text: str) -> None:
        """Show where `text` stands on screen; the empty text ends it. Draws no block anew."""
        self._needle = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self.refresh()

    def show_match(self, key: Key) -> None:
        """Bring the first line of a block that shows what is looked for into sight, with lines around it; the
        block itself where no line does."""
        index = self._sheet.find(key)
        if index is None or not self._viewport.height:
            return
        block = self._sheet[index]
        found = self._needle.search if self._needle is not None else None
        strips = enumerate(self._strips(block), block.gap)
        line = next((at for at, strip in strips if found is not None and found(strip.text)), None)
        if line is None:
            self.scroll_to_key(key)
            return
        row = self._sheet.heights.offset(index) + line - self._viewport.position
        if index < self._viewport.top[0] or not 0 <= row < self._viewport.height:
            self.scroll_to_place(key, line)
            self.scroll_lines(-(self._viewport.height // 3))

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

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
