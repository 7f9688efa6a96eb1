"""Which markers are in force after undos and rewinds, and which undo a fold forbids."""

from collections.abc import Mapping, Sequence

from foldline.protocol import Clear, Edit, Revert, Undo

from .outline import FoldOutline

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
