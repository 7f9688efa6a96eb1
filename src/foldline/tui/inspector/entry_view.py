"""A panel's list: the shared block view with one cursor among all panels, and rows of what is gone muted."""

from collections.abc import Callable, Iterator, Sequence

from foldline.tui.blocks import Block, BlockView, Gutter, Key


class EntryView(BlockView):
    """A `BlockView` whose cursor becomes `▷` while another panel has the cursor."""

    def __init__(
        self,
        *,
        gutter: Gutter,
        gutter_width: int,
        faded: Callable[[Key], bool],
        follow: bool,
        id: str,
    ) -> None:
        super().__init__(
            gutter=gutter, gutter_width=gutter_width, faded=faded, margin=0, follow=follow, id=id
        )

    def blocks(self) -> Iterator[Block]:
        """All blocks in order."""
        return iter(self._sheet)

    # --- One cursor -----------------------------------------------------------------------------------

    def give_cursor(self) -> None:
        """Another panel takes the cursor: what it stood on keeps `▷`."""
        if self.cursor is not None:
            self.counterpart = self.cursor
            self.cursor_to(None)

    def take_cursor(self) -> None:
        """This panel has the cursor now: on `▷` where there is one, else on a row in sight."""
        key, self.counterpart = self.counterpart, None
        if key is not None and self.index_of(key) is not None:
            self.cursor_to(key, quiet=True)

    def show_counterpart(self, key: Key | None) -> None:
        """Put `▷` on a row; scrolls only where that would be out of sight. Posts nothing."""
        self.counterpart = key if key is not None and self.index_of(key) is not None else None
        if self.counterpart is not None:
            self.scroll_to_key(self.counterpart)

    def _ensure_cursor(self) -> None:
        if self.cursor is None and self.has_focus and self.counterpart is not None:
            self.take_cursor()
        super()._ensure_cursor()

    def stop_where(self, key: Key | None, step: int, wanted: Callable[[Block], bool]) -> Key | None:
        """The next block in a direction, from the one with `key`, that is wanted."""
        at = self.index_of(key) if key is not None else None
        index = (at if at is not None else self.count if step < 0 else -1) + step
        while 0 <= index < self.count:
            if wanted(self.block_at(index)):
                return self.block_at(index).key
            index += step
        return None

    # --- Looks ----------------------------------------------------------------------------------------

    def widen_gutter(self, width: int) -> None:
        """Room for longer numbers. Draws what is visible anew where that is news."""
        if width != self._gutter_width:
            self._gutter_width = width
            self._lay_out()

    def redraw(self) -> None:
        """Draw the visible blocks anew: numbers all of them show have changed."""
        self._lay_out()

    def replace_below(self, key: Key, count: int, blocks: Sequence[Block]) -> None:
        """Put blocks in the place of so many below the one with this key: it grows and shrinks downwards."""
        index = self._known(key) + 1
        self._splice(index, index + count, blocks, follow=False)

    def swap(self, blocks: Sequence[Block]) -> None:
        """Put blocks in the place of those with the same keys, in place."""
        for block in blocks:
            if self.index_of(block.key) is not None:
                self.replace(block.key, block)
