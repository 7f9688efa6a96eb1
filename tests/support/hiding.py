"""A strategy that hides results but keeps fewer tool groups than the built-in one."""

from foldline.compaction import (
    CompactionContext,
    ToolResultHidingCompaction,
    with_hidden_results,
)
from foldline.view.items import Messages


class HidingAllBut(ToolResultHidingCompaction):
    """Hides the results of all but the newest `keep` tool groups."""

    def __init__(self, *, keep: int) -> None:
        self._keep = keep

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        return with_hidden_results(ctx.history, ctx.pins, keep=self._keep)
