"""The list in a panel.

Defines row keys, a cursor that moves between panels, and the scroll position.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.view import BlockView, Gutter

_STRIDE: Final = 1 << 20
"""Distance between the row keys of two entries, larger than the number of pieces below any row."""

TOOLS_KEY: Final = (-2, 0)
"""Key of the row for the tool schemas, which every request contains."""
TOOLS_ROW: Final = "The tool schemas are sent with every request."
DIVIDER_KEY: Final = (-1, 0)
"""Key of the rule above the items that the last request did not contain."""


def row_key(index: int, nth: int = 0) -> Key:
    """Return the row key of an entry, or of a compaction's message number `nth`."""
    return (index, nth * _STRIDE)


def row_of(key: Key) -> Key:
    """Return the key of the row to which a block belongs.

    For a row, this is the row's own key.
    """
    return (key[0], key[1] - key[1] % _STRIDE)


def piece_key(row: Key, number: int) -> Key:
    """Return the key of a piece below a row, numbered from 0."""
    return (row[0], row[1] + 1 + number)


def preview_key(row: Key) -> Key:
    """Return the key of the preview below a collapsed summary."""
    return (row[0], row[1] + _STRIDE - 1)


class EntryList(BlockView):
    """A list that shares one cursor with the lists in other panels.

    While another panel has the cursor, the corresponding row in this list is marked `▷`.
    """

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
            gutter=gutter,
            gutter_width=gutter_width,
            faded=faded,
            margin=0,
            follow=follow,
            id=id,
        )

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks in order."""
        return iter(self._blocks)

    def give_cursor(self) -> None:
        """Give up the cursor, and mark its row with `▷`."""
        if self.cursor is not None:
            self.counterpart = self.cursor
            self.cursor_to(None)

    def take_cursor(self) -> None:
        """Move the cursor to the row marked `▷`, if there is one."""
        key = self.counterpart
        self.counterpart = None
        if self.holds(key):
            self.cursor_to(key, quiet=True)

    def show_counterpart(self, key: Key | None) -> None:
        """Mark a row with `▷` and scroll to it, without posting `CursorMoved`."""
        self.counterpart = key if self.holds(key) else None
        if self.counterpart is not None:
            self.scroll_to_key(self.counterpart)

    def show_place(self) -> None:
        """Scroll to the cursor or, without a cursor, to the row marked `▷`."""
        key = self.cursor or self.counterpart
        if key is not None:
            self.scroll_to_key(key)

    def show_in_middle(self, key: Key) -> None:
        """Scroll a row to the middle, if there are enough rows below."""
        index = self.index_of(key)
        if index is not None:
            self._show_at(index, self.size.height // 2)

    def _ensure_cursor(self) -> None:
        if self.cursor is None and self.has_focus and self.counterpart is not None:
            self.take_cursor()
        super()._ensure_cursor()

    def next_where(
        self, key: Key | None, step: int, matches: Callable[[Block], bool]
    ) -> Key | None:
        """Find the next block for which `matches` is true.

        Args:
            key: the block to start from; None to start outside the list.
            step: 1 searches downwards, -1 upwards.
        """
        index = self.index_of(key)
        if index is None:
            index = self.count if step < 0 else -1
        index += step
        while 0 <= index < self.count:
            block = self.block_at(index)
            if matches(block):
                return block.key
            index += step
        return None

    def last_row(self) -> Key | None:
        """Return the last block on which the cursor can be placed, if any."""
        return self.next_where(None, -1, lambda block: block.stop)

    def widen_gutter(self, width: int) -> None:
        """Change the width of the gutter to fit longer entry numbers."""
        if width != self._gutter_width:
            self._gutter_width = width
            self.lay_out()

    def replace_below(self, key: Key, count: int, blocks: Sequence[Block]) -> None:
        """Replace the `count` blocks below a row, without moving the row on the screen."""
        index = self._index(key) + 1
        self._splice(index, index + count, blocks, follow=False)


@dataclass(frozen=True, slots=True)
class ScrollPosition:
    """The scroll position and cursor of a list."""

    top: tuple[Key, int] | None = None
    cursor: Key | None = None
    counterpart: Key | None = None
    follow: bool = True

    @classmethod
    def of(cls, view: EntryList) -> "ScrollPosition":
        return cls(view.top, view.cursor, view.counterpart, view.follow)

    def restore(self, view: EntryList) -> None:
        """Scroll a list to this position, or as close as its rows allow."""
        view.counterpart = self.counterpart
        if self.cursor is not None:
            view.cursor_to(self.cursor, quiet=True, scroll=False)
        if self.follow:
            view.follow_end()
        elif self.top is not None:
            view.scroll_to_line(*self.top)
        view.show_place()


class _ListPosition(NamedTuple):
    cursor: Key | None
    top: tuple[Key, int] | None
    follows_end: bool
    is_on_last_row: bool


class ViewAnchor:
    """Keeps a list's position while the list shows different points in history.

    The list returns to the row that the user selected as soon as this row exists again. A list that was
    following its end continues to do so.
    """

    def __init__(self, view: EntryList) -> None:
        self._view = view
        self._last = self._position()
        self._chosen = self._last
        """The position that the user selected, to which the list returns when possible."""

    def _position(self) -> _ListPosition:
        view = self._view
        is_on_last_row = view.cursor is not None and view.cursor == view.last_row()
        return _ListPosition(view.cursor, view.top, view.follow, is_on_last_row)

    def before(self) -> None:
        """Record the position. Called before the rows change."""
        now = self._position()
        if now != self._last:  # the user has moved since then
            self._chosen = now

    def after(self) -> None:
        """Restore the position. Called after the rows have changed."""
        view = self._view
        cursor, top, follows_end, is_on_last_row = self._chosen
        if follows_end:
            view.follow_end()
        elif top is not None and view.holds(top[0]):
            view.scroll_to_line(*top)
        if cursor is not None and view.cursor is not None:
            last = view.last_row() if is_on_last_row else None
            view.cursor_to(last or cursor, quiet=True, scroll=False)
        self._last = self._position()
