"""The list of a panel: the keys of its rows, one cursor among all panels, and its scroll position."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.view import BlockView, Gutter

_STRIDE: Final = 1 << 20
"""Pieces an opened row may have: more than any text has screens."""

TOOLS_KEY: Final = (-2, 0)
"""The row of the tool schemas, which are sent with every request and are no entry."""
DIVIDER_KEY: Final = (-1, 0)
"""The rule between what the last request sent and what is new."""


def row_key(index: int, nth: int = 0) -> Key:
    """The row of an entry, or of the nth message a compaction wrote."""
    return (index, nth * _STRIDE)


def row_of(key: Key) -> Key:
    """The row a piece belongs to; a row is its own."""
    return (key[0], key[1] - key[1] % _STRIDE)


def piece_key(row: Key, number: int) -> Key:
    """A piece below a row, counted from 0."""
    return (row[0], row[1] + 1 + number)


def preview_key(row: Key) -> Key:
    """The first lines of a summary, below its row while it is closed."""
    return (row[0], row[1] + _STRIDE - 1)


class EntryList(BlockView):
    """A `BlockView` whose cursor becomes `▷` (the counterpart) while another panel has the cursor."""

    def __init__(
        self,
        *,
        id: str,
        gutter: Gutter | None = None,
        gutter_width: int = 1,
        faded: Callable[[Key], bool] | None = None,
        follow: bool = False,
    ) -> None:
        super().__init__(
            gutter=gutter, gutter_width=gutter_width, faded=faded, margin=0, follow=follow, id=id
        )

    def blocks(self) -> Iterator[Block]:
        """All blocks in order."""
        return iter(self._sheet)

    def give_cursor(self) -> None:
        """Give the cursor to another panel; its row keeps `▷`."""
        if self.cursor is not None:
            self.counterpart = self.cursor
            self.cursor_to(None)

    def take_cursor(self) -> None:
        """Take the cursor back to the row with `▷`, if there is one."""
        key, self.counterpart = self.counterpart, None
        if self.holds(key):
            self.cursor_to(key, quiet=True)

    def show_counterpart(self, key: Key | None) -> None:
        """Put `▷` on a row; scrolls only where that would be out of sight. Posts nothing."""
        self.counterpart = key if self.holds(key) else None
        if self.counterpart is not None:
            self.scroll_to_key(self.counterpart)

    def show_place(self) -> None:
        """Scroll to the cursor, or to `▷`, where that is out of sight."""
        key = self.cursor or self.counterpart
        if key is not None:
            self.scroll_to_key(key)

    def _ensure_cursor(self) -> None:
        if self.cursor is None and self.has_focus and self.counterpart is not None:
            self.take_cursor()
        super()._ensure_cursor()

    def next_where(self, key: Key | None, step: int, wanted: Callable[[Block], bool]) -> Key | None:
        """The next wanted block in a direction, from the one with `key`."""
        at = self.index_of(key)
        index = (at if at is not None else self.count if step < 0 else -1) + step
        while 0 <= index < self.count:
            if wanted(self.block_at(index)):
                return self.block_at(index).key
            index += step
        return None

    def last_row(self) -> Key | None:
        """The last row where the cursor may stand."""
        return self.next_where(None, -1, lambda block: block.stop)

    def widen_gutter(self, width: int) -> None:
        """Make room for longer numbers."""
        if width != self._gutter_width:
            self._gutter_width = width
            self.lay_out()

    def replace_below(self, key: Key, count: int, blocks: Sequence[Block]) -> None:
        """Replace so many blocks below the one with this key: it grows and shrinks downwards."""
        index = self._known(key) + 1
        self._splice(index, index + count, blocks, follow=False)

    def swap(self, blocks: Sequence[Block]) -> None:
        """Replace the blocks that have the same keys, in place."""
        for block in blocks:
            if self.holds(block.key):
                self.replace(block.key, block)


@dataclass(frozen=True, slots=True)
class Scroll:
    """The position of a list: its top line, its cursor and counterpart, whether it follows the end."""

    top: tuple[Key, int] | None = None
    cursor: Key | None = None
    counterpart: Key | None = None
    follow: bool = True

    @property
    def keys(self) -> tuple[Key, ...]:
        """Rows that must be there before it can be restored."""
        top = self.top[0] if self.top is not None else None
        return tuple(key for key in (top, self.cursor, self.counterpart) if key is not None)

    @classmethod
    def of(cls, view: EntryList) -> "Scroll":
        return cls(view.top, view.cursor, view.counterpart, view.follow)

    def restore(self, view: EntryList) -> None:
        """Scroll another list to this position, as far as it has the same rows."""
        view.counterpart = self.counterpart
        if self.cursor is not None:
            view.cursor_to(self.cursor, quiet=True, scroll=False)
        if self.follow:
            view.follow_end()
        elif self.top is not None:
            view.scroll_to_line(*self.top)
        view.show_place()


FOLLOWING: Final = Scroll()


class ViewAnchor:
    """Keeps a list's position while its rows become those of other moments. What the reader looked at comes
    back as soon as its row is there again; a list that followed the end keeps following it."""

    def __init__(self, view: EntryList) -> None:
        self._view = view
        self._wanted = self._left = self._position()

    def _position(self) -> tuple[Key | None, tuple[Key, int] | None, bool, bool]:
        """Cursor, top line, whether the list follows its end, whether the cursor is on the last row."""
        view = self._view
        return view.cursor, view.top, view.follow, view.cursor is not None and view.cursor == view.last_row()

    def before(self) -> None:
        """The rows are about to change."""
        now = self._position()
        if now != self._left:  # the reader has moved since
            self._wanted = now

    def after(self) -> None:
        """The rows have changed."""
        view = self._view
        cursor, top, follows, at_end = self._wanted
        if follows:
            view.follow_end()
        elif top is not None and view.holds(top[0]):
            view.scroll_to_line(*top)
        if cursor is not None and view.cursor is not None:
            last = view.last_row() if at_end else None
            view.cursor_to(last or cursor, quiet=True, scroll=False)
        self._left = self._position()
