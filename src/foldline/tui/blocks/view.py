"""The one scrolling component: draws blocks by lines, so that a hundred thousand cost what a screenful does."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.selection import Selection
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from foldline.tui.blocks.block import MIN_WIDTH, Block, Key
from foldline.tui.blocks.cells import Spans, to_strip
from foldline.tui.blocks.sheet import Sheet
from foldline.tui.blocks.styles import Styles, styles_from
from foldline.tui.blocks.viewport import Viewport

Gutter = Callable[[Key, int], Spans]
"""What stands left of a line: (key, line of the block, gap lines included) to styled text."""

_CACHED: Final = 512
"""Blocks whose strips are kept; a screen shows fewer than a hundred."""
_LINE_BITS: Final = 20
"""Selection offsets are (character, index << 20 | line): stable where heights are still estimates."""


class _ThinBar(ScrollBarRender):
    """A half-cell thumb, so that the bar can be told from the frame next to it."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    BLANK_GLYPH: ClassVar[str] = "▌"


class BlockView(ScrollView, can_focus=True, inherit_bindings=False):
    """A list of blocks with a gutter, an optional cursor, search and selection.

    Positions are keys. The top line stays on its row whatever happens above or below it; the view follows
    its end only while the last line is visible. `rendered` counts blocks drawn, for tests.
    """

    ALLOW_SELECT: ClassVar[bool] = True

    DEFAULT_CSS: ClassVar[str] = """
    BlockView {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        background: transparent;
        scrollbar-background: transparent;
        scrollbar-background-hover: transparent;
        scrollbar-background-active: transparent;
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

    new_below: var[int] = var(0, init=False)
    """Lines below the last visible one that came while the view did not follow."""

    class _OfView(Message):
        """A message of a view; `@on(..., "#id")` selects by the view."""

        def __init__(self, view: "BlockView") -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> "BlockView":
            return self.view

    class CursorMoved(_OfView):
        """The cursor stands on another block."""

        def __init__(self, view: "BlockView", key: Key) -> None:
            super().__init__(view)
            self.key = key

    class Opened(_OfView):
        """Enter on the block with this key."""

        def __init__(self, view: "BlockView", key: Key) -> None:
            super().__init__(view)
            self.key = key

    class BelowChanged(_OfView):
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
        super().__init__(name=name, id=id, classes=classes)
        self._gutter = gutter
        self._gutter_width = gutter_width
        self._margin = margin
        self._has_cursor = cursor
        self._cursor: Key | None = None
        self._counterpart: Key | None = None
        self._needle: re.Pattern[str] | None = None
        self._roles = Styles()
        self._look = 0  # counts widths and themes: part of the cache key
        self._strips_of: LRUCache[tuple[Block, int], list[Strip]] = LRUCache(_CACHED)
        self.rendered = 0
        self._sheet = Sheet(self._height_of)
        self._viewport = Viewport(self._sheet, follow)
        self._placing = False
        self._laid_out: tuple[int, int] = (0, 0)
        self.set_blocks(blocks)

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

    def index_of(self, key: Key) -> int | None:
        """The number of the block with this key, counted from 0; None where there is none."""
        return self._sheet.find(key)

    def block(self, key: Key) -> Block | None:
        """The block with this key."""
        index = self._sheet.find(key)
        return None if index is None else self._sheet[index]

    def block_at(self, index: int) -> Block:
        """The block with this number. Raises `IndexError`."""
        return self._sheet[index]

    def set_blocks(self, blocks: Iterable[Block]) -> None:
        """Show other blocks. Top line and cursor stay at their entries, or at the nearest ones still there."""
        cursor = self._sheet.find(self._cursor) if self._cursor is not None else None
        keys = [block.key for block in self._sheet] if cursor is not None else []
        self._viewport.replace_all(list(blocks))
        if self._cursor is not None:
            self._keep_cursor((*keys[cursor:], *reversed(keys[:cursor])) if cursor is not None else ())
        self._place()
        self.refresh()

    def append(self, *blocks: Block) -> None:
        """Add blocks at the end; the view follows if its last line was visible."""
        self._splice(len(self._sheet), len(self._sheet), blocks, follow=True)

    def replace_from(self, key: Key, blocks: Sequence[Block], *, follow: bool = True) -> None:
        """Replace everything from `key` on, or append where there is no such block: for streaming.
        With `follow=False` the top line stays even where the view follows: for opening the last entries."""
        index = self._sheet.find(key)
        start = len(self._sheet) if index is None else index
        self._splice(start, len(self._sheet), blocks, follow=follow)

    def replace(self, key: Key, block: Block, *, follow: bool = False) -> None:
        """Put another block in the place of one; it grows and shrinks downwards, the top line stays. With
        `follow`, a view that follows its end goes on doing so. Raises `KeyError` for an unknown key."""
        index = self._known(key)
        self._splice(index, index + 1, (block,), follow=follow)

    def insert_after(self, key: Key, *blocks: Block) -> None:
        """Put blocks below the one with this key, in place. Raises `KeyError` for an unknown key."""
        index = self._known(key) + 1
        self._splice(index, index, blocks, follow=False)

    def remove_blocks(self, keys: Iterable[Key]) -> None:
        """Take blocks out, in place; unknown keys are left aside."""
        found = sorted(index for key in keys if (index := self._sheet.find(key)) is not None)
        while found:  # runs of neighbours, from the last
            stop = found.pop() + 1
            start = stop - 1
            while found and found[-1] == start - 1:
                start = found.pop()
            self._splice(start, stop, (), follow=False)

    def clear(self) -> None:
        """Show nothing."""
        self.set_blocks(())

    def _known(self, key: Key) -> int:
        index = self._sheet.find(key)
        if index is None:
            raise KeyError(key)
        return index

    def _splice(self, start: int, stop: int, blocks: Sequence[Block], *, follow: bool) -> None:
        before = self._viewport.top
        after = [self._sheet[stop].key] if stop < len(self._sheet) else []
        held = self._cursor is not None and any(self._sheet[at].key == self._cursor for at in range(start, stop))
        self._viewport.splice(start, stop, blocks, follow)
        if held:
            last = [self._sheet[start - 1].key] if start else []
            self._keep_cursor((*(block.key for block in blocks), *after, *last))
        self._place()
        if self._viewport.top != before or start <= before[0]:
            self.refresh()
            return
        # Nothing above the first changed block moved: repaint from there to the lower edge.
        row = self._sheet.heights.offset(start) - self._viewport.position
        width, height = self.size
        if row < height:
            self.refresh(Region(0, row, width, height - row))

    # --- Looks ----------------------------------------------------------------------------------------

    def set_gutter(self, gutter: Gutter | None) -> None:
        """Another gutter. Draws no block anew."""
        self._gutter = gutter
        self.refresh()

    @property
    def counterpart(self) -> Key | None:
        """The block that carries `▷`: where the cursor of another panel has its counterpart."""
        return self._counterpart

    @counterpart.setter
    def counterpart(self, key: Key | None) -> None:
        old, self._counterpart = self._counterpart, key
        if old != key:
            self._repaint(old, key)

    @property
    def roles(self) -> Styles:
        """The colour roles blocks are drawn with."""
        return self._roles

    def restyle(self) -> None:
        """Take the colour roles from the app's theme."""
        roles = styles_from(self.app.theme_variables, self.app.no_color)
        if roles != self._roles:
            self._roles = roles
            self._lay_out()

    def on_mount(self) -> None:
        super().on_mount()
        self.vertical_scrollbar.renderer = _ThinBar
        self.app.theme_changed_signal.subscribe(self, self._on_theme)
        self.restyle()

    def _on_theme(self, _theme: Theme) -> None:
        self.restyle()
        self.refresh()

    # --- The cursor -----------------------------------------------------------------------------------

    @property
    def cursor(self) -> Key | None:
        """The block the cursor stands on."""
        return self._cursor

    def cursor_to(self, key: Key | None, *, quiet: bool = False, scroll: bool = True) -> None:
        """Put the cursor on a block, and that into view. `quiet` posts no `CursorMoved`."""
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
        """Move the cursor by blocks. A block that reaches past the edge is first scrolled through by lines."""
        index = self._sheet.find(self._cursor) if self._cursor is not None else None
        if index is None:
            self._cursor_into_view()
            return
        if self._beyond(index, delta):
            self._scroll(1 if delta > 0 else -1)
            return
        step = 1 if delta > 0 else -1
        target = index
        for _ in range(abs(delta)):
            following = self._stop_from(target + step, step)
            if following is None:
                break
            target = following
        if target != index:
            self.cursor_to(self._sheet[target].key)
        elif not self._row_visible(0 if delta < 0 else len(self._sheet) - 1):
            self._scroll(step)

    def scroll_to_key(self, key: Key, only_if_hidden: bool = True) -> None:
        """Bring a block into view, moving as little as possible; with `only_if_hidden=False` to the top row."""
        index = self._sheet.find(key)
        if index is None or not self._viewport.height:
            return
        port = self._viewport
        if not only_if_hidden:
            port.show(index)
        elif index <= port.top[0]:
            if index < port.top[0] or port.top[1] > self._sheet[index].gap:
                port.show(index)
        else:
            # Reaching past the lower edge: up by what is missing, but never past its own first line.
            first, height = self._row_of(index)
            if first is None:
                port.show(index, max(port.height - self._sheet.measure(index), 0))
            elif first + height > port.height:
                port.scroll_by(min(first + height - port.height, first))
        self._place()

    def action_cursor(self, delta: int) -> None:
        if self._has_cursor:
            self.move_cursor(delta)
        else:
            self._scroll(delta)

    def action_page(self, direction: int) -> None:
        """A screen less one line; the cursor goes along, as near to its row as it can."""
        rows = self._cursor_row()
        before = self._viewport.top
        self._scroll(direction * max(self._viewport.height - 1, 1))
        if not self._has_cursor:
            return
        if self._viewport.top == before:
            (self._cursor_to_edge)(direction)
        else:
            self._cursor_into_view(rows)

    def action_home(self) -> None:
        self._viewport.scroll_to(0)
        self._place()
        if self._has_cursor:
            self._cursor_to_edge(-1)

    def action_end(self) -> None:
        """To the last line; the view follows again."""
        self._viewport.to_end()
        self._place()
        if self._has_cursor:
            self._cursor_to_edge(1)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self, self._cursor))

    def on_focus(self) -> None:
        if self._has_cursor and self._cursor is None:
            self._cursor_into_view()
        self._repaint(self._cursor)

    def on_blur(self) -> None:
        self._repaint(self._cursor)

    def on_click(self, event: events.Click) -> None:
        if not self._has_cursor or self.text_selection is not None:
            return
        place = self._place_at(event.get_content_offset_capture(self).y)
        if place is not None and self._sheet[place[0]].stop:
            self.cursor_to(self._sheet[place[0]].key, scroll=False)

    def _keep_cursor(self, candidates: Iterable[Key]) -> None:
        """Keep the cursor if its block is still there, else take the first of `candidates` that is."""
        if self._cursor is not None and self._sheet.find(self._cursor) is not None:
            return
        for key in candidates:
            index = self._sheet.find(key)
            if index is not None and self._sheet[index].stop:
                self._cursor = key
                self.post_message(self.CursorMoved(self, key))
                return
        self._cursor = None

    def _stop_from(self, index: int, step: int) -> int | None:
        """The nearest block at or after `index`, in the direction of `step`, where the cursor may stand."""
        while 0 <= index < len(self._sheet):
            if self._sheet[index].stop:
                return index
            index += step
        return None

    def _cursor_to_edge(self, direction: int) -> None:
        index = self._stop_from(0 if direction < 0 else len(self._sheet) - 1, -direction)
        if index is not None:
            self.cursor_to(self._sheet[index].key, scroll=False)

    def _cursor_into_view(self, row: int | None = None) -> None:
        """Put the cursor on a visible block: the one at `row`, else the last one."""
        height = self._viewport.height
        wanted = height - 1 if row is None else row
        for at in sorted(range(height), key=lambda at: abs(at - wanted)):
            place = self._place_at(at)
            if place is not None and self._sheet[place[0]].stop:
                self.cursor_to(self._sheet[place[0]].key, scroll=False)
                return

    def _cursor_row(self) -> int | None:
        index = self._sheet.find(self._cursor) if self._cursor is not None else None
        return None if index is None else self._row_of(index)[0]

    def _row_of(self, index: int) -> tuple[int | None, int]:
        """The row of a block's first line (negative: above the screen) and its height; None where it is
        out of sight."""
        port, heights = self._viewport, self._sheet.heights
        top, line = port.top
        if index < top:
            return None, heights[index]
        row = heights.offset(index) - port.position
        return (row if row < port.height else None), heights[index]

    def _row_visible(self, index: int) -> bool:
        row, height = self._row_of(index)
        return row is not None and row >= 0 and row + height <= self._viewport.height

    def _beyond(self, index: int, delta: int) -> bool:
        """Whether a visible block goes on past the edge the cursor moves to, and fills more than the screen."""
        row, height = self._row_of(index)
        if row is None or height <= self._viewport.height:
            return False
        return row + height > self._viewport.height if delta > 0 else row < 0

    # --- Scrolling ------------------------------------------------------------------------------------

    def scroll_lines(self, lines: int) -> None:
        """Scroll by lines, as a reader does; the cursor stays at its entry."""
        self._scroll(lines)

    def scroll_pages(self, pages: int) -> None:
        """Scroll by screens less one line."""
        self._scroll(pages * max(self._viewport.height - 1, 1))

    def follow_end(self) -> None:
        """Show the last line and follow from here on."""
        self._viewport.to_end()
        self._place()

    def _scroll(self, lines: int) -> None:
        self._viewport.scroll_by(lines)
        self._place()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._placing and round(new_value) != self._viewport.position:
            self._viewport.scroll_to(round(new_value))
            self._place()

    def watch_new_below(self, count: int) -> None:
        self.post_message(self.BelowChanged(self, count))

    def scroll_to(self, *args: object, **options: object) -> None:
        """Without animation: lines between here and there would be measured for nothing."""
        options["animate"] = False
        super().scroll_to(*args, **options)  # type: ignore[arg-type]

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

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual cuts scroll_y down to the new size here, which is not the reader's doing.
        self._placing = True
        try:
            resized = super()._size_updated(size, virtual_size, container_size, layout)
        finally:
            self._placing = False
        if self._laid_out != self._content_size():
            self._lay_out()
        return resized

    def _content_size(self) -> tuple[int, int]:
        width, height = self.container_size
        return max(width - self.scrollbar_size_vertical, 0), max(height - self.scrollbar_size_horizontal, 0)

    def _lay_out(self) -> None:
        """Another width, height or theme: draw what is visible anew, with the top line where it was."""
        self._laid_out = width, height = self._content_size()
        self._look += 1
        self._viewport.resize(self._body_width(), height if width else 0)
        self._place()
        self.refresh()

    # --- Drawing --------------------------------------------------------------------------------------

    def _body_width(self, wide: bool = False) -> int:
        left = 1 if wide and self._gutter_width else self._gutter_width
        return max(self._laid_out[0] - left - self._margin, MIN_WIDTH)

    def _height_of(self, block: Block) -> int:
        return block.gap + len(self._strips(block))

    def _strips(self, block: Block) -> list[Strip]:
        strips = self._strips_of.get((block, self._look))
        if strips is None:
            self.rendered += 1
            strips = block.render(self._body_width(block.wide), self._roles)
            self._strips_of[(block, self._look)] = strips
        return strips

    def _place_at(self, row: int) -> tuple[int, int] | None:
        """The block and its line at a row of the screen."""
        line = self._viewport.position + row
        if not 0 <= line < self._sheet.heights.total:
            return None
        return self._sheet.heights.locate(line)

    def render_line(self, y: int) -> Strip:
        place = self._place_at(y)
        if place is None:
            return Strip.blank(self.size.width)
        index, line = place
        block = self._sheet[index]
        strip = self._line(block, line)
        strip = strip.extend_cell_length(self._laid_out[0])
        if self._needle is not None:
            strip = _marked(strip, self._needle, self._roles["accent bold underline"], self._gutter_width)
        if block.key == self._cursor and self.has_focus and line == self._cursor_line(index):
            strip = _reversed(strip)
        selection = self.text_selection
        at = index << _LINE_BITS | line
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = _selected(strip, *span, self._roles["reverse"])
        return strip.apply_offsets(0, at)

    def _line(self, block: Block, line: int) -> Strip:
        """Gutter and body of one line, without what cursor, search and selection add."""
        strips = self._strips(block)
        body = strips[line - block.gap] if block.gap <= line < block.gap + len(strips) else Strip.blank(0)
        wide = block.wide and line == block.gap
        width = 1 if wide and self._gutter_width else self._gutter_width
        spans = self._gutter(block.key, line) if self._gutter is not None else ()
        gutter = to_strip(((text, f"{style} deco") for text, style in spans), self._roles)
        gutter = gutter.adjust_cell_length(width)
        mark = self._mark(block.key, line)
        if mark and width:
            gutter = Strip.join([to_strip(((mark, "accent deco"),), self._roles), gutter.crop(1, width)])
        return Strip.join([gutter, body])

    def _mark(self, key: Key, line: int) -> str:
        if self._has_cursor and key == self._cursor:
            index = self._sheet.find(key)
            return "▶" if index is not None and line == self._cursor_line(index) else ""
        if key == self._counterpart:
            index = self._sheet.find(key)
            return "▷" if index is not None and line == self._cursor_line(index) else ""
        return ""

    def _cursor_line(self, index: int) -> int:
        """The line of a block that shows the cursor: its first one, or the first on screen."""
        top, line = self._viewport.top
        first = self._sheet[index].gap
        return max(first, line) if index == top else first

    def _repaint(self, *keys: Key | None) -> None:
        """Paint blocks again that are on screen."""
        for key in keys:
            index = self._sheet.find(key) if key is not None else None
            if index is None:
                continue
            row, height = self._row_of(index)
            if row is not None and row + height > 0:
                self.refresh(Region(0, max(row, 0), self.size.width, height + min(row, 0)))

    # --- Search and selection -------------------------------------------------------------------------

    def search(self, text: str) -> list[Key]:
        """Keys of all blocks that hold `text`, whatever its case, in order."""
        if not text:
            return []
        found = re.compile(re.escape(text), re.IGNORECASE).search
        return [block.key for block in self._sheet if found(block.text())]

    def set_search(self, text: str) -> None:
        """Show where `text` stands on screen; the empty text ends it. Draws no block anew."""
        self._needle = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self.refresh()

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: of blocks selected whole what they stand for, else the lines as they are drawn;
        gutter and decoration left out."""
        if not len(self._sheet):
            return None
        mask = (1 << _LINE_BITS) - 1
        last_index = len(self._sheet) - 1
        first, start = (selection.start.y, selection.start.x) if selection.start else (0, 0)
        final, stop = (selection.end.y, selection.end.x) if selection.end else (last_index << _LINE_BITS | mask, -1)
        parts: list[str] = []
        for index in range(first >> _LINE_BITS, min(final >> _LINE_BITS, last_index) + 1):
            block = self._sheet[index]
            if first >> _LINE_BITS < index < final >> _LINE_BITS or (selection.start is selection.end is None):
                parts += [""] * block.gap + [block.text()]
                continue
            for line in range(block.gap + len(self._strips(block))):
                at = index << _LINE_BITS | line
                if first <= at <= final:
                    low, high = start if at == first else 0, stop if at == final else -1
                    parts.append(_plain(self._line(block, line), low, high))
        return "\n".join(parts), "\n"


def _plain(strip: Strip, start: int, stop: int) -> str:
    """The text of a strip between two characters (-1: its end) without what only decorates it."""
    text, position = "", 0
    for segment in strip:
        end = position + len(segment.text)
        low, high = max(start, position), end if stop < 0 else min(stop, end)
        if low < high and not (segment.style and segment.style.meta.get("deco")):
            text += segment.text[low - position : high - position]
        position = end
    return text.rstrip()


def _reversed(strip: Strip) -> Strip:
    """The cursor row: reverse from end to end."""
    return Strip([Segment(text, (style or Style()) + Style(reverse=True)) for text, style, _ in strip], strip.cell_length)


def _selected(strip: Strip, start: int, stop: int, style: Style) -> Strip:
    """A strip with its characters from `start` to `stop` (-1: its end) reversed."""
    return _restyled(strip, [(start, len(strip.text) if stop < 0 else stop)], style)


def _marked(strip: Strip, needle: re.Pattern[str], style: Style, gutter: int) -> Strip:
    """A strip with every match outside the gutter styled."""
    found = [match.span() for match in needle.finditer(strip.text, gutter) if match.end() > match.start()]
    return _restyled(strip, found, style) if found else strip


def _restyled(strip: Strip, spans: Sequence[tuple[int, int]], style: Style) -> Strip:
    """A strip with a style added to some of its characters, given as spans in order."""
    segments: list[Segment] = []
    position = 0
    for text, own, _ in strip:
        cuts = {0, len(text)}
        for start, stop in spans:
            cuts |= {cut - position for cut in (start, stop) if position < cut < position + len(text)}
        ordered = sorted(cuts)
        for low, high in zip(ordered, ordered[1:], strict=False):
            inside = any(start <= position + low < stop for start, stop in spans)
            segments.append(Segment(text[low:high], (own or Style()) + style if inside else own))
        position += len(text)
    return Strip(segments, sum(cell_len(segment.text) for segment in segments))
