"""Markers that change the view: the state before each change, and the rules for undoing them."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from foldline.protocol import Clear, Edit, Revert, Span, Undo

from .counted_view import Totals
from .items import FateRecord, MessageInMemory, MessageSource, ViewItem, item_from
from .outline import CompactionOutline, MessageOutline

ViewMarker = CompactionOutline | Clear | Edit | Revert
"""Markers that change the view. Each of them can be undone."""
BUILDS_ON = "Compaction {0} builds on entry {1}. Undo compaction {0} first."
WOULD_BRING_BACK = "This would bring back compaction {}, which builds on entry {}. Undo entry {} first."


def undone_markers(undos: Sequence[Undo], markers: Sequence[ViewMarker]) -> set[int]:
    """Return the indices of the markers and undos that are undone.

    An undo is ignored if it is itself undone, or if it lies on a branch that a rewind has left.
    """
    jumps = [
        marker
        for marker in markers
        if isinstance(marker, Revert) and marker.moment is not None
    ]
    newest_first: list[Undo | Revert] = sorted(
        (*undos, *jumps), key=lambda entry: entry.index, reverse=True
    )
    targets = set()
    moment: int | None = None
    for entry in newest_first:
        if entry.index in targets or (moment is not None and entry.index > moment):
            continue
        if isinstance(entry, Undo):
            targets.add(entry.target)
        elif entry.moment is not None and entry.moment < entry.index:
            moment = entry.moment
    return targets


def reached_by(revert: Revert, checkpoints: Mapping[int, int]) -> int | None:
    """Return the index of the entry to which a rewind goes back.

    Returns None if the rewind does not change the view.

    Args:
        checkpoints: the index of each checkpoint entry, by its id.
    """
    back_to = (
        checkpoints.get(revert.checkpoint) if revert.moment is None else revert.moment
    )
    if not revert.context or back_to is None or back_to >= revert.index:
        return None
    return back_to


def markers_in_force(
    markers: Sequence[ViewMarker], undone: Set[int], checkpoints: Mapping[int, int]
) -> list[ViewMarker]:
    """Return the markers that are neither undone nor reverted, oldest first.

    The newest markers are examined first, because an active rewind cancels everything after its target,
    including other rewinds.
    """
    in_force = []
    back_to: int | None = None
    for marker in reversed(markers):
        if marker.index in undone or (back_to is not None and marker.index > back_to):
            continue
        in_force.append(marker)
        reached = (
            reached_by(marker, checkpoints) if isinstance(marker, Revert) else None
        )
        if reached is not None:
            back_to = reached
    return in_force[::-1]


def newest_undoable(
    markers: Sequence[ViewMarker],
) -> CompactionOutline | Clear | Revert | None:
    """Return the newest active compaction, clear or rewind.

    This is the marker undone by an undo without a target. Edits are left out, because they have their own
    keys for undoing.
    """
    for marker in reversed(markers):
        if isinstance(marker, CompactionOutline | Clear | Revert):
            return marker
    return None


def built_on_refusal(target: int, markers: Sequence[ViewMarker]) -> str | None:
    """Return the reason why a later compaction prevents undoing this marker.

    Returns None if no later compaction does.

    Args:
        markers: the active markers, oldest first.
    """
    later = bisect_right(markers, target, key=lambda marker: marker.index)
    for marker in islice(markers, later, None):
        if isinstance(marker, CompactionOutline):
            return BUILDS_ON.format(marker.index, target)
    return None


def undo_refusal(
    undo: Undo,
    undos: Sequence[Undo],
    markers: Sequence[ViewMarker],
    checkpoints: Mapping[int, int],
) -> str | None:
    """Return the reason why an undo would leave a compaction without the view on which it is based.

    Returns None if the undo is allowed. The undo is rejected if the compaction came after the target. It is
    also rejected if it cancels an earlier undo or rewind and would thus restore a compaction, although
    something older has been undone since then.
    """
    undone_after = undone_markers((*undos, undo), markers)
    before = markers_in_force(markers, undone_markers(undos, markers), checkpoints)
    after = markers_in_force(markers, undone_after, checkpoints)
    if refusal := built_on_refusal(undo.target, after):
        return refusal
    indices_before = {marker.index for marker in before}
    for compaction in after:
        if (
            not isinstance(compaction, CompactionOutline)
            or compaction.index in indices_before
        ):
            continue
        for earlier in undos:
            counts = (
                earlier.target in undone_after and earlier.index not in undone_after
            )
            if counts and earlier.target < compaction.index < earlier.index:
                return WOULD_BRING_BACK.format(
                    compaction.index, earlier.target, earlier.index
                )
    return None


# --- the state before a change ---------------------------------------------------------------------

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
