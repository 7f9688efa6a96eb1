"""The items of a view, and their total size in tokens.

The size is kept up to date when items are added or removed.
"""

from collections.abc import Iterable
from copy import copy
from functools import reduce
from itertools import takewhile
from typing import NamedTuple, Self

from .items import ViewItem
from .tally import Tally
from .tokens import Scripts


class Totals(NamedTuple):
    """The size of a view, estimated without calibration."""

    tokens: int = 0
    """Number of tokens, without reasoning."""
    thinking: int = 0
    """Number of reasoning tokens."""
    scripts: Scripts = Scripts()

    @classmethod
    def of(cls, items: Iterable[ViewItem]) -> "Totals":
        """Add up the tokens of the items."""
        return reduce(cls.plus, items, cls())

    def plus(self, item: ViewItem) -> "Totals":
        scripts = self.scripts.plus(item.scripts)
        return Totals(self.tokens + item.tokens, self.thinking + item.thinking, scripts)

    def minus(self, item: ViewItem) -> "Totals":
        scripts = self.scripts.minus(item.scripts)
        return Totals(self.tokens - item.tokens, self.thinking - item.thinking, scripts)


class CountedView:
    """The items of a view and their totals.

    Changing one item takes O(1) time, apart from moving the items after it.
    """

    def __init__(self) -> None:
        self.items: list[ViewItem] = []
        self.totals = Totals()
        self._earlier_thinking: int | None = 0
        """Cached value of `earlier_thinking`; None if the sum must be recalculated."""
        self._tally = Tally()
        self._tallied = 0
        """Number of items at the start that have not changed since the last tally."""

    @property
    def earlier_thinking(self) -> int:
        """Estimated reasoning tokens before the newest turn.

        A turn begins with a message sent in the `user` role.
        """
        if self._earlier_thinking is None:
            newest_turn = takewhile(
                lambda item: not _begins_turn(item), reversed(self.items)
            )
            self._earlier_thinking = self.totals.thinking - sum(
                item.thinking for item in newest_turn
            )
        return self._earlier_thinking

    @property
    def tally(self) -> Tally:
        """The sizes by kind of item.

        Each access counts only the changes since the previous one.
        """
        self._tally.catch_up(self.items, self._tallied)
        self._tallied = len(self.items)
        return self._tally

    def insert(self, position: int, item: ViewItem) -> None:
        """Insert an item before `position`."""
        earlier_thinking = self._earlier_thinking
        is_last = position == len(self.items)
        self.items.insert(position, item)
        self._set_totals(self.totals.plus(item), position)
        if is_last and not _begins_turn(item):
            self._earlier_thinking = earlier_thinking

    def replace(self, position: int, item: ViewItem) -> None:
        """Replace the item at `position`."""
        before = self.items[position]
        self.items[position] = item
        self._set_totals(self.totals.plus(item).minus(before), position)

    def remove(self, position: int) -> None:
        """Remove the item at `position`."""
        self._set_totals(self.totals.minus(self.items.pop(position)), position)

    def reset(self, items: list[ViewItem], totals: Totals | None = None) -> None:
        """Replace all items.

        `totals` are the totals of the new items, if known.
        """
        self.items = items
        self._set_totals(totals or Totals.of(items), 0)

    def _set_totals(self, totals: Totals, position: int) -> None:
        """Set the totals after a change at `position`."""
        self.totals = totals
        self._tallied = min(self._tallied, position)
        self._earlier_thinking = None

    def detach(self) -> list[ViewItem]:
        """Return the list of items, and continue with a copy of the list."""
        items = self.items
        self.items = list(items)
        return items

    def fork(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        other.items = list(self.items)
        other._tally = Tally()
        other._tallied = 0
        return other


def _begins_turn(item: ViewItem) -> bool:
    """Return whether the item is sent in the `user` role.

    Chat templates treat every such message as the start of a new turn.
    """
    return item.outline.type in ("user", "developer") and not item.is_preamble
