"""Ways to make a view lighter without a summary: what the failure ladder falls back on. No model calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from foldline.context.cut import clip_limit, giant_results, oversized, seen_up_to, unseen_from
from foldline.context.tokens import message_tokens
from foldline.context.view import clip_messages, is_preamble, is_summary
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage, UserMessage

from .strategy import CompactionContext

_CLIP_SHARE = 32
"""A result of more than this part of the window is clipped to it ..."""
_LEAST_CLIP = 512
"""... but never below this, in estimated tokens: an error message and its surroundings."""
_UNSEEN_SHARE = 4
"""What no request has carried yet keeps up to this part of the window: the model is to see most of it. All
results of a group together keep up to twice that."""


@dataclass(frozen=True, slots=True)
class ClipGiants:
    """Clips large results, head and tail kept, with the way to recall the rest; and whatever no request can
    carry."""

    room: int | None = None
    """Estimated tokens, before calibration, that the view may take; None where that is no matter."""
    talk: bool = False
    """Whether a prompt or an answer may be clipped, too, where it takes more than that."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        limit = max(_LEAST_CLIP, ctx.max_context_size // _CLIP_SHARE)
        giants = {result.index: limit for result in giant_results(ctx.history, limit, pins=ctx.pins)}
        if ctx.may_clip_unseen:
            giants |= dict(_unseen_giants(ctx))
        if self.room is not None:
            found = oversized(ctx.history, self.room, talk=self.talk, pins=ctx.pins)
            giants |= {message.index: max(_LEAST_CLIP, clip_limit(self.room)) for message in found}
        return clip_messages(ctx.history, giants) if giants else None


def _unseen_giants(ctx: CompactionContext) -> Iterator[tuple[int, int]]:
    fresh = [m for m in ctx.history[seen_up_to(ctx.history) :] if isinstance(m, ToolResultMessage)]
    share = ctx.max_context_size // _UNSEEN_SHARE
    limit = max(_LEAST_CLIP, min(share, 2 * share // max(1, len(fresh))))
    for message in fresh:
        if message_tokens(message) > limit:
            yield message.index, limit


@dataclass(frozen=True, slots=True)
class TruncateTurns:
    """Leaves out the oldest turns whole, then the oldest steps of the newest turn, as far as needed.

    Preamble, pins, summaries, the unanswered request and what the model has not seen stay.
    """

    target: int
    """Estimated tokens, before calibration, that the view is to come down to."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        excess = sum(map(message_tokens, ctx.history)) - self.target
        gone: set[tuple[int, int]] = set()
        for unit in _units(ctx):
            if excess <= 0:
                break
            gone |= {message.key for message in unit}
            excess -= sum(map(message_tokens, unit))
        return [message for message in ctx.history if message.key not in gone] if gone else None


def _units(ctx: CompactionContext) -> Iterator[list[BaseMessage]]:
    """What can go, oldest first, each piece only as a whole: turns, then steps of the newest turn."""
    newest_answer = _answer_not_gone_on_from(ctx.history)
    # A prompt may come before any request has carried the results of the turn it follows: that turn is open.
    seen = ctx.history[: unseen_from(ctx.history)]
    requests = [at for at, message in enumerate(seen) if isinstance(message, UserMessage)]
    newest = requests[-1] if requests else 0
    starts = [at for at in requests if at < newest]
    first = next((at for at, message in enumerate(ctx.history) if not is_preamble(message)), 0)
    for start, end in pairwise([first, *starts, newest]):
        if turn := _movable(ctx, start, end):
            yield turn
    steps = [at for at in range(newest, newest_answer) if isinstance(ctx.history[at], AssistantMessage)]
    for start, end in pairwise([*steps, newest_answer]):
        if step := _movable(ctx, start, end):
            yield step


def _movable(ctx: CompactionContext, start: int, end: int) -> list[BaseMessage]:
    return [
        message
        for message in ctx.history[start:end]
        if not (is_preamble(message) or is_summary(message) or message.index in ctx.pins)
    ]


def _answer_not_gone_on_from(messages: Sequence[BaseMessage]) -> int:
    """Where the newest answer stands: it and its results stay."""
    answers = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    return answers[-1] if answers else len(messages)
