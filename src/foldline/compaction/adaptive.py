"""`AdaptiveCompaction`, the default: hides old results where that makes room enough, else summarises."""

from collections.abc import Sequence

from foldline.context.tokens import message_tokens
from foldline.protocol import BaseMessage

from .hiding import ToolResultHidingCompaction
from .strategy import CompactionContext
from .summary import SummaryCompaction

ENOUGH = 0.75
"""Of the view: hiding that leaves more would be due again soon, and each time the provider's cache is lost.
Measured (docs/decisions/0014-default-strategy.md)."""


class AdaptiveCompaction:
    """The cheapest fold that will do: stubs, which can be read again and cost no model call, where they free
    enough; a summary of the view as it is where they do not, or where a reader has wishes they cannot follow.
    """

    def __init__(self) -> None:
        self._hiding = ToolResultHidingCompaction()
        self.by_hand = SummaryCompaction()
        """For who asks for a fold: they want one to read."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        hidden = None if _has_wishes(ctx) else await self._hiding.compact(ctx)
        if hidden is not None and _size(hidden) <= ENOUGH * _size(ctx.history):
            return hidden
        return await self.by_hand.compact(ctx)


def _has_wishes(ctx: CompactionContext) -> bool:
    return ctx.first_kept_index is not None or bool(ctx.focus or ctx.guidance)


def _size(messages: Sequence[BaseMessage]) -> int:
    return sum(map(message_tokens, messages))
