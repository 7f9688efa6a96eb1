"""`HidingThenSummaryCompaction`: hides old tool results; where there is nothing to hide, summarises."""

from collections.abc import Sequence

from foldline.protocol import BaseMessage

from .hiding import KEPT_GROUPS, ToolResultHidingCompaction
from .strategy import CompactionContext
from .summary import SummaryCompaction


class HidingThenSummaryCompaction:
    """Exactly this: hide, else summarise. Never both in one fold."""

    def __init__(self, *, keep: int = KEPT_GROUPS) -> None:
        self._hiding = ToolResultHidingCompaction(keep=keep)
        self._summary = SummaryCompaction()

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        hidden = await self._hiding.compact(ctx)
        return await self._summary.compact(ctx) if hidden is None else hidden
