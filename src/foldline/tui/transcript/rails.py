"""How much of each line the model still has: the rail left of it, and the muted colour of what it lost."""

from collections.abc import Callable
from typing import Final

from foldline.context.projection import Projection
from foldline.tui.blocks import BlockView, Key, Spans

_RAILS: Final = {
    "live": ("┃", "live"),
    "clipped": ("╏", "altered"),
    "hidden": ("╏", "altered"),
    "summarised": ("┊", "folded"),
}
_NONE: Final = (" ", "")
_GONE: Final = ("summarised", "truncated", "reverted", "cleared", "dropped")
"""Fates of what is no longer in the view as it was said."""


class Rails:
    """Asks the projection while a line is painted: after a fold one repaint shows all rails as they are.
    `entry_of` says which entry a block stands for: of a tool call its result."""

    def __init__(self, view: BlockView, projection: Projection, entry_of: Callable[[Key], int]) -> None:
        self._view = view
        self._projection = projection
        self._entry_of = entry_of
        self.cut: Key | None = None
        """The first block of the verbatim tail."""

    def gutter(self, key: Key, line: int) -> Spans:
        at = self._view.index_of(key)
        if at is None:
            return ()
        block = self._view.block_at(at)
        if line < block.gap and at:
            key = self._view.block_at(at - 1).key  # what separates two entries belongs to the upper one
        elif key == self.cut and line == block.gap:
            return ((" ", ""), ("┣", "accent"), (" ", ""))
        return ((" ", ""), self._rail(self._entry_of(key)), (" ", ""))

    def _rail(self, index: int) -> tuple[str, str]:
        if index > self._projection.last_index:
            return _RAILS["live"]  # it is being written
        return _RAILS.get(self._projection.fate(index).kind, _NONE)

    def faded(self, key: Key) -> bool:
        """Whether the model has this no longer, or only through a summary."""
        index = self._entry_of(key)
        return index <= self._projection.last_index and self._projection.fate(index).kind in _GONE
