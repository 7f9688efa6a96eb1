"""A marker's change of the view, with the state before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import Edit, Span

from .counted_view import Totals
from .items import FateRecord, MessageInMemory, MessageSource, ViewItem, item_from
from .outline import MessageOutline
from .undo import ViewMarker

_ItemBefore = ViewItem | MessageOutline
"""An item of an earlier view. For an unaltered item, the outline is enough to recreate the item."""


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A marker that changed the view, and the state before the change."""

    marker: ViewMarker
    position: int
    """Position of the marker in the list of entries."""
    pins: frozenset[int]
    fates: FateRecord
    totals: Totals
    """Token totals of the view before the change."""
    sizes: tuple[int, int]
    """Sizes of the view before and after the change, in tokens.

    They are estimated with the calibration at that time.
    """
    _view: Sequence[_ItemBefore]
    """The view before the change, as returned by `items_before`."""

    def messages_within(self, spans: Sequence[Span]) -> int:
        """Count the messages of the earlier view that lie within these spans.

        Earlier summaries are not counted.
        """
        messages = (
            item
            for item in self._view
            if not (isinstance(item, ViewItem) and item.written)
        )
        return sum(is_within(message.index, spans) for message in messages)

    def view_before(self, source: MessageSource) -> list[ViewItem]:
        """Return the view before the change, with new items that read from `source`."""
        return [
            item if isinstance(item, ViewItem) else item_from(item, source)
            for item in self._view
        ]


def items_before(
    marker: ViewMarker, before: Sequence[ViewItem], after: Iterable[ViewItem]
) -> Sequence[_ItemBefore]:
    """Return the view before a change, in a form that takes little memory.

    Unaltered items that left the view are kept as outlines.
    """
    if isinstance(marker, Edit):
        return before  # an edit removes few items, so the others need not be examined
    kept = set(map(id, after))
    items = []
    for item in before:
        can_be_made_again = id(item) not in kept and _is_unaltered(item)
        items.append(item.outline if can_be_made_again else item)
    return items


def _is_unaltered(item: ViewItem) -> bool:
    if item.content is not None or item.checkpoint is not None or item.fate != "live":
        return False
    return not (item.pinned or item.written or isinstance(item.source, MessageInMemory))


def is_within(index: int, spans: Sequence[Span]) -> bool:
    for first, last in spans:  # noqa: SIM110 - once for each entry: `any` takes twice as long
        if first <= index <= last:
            return True
    return False
