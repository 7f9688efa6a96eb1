"""Makes room without a model or a summary.

Clips large messages and drops the oldest turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from foldline.memory.clip import clip_messages
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.view.cut import (
    clip_limit,
    giant_results,
    is_movable,
    oversized,
    seen_up_to,
    unseen_from,
)
from foldline.view.items import Key, Messages, is_preamble
from foldline.view.tokens import message_tokens

from .strategy import CompactionContext, tokens_of

_CLIP_SHARE = 32
"""A result larger than 1/_CLIP_SHARE of the window is clipped to that size."""
LEAST_CLIP = 512
"""Results of at most this size, in estimated tokens, are not clipped.

This is enough for an error with its context.
"""
_UNSEEN_SHARE = 4
"""A result that the model has not seen may take up 1/_UNSEEN_SHARE (a quarter) of the window.

All such results together may take up half of the window.
"""


@dataclass(frozen=True, slots=True)
class ClipGiants:
    """Reduces large results to their beginning and end.

    Does the same to messages that are too large for any request.
    """

    room: int | None = None
    """Maximum size of the view, in estimated tokens before calibration; None for no limit."""
    clips_talk: bool = False
    """Whether prompts and answers larger than `room` may be clipped as well."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        limit = max(LEAST_CLIP, ctx.max_context_size // _CLIP_SHARE)
        giants = giant_results(ctx.history, limit, pins=ctx.pins)
        limits = {result.index: limit for result in giants}
        room = ctx.max_context_size
        if self.room is not None:
            room = self.room - ctx.fixed_tokens
            large = oversized(ctx.history, room, talk=self.clips_talk, pins=ctx.pins)
            limit = max(LEAST_CLIP, clip_limit(room))
            limits.update((message.index, limit) for message in large)
        if ctx.may_clip_unseen:
            limits.update(_unseen_limits(ctx, room))
        if not limits:
            return None
        clipped = clip_messages(ctx.history, limits)
        request = next(
            (m for m in reversed(ctx.history) if isinstance(m, UserMessage)), None
        )
        if request is None or request.index not in limits:
            return clipped
        if message_tokens(request) > tokens_of(clipped):
            return clipped
        # The rules forbid clipping the newest request unless it is larger than the whole new view.
        del limits[request.index]
        return clip_messages(ctx.history, limits) if limits else None


def _unseen_limits(ctx: CompactionContext, room: int) -> dict[int, int]:
    """Return the sizes to which large unseen results are clipped, in estimated tokens, by index.

    Args:
        room: room for the unseen results and the request before them, in estimated tokens.
    """
    start = seen_up_to(ctx.history)
    unseen = [
        message
        for message in ctx.history[start:]
        if isinstance(message, ToolResultMessage)
    ]
    for message in ctx.history[start::-1]:
        if isinstance(message, UserMessage):
            room -= message_tokens(message)
            break
    share = ctx.max_context_size // _UNSEEN_SHARE
    room = min(room, 2 * share)
    limit = min(share, room // max(1, len(unseen)))
    limit = max(LEAST_CLIP, limit)
    return {
        message.index: limit for message in unseen if message_tokens(message) > limit
    }


@dataclass(frozen=True, slots=True)
class TruncateTurns:
    """Drops the oldest turns, then the oldest steps of the newest turn.

    The preamble, pinned messages, summaries, the unanswered request and unseen results are kept.
    """

    target: int
    """The view size to reach, in estimated tokens before calibration."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        excess = tokens_of(ctx.history) - self.target
        dropped: set[Key] = set()
        for group in _droppable(ctx):
            if excess <= 0:
                break
            dropped |= {message.key for message in group}
            excess -= tokens_of(group)
        if not dropped:
            return None
        return [message for message in ctx.history if message.key not in dropped]


def _droppable(ctx: CompactionContext) -> Iterator[list[BaseMessage]]:
    """Yield groups of messages to drop, oldest first."""
    history = ctx.history
    answers = _positions(history, AssistantMessage)
    newest_answer = answers[-1] if answers else len(history)
    # If a prompt comes before the model has seen the results of the previous turn, that turn is still open.
    requests = _positions(history[: unseen_from(history)], UserMessage)
    newest_request = requests[-1] if requests else 0
    first = next(
        (at for at, message in enumerate(history) if not is_preamble(message)), 0
    )
    steps = [at for at in answers if newest_request <= at < newest_answer]
    turns = pairwise([first, *requests[:-1], newest_request])
    for start, end in (*turns, *pairwise([*steps, newest_answer])):
        group = [
            message for message in history[start:end] if is_movable(message, ctx.pins)
        ]
        if group:
            yield group


def _positions(messages: Messages, message_type: type[BaseMessage]) -> list[int]:
    return [
        at for at, message in enumerate(messages) if isinstance(message, message_type)
    ]
