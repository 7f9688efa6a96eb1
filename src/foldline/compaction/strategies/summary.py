"""`SummaryCompaction`: a model summarises older work, and recent work stays verbatim."""

from foldline.compaction.strategy import CompactionContext
from foldline.compaction.summary_view import (
    can_shrink,
    cut_for,
    only_clipped,
    part_before,
    split_turn,
    with_summary,
)
from foldline.compaction.summary_writer import SummaryWriter, cached_summary
from foldline.protocol import BaseMessage
from foldline.view.cut import Cut
from foldline.view.items import Messages

_PREFIX = "summary-prefix"
"""The prompt for summarising the first part of a turn whose second part is kept."""


class SummaryCompaction:
    """Replaces everything before the cut by one summary.

    If the cut splits a turn, that turn's request stays verbatim.
    """

    in_chunks = True
    """Whether the strategy respects `CompactionContext.draft_window`."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        cut = cut_for(ctx)
        if cut is None:
            return only_clipped(ctx)
        part = part_before(ctx, cut)
        if not await can_shrink(ctx, part):
            return only_clipped(ctx)
        notes = await self.notes(ctx, cut, part.earlier_notes)
        return await with_summary(ctx, part, notes)

    async def notes(
        self, ctx: CompactionContext, cut: Cut[BaseMessage], previous: str
    ) -> str:
        """Return the notes of the new summary.

        They include the earlier notes (docs/design/invariants.md).
        """
        notes = await cached_summary(ctx, cut.position, _prompt_for(cut))
        if notes is not None:
            return notes
        writer = SummaryWriter(ctx)
        turn_start = split_turn(cut)
        if not cut.history and not previous:
            return await writer.write(turn_start, first=_PREFIX)
        notes = await writer.write(cut.history or turn_start, previous)
        if cut.history and cut.prefix:
            notes += "\n\n" + await writer.write(turn_start, first=_PREFIX)
        return notes


def _prompt_for(cut: Cut[BaseMessage]) -> str:
    """Return the name of the prompt for a summary written with a single request."""
    if cut.previous:
        return "summary-update"
    return "summary-first" if cut.history else _PREFIX
