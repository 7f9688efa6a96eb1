"""Strategies with few decisions of their own: hide, clip, truncate, digest, and short summaries."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from foldline.context.clip import clip_messages
from foldline.context.cut import (
    Cut,
    clip_limit,
    cut_before,
    giant_results,
    groups_from,
    oversized,
    seen_up_to,
    unseen_from,
)
from foldline.context.digest import digest
from foldline.context.language import language_of
from foldline.context.tokens import message_tokens
from foldline.context.view import (
    bare_placeholder,
    hidden_placeholder,
    is_hidden_placeholder,
    is_preamble,
    is_summary,
    with_text,
)
from foldline.protocol import AssistantMessage, BaseMessage, ThinkingPart, ToolResultMessage, UserMessage

from .strategy import CompactionContext, tokens_of
from .summary import (
    ERRS_HIGH,
    SummaryCompaction,
    Writer,
    cached_notes,
    can_shrink,
    cut_for,
    earlier_summary,
    split_turn,
    with_summary,
)
from .summary_text import notes_of

KEPT_GROUPS = 5
"""As in kimi-cli: the newest so many tool groups keep their results."""


class ToolResultHidingCompaction:
    """Hides the results of older tool groups; `keep` is how many of the newest stay. Parallel calls are one
    group. What no request has carried yet stays, and so does what is no longer than its placeholder."""

    def __init__(self, *, keep: int = KEPT_GROUPS) -> None:
        self._keep = keep

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        return self.hidden(ctx.history, ctx.pins)

    def hidden(
        self,
        messages: Sequence[BaseMessage],
        pins: frozenset[int],
        *,
        most: int | None = None,
        least: int = 0,
    ) -> Sequence[BaseMessage] | None:
        """The messages with old results hidden; None where there is nothing more to hide. In estimated tokens
        before calibration, kept groups take no more than `most`, and results below `least` stay. Without
        `least`, placeholders lose what a ledger put into them, which may put it back: one budget for all."""
        until = groups_from(messages, self._keep, most)
        older = [
            message if message.index in pins or message_tokens(message) < least else _hidden(message)
            for message in messages[:until]
        ]
        if all(a is b for a, b in zip(older, messages, strict=False)):
            return None
        if not least:
            older = [bare_placeholder(message) for message in older]
        return [*older, *messages[until:]]


def _hidden(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolResultMessage) or is_hidden_placeholder(message.text):
        return message
    hidden = with_text(message, hidden_placeholder(message))
    return hidden if message_tokens(hidden) < message_tokens(message) else message


KEPT_MESSAGES = 2
"""As in kimi-cli: so many of the newest user and assistant messages stay."""
_FIRST, _UPDATE = "simple", "simple-update"
"""The prompts: without earlier notes, and to bring them up to date."""


class SimpleCompaction:
    """Keeps the newest user and assistant messages, with the results of their calls; `keep` is how many. The
    summary of the rest is written in tags; thinking is left out."""

    in_chunks = True
    """Whether it takes a limit of how much to send at once (`CompactionContext.draft_window`)."""

    def __init__(self, *, keep: int = KEPT_MESSAGES) -> None:
        self._keep = keep

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        cut = self._cut(ctx)
        if cut is None or not await can_shrink(ctx, cut.compacted, partial(with_summary, ctx, cut)):
            return None
        form = _UPDATE if cut.previous else _FIRST
        notes = await cached_notes(ctx, cut.position, form) or await self._summarised(ctx, cut)
        return await with_summary(ctx, cut, notes)

    async def _summarised(self, ctx: CompactionContext, cut: Cut[BaseMessage]) -> str:
        writer = Writer(ctx, language_of(ctx.history), first=_FIRST, update=_UPDATE)
        read = [_without_thinking(message) for message in (*cut.history, *split_turn(cut))]
        return await writer.update(notes_of(earlier_summary(cut)), read)

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
            unseen = ctx.history[unseen_from(ctx.history) :]  # results that no request has carried yet stay
            first_kept = min([said[-self._keep], *(message.index for message in unseen[:1])])
        cut = cut_before(ctx.history, first_kept, pins=ctx.pins)
        return cut if cut is not None and cut.pays else None


def _without_thinking(message: BaseMessage) -> BaseMessage:
    parts = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    return message if len(parts) == len(message.parts) else message.model_copy(update={"parts": parts})


class HidingThenSummaryCompaction:
    """Hides results where that frees enough, else summarises. Never both in one compaction."""

    def __init__(self, *, keep: int = KEPT_GROUPS) -> None:
        self._hiding = ToolResultHidingCompaction(keep=keep)
        self._summary = SummaryCompaction()

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        hidden = await self._hiding.compact(ctx)
        return await self._summary.compact(ctx) if hidden is None else hidden


ENOUGH = 0.75
"""Of the view: hiding that leaves more would be due again soon, and each time the provider's cache is lost.
Measured (docs/decisions/0014-default-strategy.md)."""


class AdaptiveCompaction:
    """The cheapest compaction that will do, without a model: placeholders where they free enough, else an
    extract; a summary is for who asks for what these cannot do. Results stay of at most five groups, and of
    no more than `keep_recent_tokens`. Before the window is full, only large ones go, where that pays
    (`price`)."""

    def __init__(self) -> None:
        self._hiding = ToolResultHidingCompaction()
        self._extract = DigestCompaction()
        self.by_hand = SummaryCompaction()
        """For who asks for a compaction: they want one to read."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        if _has_wishes(ctx):
            return await self.by_hand.compact(ctx)
        hidden = self._hiding.hidden(
            ctx.history, ctx.pins, most=ctx.keep_recent_tokens, least=ctx.least_hidden or 0
        )
        if ctx.least_hidden is not None:
            return hidden
        if hidden is not None and tokens_of(hidden) <= ENOUGH * tokens_of(ctx.history):
            return hidden
        return await self._extract.compact(ctx)


