"""The failure ladder: attempts in a fixed order, until a view is small enough.

The first attempt is the configured strategy. The second summarises the conversation in chunks. If the window
is full, further attempts hide old results, clip giant messages, write a digest, and truncate turns
(docs/decisions/0004-ladder.md). These attempts are the rungs of the ladder. Rungs that make a view lighter
continue from the smallest view so far. Rungs that write a summary start over from the original view.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from foldline.compaction.strategies.digest import DigestCompaction
from foldline.compaction.strategies.hide import ToolResultHidingCompaction
from foldline.compaction.strategies.summary import SummaryCompaction
from foldline.llm import ContextOverflow, LLMError
from foldline.protocol import NEW, FoldlineError, events
from foldline.view.items import Key, Messages, is_preamble

from .rewrite import faults
from .strategy import (
    CompactionContext,
    CompactionFailed,
    CompactionStrategy,
    MeteredLLM,
    tokens_of,
)
from .truncation import ClipGiants, TruncateTurns

_log = logging.getLogger("foldline.compaction")
# Without a handler, warnings would be printed onto the drawn screen.
_log.addHandler(logging.NullHandler())

CHUNK_SHARE = 4
"""Each request of the rung "chunks" uses at most 1/CHUNK_SHARE (a quarter) of the summariser's window."""
_LEAST_CHUNK_WINDOW = 1_024
"""Size of the smallest chunk request, in tokens.

In a smaller request, instructions and response would leave no room for input.
"""
WORDS = {
    "strategy": "the strategy",
    "chunks": "a summary in chunks",
    "hide": "hiding old results",
    "clip": "clipping large messages",
    "digest": "a digest without a model",
    "truncate": "leaving out the oldest turns",
}
"""Descriptions of the rungs for the user, shown after `TRYING`."""
TRYING = "Trying instead: {}."
NOTHING_TO_COMPACT = "The strategy found nothing to compact."
TOO_LARGE = "That leaves ~{:,.0f} tokens, which is still too many."
STRATEGY_FAILED = "The strategy {} failed ({}: {})."
REJECTED_BY = "The compaction by {} was rejected: {}."


@dataclass(frozen=True, slots=True)
class SizeGoal:
    """The view size that a compaction should reach, in estimated tokens before calibration."""

    enough: int
    """Largest view size that counts as small enough."""
    is_required: bool
    """Whether the next request cannot be sent without a compaction.

    If the request can be sent anyway, only the configured strategy is tried.
    """
    is_replaceable: bool = True
    """Whether other rungs may replace a strategy that fails.

    False for the user's own strategies and for manual compactions, unless there is no room left in the
    window.
    """
    was_refused: bool = False
    """Whether the provider rejected the request as too long.

    If it did, even a small reduction is accepted.
    """
    by_hand: bool = False
    """Whether the user started the compaction.

    If so, prompts and answers that are too large for any request are clipped as well.
    """


