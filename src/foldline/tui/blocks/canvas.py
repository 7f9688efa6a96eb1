"""Draws many blocks by lines: holds them, keeps the top line on its row, draws only what is visible."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from textual.geometry import Region, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from foldline.tui.blocks.block import MIN_WIDTH, Block, BlockBatch, BlockList, Key
from foldline.tui.blocks.cells import Spans, to_strip
from foldline.tui.blocks.styles import Styles, ThinBar, faded, styles_from
from foldline.tui.blocks.viewport import Place, Viewport

_LINES: Final = 600
"""Lines that are kept: ten screens, and few enough that Python's garbage collector, which looks at all of
their 20 parts each again and again while text streams, does not hold up a frame."""


class StripCache:
    """Strips by block; of the oldest only as many lines as there is room for. Those of one width and theme:
    whoever changes these clears it."""

    def __init__(self) -> None:
        self._strips: dict[Block, list[Strip]] = {}
        self._lines = 0

    def get(self, block: Block) -> list[Strip] | None:
        """The strips of a block, which was of use now; None where they are not kept."""
        strips = self._strips.pop(block, None)
        if strips is not None:
            self._strips[block] = strips
        return strips

    def put(self, block: Block, strips: list[Strip]) -> None:
        """Keep these. The oldest go where there are too many lines."""
        self._strips[block] = strips
        self._lines += len(strips)
        while self._lines > _LINES and len(self._strips) > 1:
            self._lines -= len(self._strips.pop(next(iter(self._strips))))

    def clear(self) -> None:
        self._strips.clear()
        self._lines = 0


Gutter = Callable[[Key, int], Spans]
"""What stands left of a line: (key, line of the block, gap lines included) to styled text."""
Faded = Callable[[Key], bool]
"""Whether a block is drawn muted: what the model has no longer."""


class BlockCanvas(ScrollView):
    """A scrolling list of blocks with a gutter; `BlockView` adds what a reader does with it.

    Gutter and fading are drawn with every line and are no part of a block's strips: a fold changes all rails
    by one `refresh()`. `rendered` counts the blocks drawn so far.
    """

    DEFAULT_CSS: ClassVar[str] = """
    BlockCanvas {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """

    new_below: var[int] = var(0, init=False)
    """Lines below the last visible one that came while the view did not follow."""

    def __init__(
        self,
        *,
        gutter: Gutter | None,
        gutter_width: int,
        faded: Faded | None,
        margin: int,
        follow: bool,
        name: str | None,
        id: str | None,
        classes: str | None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._rails = gutter
        self._rail_width = gutter_width
        self._faded = faded
        self._margin = margin
        self._roles = Styles()
        self._drawn = StripCache()
        self.rendered = 0
        self._sheet = BlockList(self._height_of)
        self._viewport = Viewport(self._sheet, follow)
        self._placing = False
        self._laid_out: tuple[int, int] = (0, 0)

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

    def new_batch(self) -> BlockBatch:
        """An empty one, for blocks that are to be shown here."""
        return BlockBatch(self._sheet.width)

    def set_blocks(self, blocks: Iterable[Block] | BlockBatch) -> None:
        """Show other blocks. The top line stays at its entry, or at the nearest that is still there."""
        self._viewport.replace_all(blocks if isinstance(blocks, BlockBatch) else list(blocks))
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

    def insert_before(self, key: Key, *blocks: Block) -> None:
        """Put blocks above the one with this key, which stays on its row. Raises `KeyError` for an unknown
        key."""
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
        self._viewport.splice(start, stop, blocks, follow)
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

    @property
    def roles(self) -> Styles:
        """The colour roles blocks are drawn with."""
        return self._roles

    def set_gutter(self, gutter: Gutter | None, faded: Faded | None = None) -> None:
        """Another gutter, and what is drawn muted. Draws no block anew."""
        self._rails, self._faded = gutter, faded
        self.refresh()

    def restyle(self) -> None:
        """Take the colour roles from the app's theme."""
        roles = styles_from(self.app.theme_variables, self.app.no_color)
        if roles != self._roles:
            self._roles = roles
            self._lay_out()

    def on_mount(self) -> None:
        self._refresh_scrollbars()
        self.vertical_scrollbar.renderer = ThinBar  # type: ignore[misc]  # as Textual documents it
        self.app.theme_changed_signal.subscribe(self, self._on_theme)
        self.restyle()

    def on_unmount(self) -> None:
        """Nothing of what was shown stays: the signal would keep us, and all blocks with us; so would a
        screen that the collector does not look at any more (`uncollected`)."""
        self.app.theme_changed_signal.unsubscribe(self)
        self._drawn.clear()
        self._sheet.replace_all(())

    def _on_theme(self, _theme: Theme) -> None:
        self.restyle()
        self.refresh()

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
        """Bring a line of a block to the top row."""
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

    def scroll_to_place(self, key: Key, line: int) -> None:
        """Bring a line of a block to the top row."""
        index = self._sheet.find(key)
        if index is not None:
            self._viewport.to_place((index, line))
            self._place()

    def scroll_to(self, *args: object, **options: object) -> None:
        """Without animation: lines between here and there would be measured for nothing."""
        options["animate"] = False
        super().scroll_to(*args, **options)  # type: ignore[arg-type]

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Wheel, scrollbar and Textual's own scrolling arrive here as a line number."""
        super().watch_scroll_y(old_value, new_value)
        if not self._placing and round(new_value) != self._viewport.position:
            self._viewport.scroll_to(round(new_value))
            self._place()

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

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
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
        """Another size or theme: draw what is visible anew, with the top line where it was."""
        width, height = self._content_size()
        self._laid_out = width, height
        self._drawn.clear()
        self._viewport.resize(self._body_width(), height if width else 0)
        self._place()
        self.refresh()

    # --- Drawing --------------------------------------------------------------------------------------

    def _left(self, wide: bool) -> int:
        """Cells of gutter before a line's body: of a wide line only the cursor's column."""
        return min(self._rail_width, 1) if wide else self._rail_width

    def _body_width(self, wide: bool = False) -> int:
        return max(self._laid_out[0] - self._left(wide) - self._margin, MIN_WIDTH)

    def _height_of(self, block: Block) -> int:
        return block.gap + len(self._strips(block))

    def _strips(self, block: Block) -> list[Strip]:
        strips = self._drawn.get(block)
        if strips is None:
            self.rendered += 1
            strips = block.render(self._body_width(block.wide), self._roles)
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

    def _line(self, block: Block, line: int, mark: str = "") -> Strip:
        """One line of a block behind its gutter, in whose first cell `mark` stands."""
        strips = self._strips(block)
        at = line - block.gap
        body = strips[at] if 0 <= at < len(strips) else Strip.blank(0)
        if self._faded is not None and not block.wide and self._faded(block.key):
            body = faded(body, self._roles["muted"])
        left = self._left(block.wide and at == 0)
        rails = self._rails(block.key, line) if self._rails is not None else ()
        gutter = to_strip(((text, f"{style} deco") for text, style in rails), self._roles)
        gutter = gutter.adjust_cell_length(left, self._roles["deco"])
        if mark and left:
            gutter = Strip.join([to_strip([(mark, "accent deco")], self._roles), gutter.crop(1, left)])
        return Strip.join([gutter, body])
