"""`ImportanceCompaction`: the most important older work stays verbatim."""

import asyncio

from foldline.compaction.strategy import CompactionContext
from foldline.memory.importance import importance
from foldline.view.items import Messages

from .selection import compact_units, units_in


class ImportanceCompaction:
    """Keeps the newest work and the most important older messages, and summarises the rest.

    Failures and their fixes, decisions, constraints, plans and the newest code are important.
    """

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        units = await asyncio.to_thread(units_in, ctx)
        scores = await asyncio.to_thread(importance, units)
        return await compact_units(ctx, units, [score.points for score in scores])
