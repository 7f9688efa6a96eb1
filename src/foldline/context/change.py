"""What one marker did to the view, and how to go back to before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import Edit

from .fates import Before
from .outline import MessageOutline
from .undoing import ViewMarker
from .view import Held, Messages, ViewItem, item_from

_Left = ViewItem | MessageOutline
"""An item, or what makes it again: of what left the view as it came, the outline is enough."""


@dataclass(frozen=True, slots=True)
class Change:
    """A marker, and all that it replaced."""

    marker: ViewMarker
    position: int
    """Of the marker among the entries."""
    pins: frozenset[int]
    fates: Before
    _view: Sequence[_Left]

    @classmethod
    def of(
        cls,
        marker: ViewMarker,
        position: int,
        pins: frozenset[int],
        fates: Before,
        view: Sequence[ViewItem],
        now: Iterable[ViewItem],
    ) -> "Change":
        """`view` is the one before, which becomes its own, `now` the one after it."""
        if isinstance(marker, Edit):  # takes out one entry at most: not worth a look at all the others
            return cls(marker, position, pins, fates, view)
        stays = set(map(id, now))
        left = [item if id(item) in stays or not _as_it_came(item) else item.outline for item in view]
        return cls(marker, position, pins, fates, left)

    def messages_within(self, spans: Sequence[tuple[int, int]]) -> int:
        """How many messages of the view it found, earlier summaries apart, lie in these spans of indices."""
        found = [item.index for item in self._view if not (isinstance(item, ViewItem) and item.written)]
        return sum(any(first <= index <= last for first, last in spans) for index in found)

    def view_before(self, source: Messages) -> list[ViewItem]:
        """The view it found. What it took out as it came is made anew, with messages from `source`."""
        return [item if isinstance(item, ViewItem) else item_from(item, source) for item in self._view]


def _as_it_came(item: ViewItem) -> bool:
    altered = item.content is not None or item.checkpoint is not None or item.fate != "live"
    return not (altered or item.pinned or item.written or isinstance(item.source, Held))
