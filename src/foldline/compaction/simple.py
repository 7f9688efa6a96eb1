"""`SimpleCompaction`: the last few messages stay, everything before them becomes one summary in tags."""

from collections.abc import Sequence

from foldline.context.cut import Cut, cut_before
from foldline.context.language import language_of
from foldline.protocol import AssistantMessage, BaseMessage, ThinkingPart, UserMessage

from .strategy import CompactionContext
from .summary import Writer, cached_notes, earlier_summary, with_summary
from .summary_text import notes_of

KEPT_MESSAGES = 2
"""As in kimi-cli: so many of the newest user and assistant messages stay."""
_FIRST, _UPDATE = "simple", "simple-update"
"""The prompts: without earlier notes, and to bring them up to date."""


class SimpleCompaction:
    """Keeps the newest `keep` user and assistant messages, with the results of their calls.

    The model is asked for current focus, environment, completed tasks, active issues, code state and
    important context, each in a tag. Of a transcript, it does not get to see thinking; names and paths of
    calls it does.
    """

    def __init__(self, *, keep: int = KEPT_MESSAGES) -> None:
        self._keep = keep

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        cut = self._cut(ctx)
        if cut is None:
            return None
        form = _UPDATE if cut.previous else _FIRST
        notes = await cached_notes(ctx, cut.position, form) or await self._summarised(ctx, cut)
        return await with_summary(ctx, cut, notes)

    async def _summarised(self, ctx: CompactionContext, cut: Cut[BaseMessage]) -> str:
        request = (cut.request,) if cut.request else ()
        writer = Writer(ctx, language_of(ctx.history), first=_FIRST, update=_UPDATE)
        told = [_without_thinking(message) for message in (*cut.history, *request, *cut.prefix)]
        return await writer.update(notes_of(earlier_summary(cut)), told)

    def _cut(self, ctx: CompactionContext) -> Cut[BaseMessage] | None:
        """Where the kept messages begin: each is a legal place, and takes its tool group along."""
        first_kept = ctx.first_kept_index
        if first_kept is None:
            said = [
                message.index
                for message in ctx.history
                if isinstance(message, UserMessage | AssistantMessage) and message.index not in ctx.pins
            ]
            if len(said) <= self._keep:
                return None
            first_kept = said[-self._keep]
        cut = cut_before(ctx.history, first_kept, pins=ctx.pins)
        return cut if cut is not None and cut.pays else None


def _without_thinking(message: BaseMessage) -> BaseMessage:
    parts = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    return message if len(parts) == len(message.parts) else message.model_copy(update={"parts": parts})
