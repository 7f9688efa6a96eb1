"""`DigestCompaction`: an extract of the history in place of a model's summary."""

import asyncio

from foldline.compaction.strategy import CompactionContext
from foldline.compaction.summary_view import (
    cut_for,
    part_before,
    split_turn,
    with_summary,
)
from foldline.compaction.summary_writer import ESTIMATE_MARGIN
from foldline.memory.digest import digest
from foldline.view.items import Messages


class DigestCompaction:
    """Compacts like `SummaryCompaction`, with an extract of the history as the summary."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        cut = cut_for(ctx)
        if cut is None:
            return None
        part = part_before(ctx, cut)
        notes = await asyncio.to_thread(
            digest,
            (*cut.history, *split_turn(cut)),
            previous=part.earlier_notes or None,
            focus=ctx.focus,
            max_tokens=int(ctx.max_summary_tokens / ESTIMATE_MARGIN),
        )
        return await with_summary(ctx, part, notes)
