"""The size of the view by kind of item, and the largest items.

Each time, only the changes of the view are counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Literal

from .items import ViewItem

ItemKind = Literal[
    "system",
    "instructions",
    "summaries",
    "pins",
    "skills",
    "user",
    "assistant",
    "results",
    "images",
    "clipped",
    "hidden",
    "notes",
]
"""The kinds of items in a view.

`notes` are Foldline's own messages to the model. `images` are the images in verbatim items.
"""

FIXED: Final[frozenset[ItemKind]] = frozenset({"system", "instructions"})
"""Kinds of items that open every view and are never compacted."""
KEPT: Final[frozenset[ItemKind]] = frozenset({"summaries", "pins", "skills"})
"""Kinds of items that contain text written by a compaction or that compactions must not remove."""

_BY_TYPE: Final[dict[str, ItemKind]] = {
    "user": "user",
    "assistant": "assistant",
    "tool_result": "results",
}


@dataclass(slots=True)
class KindSum:
    """The sizes of all items of one kind, in tokens."""

    items: int = 0
    reported: int = 0
    """Total of the items whose size a provider reported."""
    estimated: int = 0
    """Estimated total of all other items, without calibration."""
    all_estimated: int = 0
    """Estimated total of all items, whether reported or not."""

    @property
    def exact(self) -> bool:
        """Whether the sizes of all items were reported."""
        return not self.estimated


def kind_of(item: ViewItem) -> ItemKind:
    """Return the kind of an item, ignoring its images."""
    if item.is_preamble:
        return "system" if item.outline.type == "system" else "instructions"
    if item.pinned:
        return "skills" if item.outline.origin == "skill" else "pins"
    if item.written:
        return "summaries"
    if item.fate != "live":
        return item.fate
    return _BY_TYPE.get(item.outline.type, "notes")


class Tally:
    """The sums by kind of item, for one view.

    The view reports how many items at its start are unchanged.
    """

    def __init__(self) -> None:
        self._items: list[ViewItem] = []
        self._sums: dict[ItemKind, KindSum] = {}

    def catch_up(self, view: Sequence[ViewItem], unchanged: int) -> None:
        """Count the changes that follow the first `unchanged` items."""
        if unchanged == len(self._items) == len(view):
            return
        start = _common_start(self._items, view, unchanged)
        old_items = self._items[start:]
        new_items = view[start:]
        tail = _common_tail(old_items, new_items)
        old_items = old_items[: len(old_items) - tail]
        new_items = new_items[: len(new_items) - tail]
        self._items[start:] = view[start:]
        for item in old_items:
            self._count(item, -1)
        for item in new_items:
            self._count(item, 1)

    def sum(self, kind: ItemKind) -> KindSum:
        """Return the total size of all items of a kind."""
        return self._sums.get(kind) or KindSum()

    def estimate(self, kinds: Iterable[ItemKind]) -> int:
        """Return the estimated size of all items of these kinds, in tokens without calibration."""
        return sum(self.sum(kind).all_estimated for kind in kinds)

    def heaviest(self, count: int, scale: float) -> list[ViewItem]:
        """Return the `count` largest items.

        For the comparison, estimates are multiplied by `scale`.
        """
        return nlargest(
            count, self._items, key=lambda item: item.reported or item.tokens * scale
        )

    def _count(self, item: ViewItem, sign: int) -> None:
        kind = kind_of(item)
        tokens = item.tokens
        images = item.outline.images if item.fate == "live" else 0
        if images and kind in ("user", "results", "notes"):
            self._add("images", sign, images, None)
            tokens -= images
        self._add(kind, sign, tokens, item.reported)

    def _add(
        self, kind: ItemKind, sign: int, estimated: int, reported: int | None
    ) -> None:
        total = self._sums.setdefault(kind, KindSum())
        total.items += sign
        total.all_estimated += sign * estimated
        if reported is None:
            total.estimated += sign * estimated
        else:
            total.reported += sign * reported


def _common_start(one: Sequence[ViewItem], other: Sequence[ViewItem], same: int) -> int:
    """Count the identical items at the start of both lists.

    Args:
        same: number of items already known to be identical.
    """
    length = min(len(one), len(other))
    while same < length and one[same] is other[same]:
        same += 1
    return same


def _common_tail(one: Sequence[ViewItem], other: Sequence[ViewItem]) -> int:
    count = 0
    length = min(len(one), len(other))
    while count < length and one[-1 - count] is other[-1 - count]:
        count += 1
    return count