def _has_wishes(ctx: CompactionContext) -> bool:
    return ctx.first_kept_index is not None or bool(ctx.focus or ctx.guidance)


class DigestCompaction:
    """Compacts like summary, with an extract of the history in place of what a model writes."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        cut = cut_for(ctx)
        if cut is None:
            return None
        notes = await asyncio.to_thread(
            digest,
            (*cut.history, *split_turn(cut)),
            previous=notes_of(earlier_summary(cut)) or None,
            focus=ctx.focus,
            max_tokens=int(ctx.max_summary_tokens / ERRS_HIGH),
        )
        return await with_summary(ctx, cut, notes)


_CLIP_SHARE = 32
"""A result of more than this part of the window is clipped to it ..."""
_LEAST_CLIP = 512
"""... but never below this, in estimated tokens: an error message and its surroundings."""
_UNSEEN_SHARE = 4
"""What no request has carried yet keeps up to this part of the window each, twice that together, if there is
room for that."""


@dataclass(frozen=True, slots=True)
class ClipGiants:
    """Clips large results and whatever no request can carry: head and tail, and how to recall the rest."""

    room: int | None = None
    """Estimated tokens, before calibration, that the view may take; None where that is no matter."""
    talk: bool = False
    """Whether a prompt or an answer may be clipped, too, where it takes more than that."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        limit = max(_LEAST_CLIP, ctx.max_context_size // _CLIP_SHARE)
        giants = {result.index: limit for result in giant_results(ctx.history, limit, pins=ctx.pins)}
        room = ctx.max_context_size
        if self.room is not None:
            stays = (each for each in ctx.history if is_preamble(each) or each.index in ctx.pins)
            room = self.room - tokens_of(tuple(stays))
            large = oversized(ctx.history, room, talk=self.talk, pins=ctx.pins)
            giants |= {message.index: max(_LEAST_CLIP, clip_limit(room)) for message in large}
        if ctx.may_clip_unseen:
            giants |= dict(_unseen_giants(ctx, room))
        return clip_messages(ctx.history, giants) if giants else None


def _unseen_giants(ctx: CompactionContext, room: int) -> Iterator[tuple[int, int]]:
    """What no request has carried yet and is too large, with the estimated tokens it is clipped to. `room` is
    for it and the request before it."""
    start = seen_up_to(ctx.history)
    fresh = [message for message in ctx.history[start:] if isinstance(message, ToolResultMessage)]
    request = next((message for message in ctx.history[start::-1] if isinstance(message, UserMessage)), None)
    left = room - (message_tokens(request) if request else 0)
    share = ctx.max_context_size // _UNSEEN_SHARE
    limit = max(_LEAST_CLIP, min(share, min(2 * share, left) // max(1, len(fresh))))
    for message in fresh:
        if message_tokens(message) > limit:
            yield message.index, limit


@dataclass(frozen=True, slots=True)
class TruncateTurns:
    """Leaves out the oldest turns, then the oldest steps of the newest turn. Preamble, pins, summaries, the
    unanswered request and what the model has not seen stay."""

    target: int
    """Estimated tokens, before calibration, that the view is to come down to."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        excess = tokens_of(ctx.history) - self.target
        gone: set[tuple[int, int]] = set()
        for unit in _units(ctx):
            if excess <= 0:
                break
            gone |= {message.key for message in unit}
            excess -= tokens_of(unit)
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
