"""Which markers are in force after undos and rewinds, and which undo a fold forbids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.protocol import Clear, Edit, Revert, Undo

from .fates import Before
from .outline import FoldOutline, MessageOutline
from .view import Held, Messages, ViewItem, item_from

ViewMarker = FoldOutline | Clear | Edit | Revert
"""The markers that change the view, each of which an undo can take back."""


def annulled(undos: Sequence[Undo]) -> frozenset[int]:
    """The targets of the undos in force: an undone undo annuls nothing."""
    targets: set[int] = set()
    for undo in reversed(undos):
        if undo.index not in targets:
            targets.add(undo.target)
    return frozenset(targets)


def in_force(
    markers: Sequence[ViewMarker], undone: frozenset[int], checkpoints: Mapping[int, int]
) -> list[ViewMarker]:
    """The markers that are neither undone nor reverted, oldest first.

    Read backwards: a rewind that counts hides everything down to its checkpoint, other rewinds included.
    """
    found: list[ViewMarker] = []
    back_to: int | None = None
    for marker in reversed(markers):
        if marker.index in undone or (back_to is not None and marker.index > back_to):
            continue
        found.append(marker)
        if isinstance(marker, Revert) and marker.context:
            reached = checkpoints.get(marker.checkpoint, marker.index)
            back_to = reached if reached < marker.index else back_to
    return found[::-1]


def newest_undoable(markers: Sequence[ViewMarker]) -> FoldOutline | Clear | Revert | None:
    """Of the markers in force, what an undo without a target takes back: the newest fold, clear or rewind.

    Edits are taken back where they are made.
    """
    return next((each for each in reversed(markers) if isinstance(each, FoldOutline | Clear | Revert)), None)


def undo_refusal(
    undo: Undo, undos: Sequence[Undo], markers: Sequence[ViewMarker], checkpoints: Mapping[int, int]
) -> str | None:
    """Why this undo would leave a fold in force without what it was built on; None where it would not.

    That is so where the fold came after the target, and where undoing an undo or a rewind would bring back
    a fold after something older than it was undone.
    """
    after = annulled((*undos, undo))
    known = {marker.index for marker in in_force(markers, annulled(undos), checkpoints)}
    for fold in in_force(markers, after, checkpoints):
        if not isinstance(fold, FoldOutline):
            continue
        if undo.target < fold.index:
            return f"Fold {fold.index} builds on entry {undo.target}: undo fold {fold.index} first."
        for earlier in undos:
            builds_on = earlier.index not in after and earlier.target < fold.index < earlier.index
            if builds_on and fold.index not in known:
                return (
                    f"This would bring back fold {fold.index}, which builds on entry {earlier.target}: "
                    f"undo entry {earlier.index} first."
                )
    return None


Reason = Literal[
    "request", "wish", "constraint", "agreed", "decision", "error", "fix", "code", "plan", "report", "stumble"
]

Point = tuple[int, Reason, float]
"""The place of a unit, and what it gets points for."""

MOST: dict[Reason, float] = {
    "request": 3,
    "wish": 2,
    "constraint": 8,
    "agreed": 4,
    "decision": 5,
    "error": 6,
    "fix": 3,
    "code": 6,
    "plan": 4,
    "report": 1,
    "stumble": 1,
}
"""What one unit can get for each reason."""
WORTH = 2.0
"""A unit with fewer points is not kept for its own sake."""

DONE_REQUEST = 1.0
"""A request from long ago: what it asks for is done, or was asked for again."""
RULE = 4.0
DECISION = 1.5
REASONED = 2.5
"""A decision with its reason."""
FAILS = 4.0
"""A command that failed and has not been run again."""
FAILED = 2.0
"""One that has."""
QUOTED = 3.0
"""A failure the user tells of."""
NEWEST_FILE = 3.0
NEWEST_NAME = 1.0
"""Code in an answer, for each name it defines."""


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
