"""`ImportanceCompaction`: what matters of the old stays word for word, the rest becomes one summary."""

import asyncio
from collections.abc import Sequence

from foldline.context.importance import importance
from foldline.protocol import BaseMessage

from .selection import fold, units_in
from .strategy import CompactionContext


class ImportanceCompaction:
    """Keeps the newest work, and of all before it the messages that tell most: failures and their fixes,
    decisions, constraints, the newest code. "ok, go on" is not kept at the cost of what it agrees to.
    """

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        units = await asyncio.to_thread(units_in, ctx)
        scores = await asyncio.to_thread(importance, units)
        return await fold(ctx, units, [score.points for score in scores])
