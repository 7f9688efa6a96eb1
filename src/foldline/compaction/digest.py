"""`DigestCompaction`: no model call. What it says is quoted from the history, never invented."""

import asyncio
from collections.abc import Sequence

from foldline.context.digest import digest
from foldline.protocol import BaseMessage

from .strategy import CompactionContext
from .summary import ERRS_HIGH, cut_for, earlier_summary, with_summary
from .summary_text import notes_of


class DigestCompaction:
    """Folds like `SummaryCompaction`, with an extractive digest in place of a model's summary."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        cut = cut_for(ctx)
        if cut is None:
            return None
        request = (cut.request,) if cut.request else ()
        notes = await asyncio.to_thread(
            digest,
            (*cut.history, *request, *cut.prefix),
            previous=notes_of(earlier_summary(cut)) or None,
            focus=ctx.focus,
            max_tokens=int(ctx.max_summary_tokens / ERRS_HIGH),
        )
        return await with_summary(ctx, cut, notes)
