"""What the projection says, as the plain figures that meter and side list show."""

from foldline.agent.desk import Desk
from foldline.compaction import plan
from foldline.context.cut import find_cut
from foldline.context.files import TrackedFile, tracked_files
from foldline.context.projection import Projection
from foldline.context.tokens import message_tokens
from foldline.context.view import first_words
from foldline.context.weight import categories, entry_weight
from foldline.protocol import BaseMessage
from foldline.tui.state import FileRow, FoldRow, PinRow, Room, SidebarData, Weights


def room_of(desk: Desk, *, folding: bool) -> Room:
    """The window and what fills it. `folding`: a fold is being made, so its part is shown as such."""
    projection, budget = desk.projection, desk.budget
    shares = categories(projection, overhead=desk.overhead)
    size = desk.size()
    gone, cut = _planned(desk, size) if folding or size >= budget.soft_mark else (0, None)
    verbatim = shares.verbatim - (gone if folding else 0)
    return Room(
        size=size,
        window=budget.window,
        soft=budget.soft_mark,
        threshold=budget.threshold,
        cut=cut,
        weights=Weights(shares.system, shares.summaries, gone if folding else 0, max(0, verbatim)),
    )


def _planned(desk: Desk, size: int) -> tuple[int, int | None]:
    """Tokens that a fold would take away now, and where in the view it would cut."""
    planned = plan(desk.projection, desk.budget, "threshold", overhead=desk.overhead)
    if planned is None or planned.cut is None:
        return 0, None
    scale = desk.projection.calibration.scale(desk.projection.model)
    gone = round(scale * sum(message_tokens(message) for message in planned.cut.folded))
    tail = round(scale * sum(message_tokens(message) for message in planned.cut.tail))
    return gone, max(0, size - tail)


def planned_cut(desk: Desk) -> int | None:
    """Index of the entry at which a fold would cut now."""
    scale = desk.projection.calibration.scale(desk.projection.model)
    messages = [item.message for item in desk.projection.view]
    cut = find_cut(messages, int(desk.budget.keep_recent_tokens / scale), pins=desk.projection.pins)
    return None if cut is None else cut.first_kept_index


def sidebar_of(projection: Projection) -> SidebarData:
    """Files, pins and folds of the session."""
    files = tracked_files(projection)
    in_force = {fold.index for fold in projection.compactions()}
    return SidebarData(
        modified=tuple(_row(file) for file in files if file.modified),
        read=tuple(_row(file) for file in files if not file.modified),
        pinned=tuple(
            PinRow(index, first_words(message), entry_weight(projection, message).tokens)
            for index in sorted(projection.pins)
            if isinstance(message := projection.entry(index), BaseMessage)
        ),
        folds=tuple(
            FoldRow(
                fold.index,
                fold.tokens_before,
                fold.tokens_after,
                f"{fold.at.astimezone():%H:%M}" if fold.at else "",
                undone=fold.index not in in_force,
            )
            for fold in projection.folds
        ),
    )


def _row(file: TrackedFile) -> FileRow:
    return FileRow(file.path, file.presence, file.added, file.removed)
