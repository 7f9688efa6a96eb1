"""`AdaptiveCompaction`, the default: the cheapest sufficient compaction, without a model."""

from foldline.compaction.strategy import CompactionContext, tokens_of
from foldline.view.items import Messages

from .digest import DigestCompaction
from .hide import with_hidden_results
from .summary import SummaryCompaction

ENOUGH = 0.75
"""Hiding is sufficient if at most this fraction of the view remains.

If more remained, the next compaction would soon be due, and each compaction invalidates the provider's cache.
The value was chosen by measurement (docs/decisions/0014-default-strategy.md).
"""


class AdaptiveCompaction:
    """Hides old results if that frees enough; otherwise writes an extract of the history.

    The results of at most five tool groups are kept, with at most `keep_recent_tokens` tokens in total.
    Before the window is full, only large results are hidden, and only if that saves more than it costs
    (`price`). Compactions with a focus, guidance or a user-selected cut need a model, so `by_hand` performs
    them.
    """

    def __init__(self) -> None:
        self._extract = DigestCompaction()
        self.by_hand = SummaryCompaction()
        """The strategy for manual compactions, from which the user expects a readable summary."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        if ctx.first_kept_index is not None or ctx.focus or ctx.guidance:
            return await self.by_hand.compact(ctx)
        view = with_hidden_results(
            ctx.history,
            ctx.pins,
            max_kept=ctx.keep_recent_tokens,
            least=ctx.least_hidden or 0,
        )
        if ctx.least_hidden is not None:
            return view
        if view is not None and tokens_of(view) <= ENOUGH * tokens_of(ctx.history):
            return view
        return await self._extract.compact(ctx)
