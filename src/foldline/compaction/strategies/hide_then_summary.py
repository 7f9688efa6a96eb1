"""`HidingThenSummaryCompaction`: hides old results first, and summarises when none are left."""

from foldline.compaction.strategy import CompactionContext
from foldline.view.items import Messages

from .hide import ToolResultHidingCompaction
from .summary import SummaryCompaction


class HidingThenSummaryCompaction:
    """Hides old tool results, or summarises if there are none to hide.

    Never does both at once.
    """

    def __init__(self) -> None:
        self._hiding = ToolResultHidingCompaction()
        self._summary = SummaryCompaction()

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        view = await self._hiding.compact(ctx)
        if view is None:
            view = await self._summary.compact(ctx)
        return view
