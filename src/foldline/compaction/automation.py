"""When folding by itself stops until the user acts, and what is named then. Pure."""

from foldline.context.outline import FoldOutline
from foldline.context.projection import Projection
from foldline.context.undoing import ViewMarker
from foldline.context.view import ViewItem
from foldline.protocol import Compaction, Revert, ToolResultMessage, Undo

INEFFECTIVE = 0.9
"""A fold that leaves more than this share of the view was of no use."""


def pause_reason(projection: Projection) -> str:
    """Why nothing is compacted by itself any more, as a sentence; empty where it is.

    The two newest changes of the view are automatic compactions that were of no use, or wrote the same
    summary: another would loop. An edit, a clear, a rewind or a compaction by hand since is the user acting
    (invariant 8); a D-Mail is not.
    """
    newest = [marker for marker in projection.markers if not _is_dmail(marker)][-2:]
    folds = [marker for marker in newest if isinstance(marker, FoldOutline) and marker.reason != "manual"]
    if len(folds) < 2:
        return ""
    if all(fold.tokens_after > INEFFECTIVE * fold.tokens_before for fold in folds):
        return "Two folds in a row freed little."
    if _wrote_the_same(projection, *folds):
        return "Two summaries in a row say the same: the work does not get on."
    return ""


def _wrote_the_same(projection: Projection, one: FoldOutline, other: FoldOutline) -> bool:
    """Whether both wrote one summary. Only where their sizes agree are the texts looked at: they may be on
    disk."""
    sizes = [[piece.message.tokens for piece in fold.written] for fold in (one, other)]
    if not sizes[0] or sizes[0] != sizes[1]:
        return False
    texts = [projection.entry(fold.index) for fold in (one, other)]
    return len({text.summary for text in texts if isinstance(text, Compaction)}) == 1


def _is_dmail(marker: ViewMarker) -> bool:
    return isinstance(marker, Revert) and marker.message is not None


def fold_taken_back(projection: Projection) -> bool:
    """Whether the newest change of the view is a fold the user took back: it is not made again unasked."""
    newest = projection.newest_change
    return isinstance(newest, Undo) and isinstance(projection.outline(newest.target), FoldOutline)


def no_step_since_fold(projection: Projection) -> bool:
    """Whether no request has left since the newest fold: another one would follow it without a real step."""
    newest = projection.newest_change
    return isinstance(newest, FoldOutline) and newest.index > projection.newest_request


def largest_items(projection: Projection, count: int = 3) -> str:
    """The largest items of the view, named for a person."""
    scale = projection.calibration.scale(projection.model)
    items = sorted(projection.view, key=lambda item: item.tokens, reverse=True)[:count]
    return ", ".join(
        f"entry {item.index} ({kind_of(item)}, {round(item.tokens * scale):,} tokens)" for item in items
    )


def kind_of(item: ViewItem) -> str:
    """What an item is, for a person: of a result the tool, else its kind."""
    return item.message.name if isinstance(item.message, ToolResultMessage) else item.kind
