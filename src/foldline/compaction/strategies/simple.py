"""`SimpleCompaction`: writes one summary in tags, and keeps the last two messages."""

from foldline.compaction.strategy import CompactionContext
from foldline.compaction.summary_view import (
    can_shrink,
    part_before,
    split_turn,
    with_summary,
)
from foldline.compaction.summary_writer import SummaryWriter, cached_summary
from foldline.protocol import AssistantMessage, BaseMessage, ThinkingPart, UserMessage
from foldline.view.cut import Cut, cut_before, unseen_from
from foldline.view.items import Messages

KEPT_MESSAGES = 2
"""Number of newest user and assistant messages that are kept, as in kimi-cli."""
_FIRST = "simple"
_UPDATE = "simple-update"


class SimpleCompaction:
    """Keeps the newest two user and assistant messages, with the results of their calls.

    The summary of older work has six tagged sections. The summarising model does not receive the thinking.
    """

    in_chunks = True
    """Whether the strategy respects `CompactionContext.draft_window`."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        cut = _cut(ctx)
        if cut is None:
            return None
        part = part_before(ctx, cut)
        if not await can_shrink(ctx, part):
            return None
        prompt = _UPDATE if cut.previous else _FIRST
        notes = await cached_summary(ctx, cut.position, prompt)
        if notes is None:
            messages = map(_without_thinking, (*cut.history, *split_turn(cut)))
            notes = await SummaryWriter(ctx).write(
                list(messages), part.earlier_notes, first=_FIRST, update=_UPDATE
            )
        return await with_summary(ctx, part, notes)


def _cut(ctx: CompactionContext) -> Cut[BaseMessage] | None:
    """Cut before the kept messages and their tool groups."""
    first_kept = ctx.first_kept_index
    if first_kept is None:
        candidates = [
            message.index
            for message in ctx.history
            if isinstance(message, UserMessage | AssistantMessage)
            and message.index not in ctx.pins
        ]
        if len(candidates) <= KEPT_MESSAGES:
            return None
        # Results that the model has not seen yet are kept, too.
        unseen = ctx.history[unseen_from(ctx.history) :]
        first_kept = min(
            [candidates[-KEPT_MESSAGES], *(message.index for message in unseen[:1])]
        )
    cut = cut_before(ctx.history, first_kept, pins=ctx.pins)
    return cut if cut is not None and cut.pays else None


def _without_thinking(message: BaseMessage) -> BaseMessage:
    parts = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    if len(parts) == len(message.parts):
        return message
    return message.model_copy(update={"parts": parts})