RungKind = Literal["draft", "again", "lighten", "truncate"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder."""

    name: str
    strategy: CompactionStrategy
    kind: RungKind


@dataclass
class FailureLadder:
    """One run of the ladder.

    `run` returns the new view. The fields describe how the view was made.
    """

    ctx: CompactionContext
    goal: SizeGoal
    metered: MeteredLLM
    rung: str = "strategy"
    made_by: CompactionStrategy | None = None
    alone: bool = False
    """Whether only the strategy is tried, because the user chose it explicitly."""
    left_out: frozenset[Key] = frozenset()
    """Keys of messages that were dropped after the summary was written. The summary does not cover them."""
    failures: list[FoldlineError] = field(default_factory=list)
    _best: Messages | None = None
    """The smallest view so far."""
    _is_summarised: bool = False

    async def run(self, strategy: CompactionStrategy) -> Messages | None:
        """Return the view to propose.

        Returns None if there is nothing to do. Writes one log record, even on failure.

        Raises:
            FoldlineError: no rung produced a view that is allowed to replace the current one.
        """
        view: Messages | None = None
        outcome = "failed"
        try:
            view = await self._climb(strategy)
            # A strategy with its own rungs names the rung that made the view.
            outcome = (
                "none" if view is None else getattr(self.made_by, "rung", self.rung)
            )
            return view
        finally:
            _log_record(self.ctx, strategy, outcome, view or self.ctx.history)

    async def _climb(self, strategy: CompactionStrategy) -> Messages | None:
        for rung in self._rungs(strategy):
            if self._applies(rung) and await self._try(rung):
                break
        if self._best is None and self.failures:
            raise self.failures[-1]
        return self._best

    def _rungs(self, strategy: CompactionStrategy) -> Iterator[Rung]:
        """Yield the rungs to try.

        After each attempt, it is decided whether another rung follows.
        """
        yield Rung("strategy", strategy, "draft")
        if self.alone:
            return
        if getattr(strategy, "in_chunks", False):
            yield Rung("chunks", strategy, "draft")
        elif self._may_continue() and not isinstance(strategy, DigestCompaction):
            yield Rung("chunks", SummaryCompaction(), "draft")
        if self._may_continue():
            yield from _last_resorts(strategy, self.goal)

    def _may_continue(self) -> bool:
        """Return whether other strategies may be tried.

        They must not if a manual compaction failed with status 401 or 403.
        """
        if not self.goal.is_required:
            return False
        if self._best is not None or not self.failures:
            return True
        failure = self.failures[-1]
        is_key_refused = isinstance(failure, LLMError) and failure.status in (401, 403)
        return self.goal.is_replaceable and not (self.goal.by_hand and is_key_refused)

    def _applies(self, rung: Rung) -> bool:
        """Return whether a rung can help, given the results of the earlier rungs."""
        if rung.name == "chunks":
            return bool(self.failures) and isinstance(
                self.failures[-1], ContextOverflow
            )
        if rung.kind == "again":
            return self._best is not None and not (
                self._is_summarised or self.metered.calls
            )
        return rung.kind != "draft" or not self._is_summarised

    async def _try(self, rung: Rung) -> bool:
        """Try one rung, and return whether the view is now small enough."""
        self.metered.rung = rung.name
        if rung.kind == "draft" and rung.name != "strategy":
            self._announce(rung)
        base = self.ctx.history
        if rung.kind != "draft" and self._best is not None:
            base = self._best
        try:
            view = await self._attempt(rung, base)
        except FoldlineError as failure:
            if rung.kind != "again":  # the strategy succeeded the first time
                self.failures.append(failure)
            return False
        if view is None:
            return False
        if rung.kind in ("lighten", "truncate"):
            self._announce(rung)
        return self._accept(rung, base, view)

    async def _attempt(self, rung: Rung, base: Messages) -> Messages | None:
        """Return a candidate to replace the view `base`.

        Returns None if the rung has nothing to compact.
        """
        name = type(rung.strategy).__name__
        try:
            view = await rung.strategy.compact(self._context_for(rung, base))
            if view is None:
                return None
            # Instruction files from the middle of a session belong to the preamble too.
            view = sorted(view, key=lambda message: not is_preamble(message))
            self.metered.progress(
                events.CompactionProgress(
                    stage="verify", rung=rung.name, drafted_tokens=self.metered.drafted
                )
            )
            problems = await asyncio.to_thread(
                faults,
                self.ctx.history,
                view,
                self.ctx.pins,
                unseen_may_be_clipped=self.ctx.may_clip_unseen,
            )
        except FoldlineError:
            raise
        except Exception as error:  # third-party code
            raise CompactionFailed(
                STRATEGY_FAILED.format(name, type(error).__name__, error)
            ) from error
        if problems:
            raise CompactionFailed(REJECTED_BY.format(name, "; ".join(problems)))
        return view

    def _context_for(self, rung: Rung, base: Messages) -> CompactionContext:
        ctx = self.ctx
        if base is not ctx.history:
            ctx = replace(ctx, history=base, cut_position=None)
        if rung.kind == "again":
            full_size = max(1, tokens_of(self.ctx.history))
            share = tokens_of(base) / full_size
            # The provider has cached the original view, not this one.
            ctx = replace(
                ctx, token_count=round(ctx.token_count * share), prefix_cached=False
            )
        if rung.name == "chunks":
            ctx = replace(ctx, draft_window=_chunk_window(ctx), prefix_cached=False)
        return ctx

    def _accept(self, rung: Rung, base: Messages, view: Messages) -> bool:
        """Keep the view if it is the smallest so far, and return whether it is small enough."""
        size = tokens_of(view)
        is_enough = size <= self.goal.enough or not self.goal.is_required
        if rung.kind == "truncate" and not (is_enough or self.goal.was_refused):
            return False  # turns are dropped only if that makes the view fit
        if self._best is None or size < tokens_of(self._best):
            if rung.kind == "truncate" and self._best is not None:
                kept = {message.key for message in view}
                self.left_out = frozenset(message.key for message in base) - kept
            elif rung.kind == "draft":
                self.left_out = frozenset()
            self._best = view
            self.rung = rung.name
            self.made_by = rung.strategy
        if any(message.index == NEW for message in view):
            self._is_summarised = True
        return is_enough

    def _announce(self, rung: Rung) -> None:
        self.metered.rung = rung.name
        detail = f"{self._reason()} {TRYING.format(WORDS[rung.name])}"
        self.metered.progress(
            events.CompactionProgress(stage="draft", rung=rung.name, detail=detail)
        )

    def _reason(self) -> str:
        """Return a sentence explaining why the fallbacks tried so far are not enough."""
        if self.failures:
            return str(self.failures[-1])
        if self._best is None:
            return NOTHING_TO_COMPACT
        return TOO_LARGE.format(self.ctx.request_tokens(self._best))


def _log_record(
    ctx: CompactionContext,
    strategy: CompactionStrategy,
    rung: str,
    view: Messages,
) -> None:
    tokens_after = round(ctx.request_tokens(view))
    fields = {
        "strategy": type(strategy).__name__,
        "tokens_before": ctx.token_count,
        "tokens_after": tokens_after,
        "ratio": round(tokens_after / max(1, ctx.token_count), 3),
        "message_count": len(ctx.history),
        "rung": rung,
    }
    text = ", ".join(f"{name} {value}" for name, value in fields.items())
    _log.info("compaction: %s", text, extra=fields)


def _chunk_window(ctx: CompactionContext) -> int:
    """Return a window size, in tokens, that is smaller than the rejected request."""
    share = ctx.summariser_window // CHUNK_SHARE
    return max(_LEAST_CHUNK_WINDOW, min(share, ctx.token_count // 2))


def _last_resorts(strategy: CompactionStrategy, goal: SizeGoal) -> Iterator[Rung]:
    """Yield the rungs that follow the strategy if the window is full."""
    hide = Rung("hide", ToolResultHidingCompaction(), "lighten")
    clip = Rung("clip", ClipGiants(goal.enough, clips_talk=goal.by_hand), "lighten")
    # In its second run, a strategy that first hides and then summarises writes its summary.
    yield Rung("strategy", strategy, "again")
    if not isinstance(strategy, DigestCompaction):
        yield hide
        yield clip
        yield Rung("digest", DigestCompaction(), "draft")
    yield hide
    yield clip
    yield Rung("truncate", TruncateTurns(goal.enough), "truncate")
