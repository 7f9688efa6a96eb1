"""Builds the view around a new summary.

Determines the cut and the messages that stay verbatim.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.memory.clip import clip_messages
from foldline.protocol import BaseMessage
from foldline.view.cut import (
    Cut,
    clip_limit,
    cut_at,
    cut_before,
    find_cut,
    giant_limit,
    giant_results,
)
from foldline.view.items import Messages, is_preamble

from .strategy import CompactionContext, tokens_of
from .summary_text import framed, notes_of, unframed, with_appendix

_LEAST_SUMMARY = 60
"""Size of a minimal summary, in tokens. It consists of little more than headings."""


def cut_for(ctx: CompactionContext) -> Cut[BaseMessage] | None:
    """Return the planned cut, or otherwise the user's cut, or otherwise the default cut."""
    if ctx.cut_position is not None:
        return cut_at(ctx.history, ctx.cut_position, pins=ctx.pins)
    if ctx.first_kept_index is None:
        return find_cut(ctx.history, ctx.keep_recent_tokens, pins=ctx.pins)
    return cut_before(ctx.history, ctx.first_kept_index, pins=ctx.pins)


@dataclass(frozen=True, slots=True)
class SummarisedPart:
    """The part of a view that a summary replaces, and what stays verbatim beside it."""

    compacted: Messages
    earlier_summaries: Sequence[str]
    """The texts of the summaries being replaced, including their lists."""
    kept: Messages
    """The messages that follow the summary."""
    remark: str = ""
    """Text at the end of the summary."""

    @property
    def earlier_notes(self) -> str:
        """The summaries being replaced, without their lists."""
        return "\n\n".join(map(notes_of, self.earlier_summaries))


def part_before(ctx: CompactionContext, cut: Cut[BaseMessage]) -> SummarisedPart:
    """Return the part before a cut.

    Pinned messages and a split turn's request are kept. Giant results in the recent work are clipped.
    """
    older_work = _movable(ctx.history[: cut.position])
    kept = [
        message
        for message in older_work
        if message.index in ctx.pins or message is cut.request
    ]
    recent_work = _clip_giants(ctx, _movable(ctx.history[cut.position :]))
    summaries = [unframed(message) for message in cut.previous]
    return SummarisedPart(cut.compacted, summaries, [*kept, *recent_work])


def split_turn(cut: Cut[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return the compacted part of a split turn.

    The result is empty if the cut does not split a turn.
    """
    if cut.request is None:
        return tuple(cut.prefix)
    return (cut.request, *cut.prefix)


async def with_summary(
    ctx: CompactionContext, part: SummarisedPart, notes: str
) -> list[BaseMessage]:
    """Return the new view around a summary.

    Lists quoted from the history are appended to the notes.
    """
    summary = await asyncio.to_thread(
        with_appendix,
        notes,
        part.compacted,
        "\n\n".join(part.earlier_summaries),
        ctx.details,
        ctx.max_summary_tokens,
    )
    return [*ctx.preamble, framed(summary + part.remark), *part.kept]


async def can_shrink(ctx: CompactionContext, part: SummarisedPart) -> bool:
    """Return whether a summary can make the view smaller.

    This should be checked before a model is called, because the frame and the quoted lists take up room too.
    """
    if tokens_of(part.compacted) > 2 * ctx.max_summary_tokens:
        return True
    smallest_view = await with_summary(ctx, part, "")
    return tokens_of(smallest_view) + _LEAST_SUMMARY < tokens_of(ctx.history)


def only_clipped(ctx: CompactionContext) -> Messages | None:
    """Return the view with giant results clipped.

    This is used if nothing can be cut. Only results that the model has already seen are clipped.
    """
    movable = _movable(ctx.history)
    clipped = _clip_giants(ctx, movable)
    if all(new is old for new, old in zip(clipped, movable, strict=True)):
        return None
    return [*ctx.preamble, *clipped]


def _movable(messages: Messages) -> list[BaseMessage]:
    return [message for message in messages if not is_preamble(message)]


def _clip_giants(ctx: CompactionContext, messages: Messages) -> list[BaseMessage]:
    limit = giant_limit(ctx.keep_recent_tokens, ctx.max_context_size)
    indices = [result.index for result in giant_results(messages, limit, pins=ctx.pins)]
    return clip_messages(messages, dict.fromkeys(indices, clip_limit(limit)))
