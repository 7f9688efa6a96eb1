"""The failure ladder: what is tried, in order, until a view comes out that will do.

Configured strategy, the same in chunks; where the window is full also: hide old results, clip giant ones,
digest, truncate whole turns (docs/decisions/0004-ladder.md). Each rung takes the best view so far, or starts
over where it writes a summary.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from foldline.context.view import is_preamble
from foldline.llm import ContextOverflow, LLMError
from foldline.protocol import NEW, BaseMessage, FoldlineError, events

from .rewrite import faults
from .simple import ClipGiants, DigestCompaction, ToolResultHidingCompaction, TruncateTurns
from .strategy import CompactionContext, CompactionFailed, CompactionStrategy, MeteredLLM, tokens_of
from .summary import SummaryCompaction

_log = logging.getLogger("foldline.compaction")
_log.addHandler(logging.NullHandler())  # what has no handler prints warnings, here onto a drawn screen

CHUNK_SHARE = 4
"""The rung "chunks" gives the model a quarter of what the refused request was allowed."""
_LEAST_CHUNK = 1_024
"""Tokens of a request below which instructions and answer leave nothing to read."""


@dataclass(frozen=True, slots=True)
class Need:
    """What the view has to come down to, in estimated tokens before calibration."""

    enough: int
    """A view of this size or less will do."""
    must: bool
    """Whether the next request depends on it. Where it does not, the strategy that was asked for does it, or
    nothing is changed."""
    replaceable: bool = True
    """Whether others take the place of a strategy that fails. One that the user wrote, or asked for by hand,
    changes nothing then, unless the window has no room for the next request at all."""
    refused: bool = False
    """Whether the provider refused the request: then every bit helps."""
    by_hand: bool = False
    """Whether the user asked for it: then a prompt or an answer that no request can carry is clipped, too."""


Kind = Literal["draft", "again", "lighten", "truncate"]


@dataclass(frozen=True, slots=True)
class Rung:
    name: str
    strategy: CompactionStrategy
    kind: Kind


@dataclass
class FailureLadder:
    """One run of the ladder. `run` gives the new view; the rest says how it came about."""

    ctx: CompactionContext
    need: Need
    metered: MeteredLLM
    rung: str = "strategy"
    made_by: CompactionStrategy | None = None
    alone: bool = False
    """Whether nothing but the strategy is tried: the user chose this one."""
    left_out: frozenset[tuple[int, int]] = frozenset()
    """Keys of what was truncated after a summary had been written: it covers none of them."""
    _best: Sequence[BaseMessage] | None = None
    _summarised: bool = False
    failures: list[FoldlineError] = field(default_factory=list)

    async def run(self, strategy: CompactionStrategy) -> Sequence[BaseMessage] | None:
        """The view to propose; None where there is nothing to do. However it ends, it leaves one log record.

        Raises:
            FoldlineError: no rung gave a view that may replace this one.
        """
        after, ended = None, "failed"
        try:
            after = await self._climb(strategy)
            ended = self._ended() if after is not None else "none"
            return after
        finally:
            _record(self.ctx, strategy, ended, after or self.ctx.history)

    def _ended(self) -> str:
        """The rung that made the view, as the log names it: of a strategy with rungs of its own, that one."""
        own: str = getattr(self.made_by, "rung", self.rung)
        return own

    async def _climb(self, strategy: CompactionStrategy) -> Sequence[BaseMessage] | None:
        for rung in self._rungs(strategy):
            if self._is_wanted(rung) and await self._holds(rung):
                break
        if self._best is None and self.failures:
            raise self.failures[-1]
        return self._best

    def _rungs(self, strategy: CompactionStrategy) -> Iterator[Rung]:
        yield Rung("strategy", strategy, "draft")
        if self.alone:
            return
        in_chunks = getattr(strategy, "in_chunks", False)
        if in_chunks or (self._goes_on() and not isinstance(strategy, DigestCompaction)):
            yield Rung("chunks", strategy if in_chunks else SummaryCompaction(), "draft")
        if self._goes_on():
            yield from _last_resorts(strategy, self.need)

    def _goes_on(self) -> bool:
        """Whether other strategies may do it. With a refused key the user mends the key and asks again."""
        if not self.need.must or self._best is not None or not self.failures:
            return self.need.must
        failure = self.failures[-1]
        key_refused = isinstance(failure, LLMError) and failure.status in (401, 403)
        return self.need.replaceable and not (self.need.by_hand and key_refused)

    def _is_wanted(self, rung: Rung) -> bool:
        if rung.name == "chunks":
            return bool(self.failures) and isinstance(self.failures[-1], ContextOverflow)
        if rung.kind == "again":
            return self._best is not None and not (self._summarised or self.metered.calls)
        return rung.kind != "draft" or not self._summarised

    async def _holds(self, rung: Rung) -> bool:
        """Try one rung; whether what is there now is enough."""
        self.metered.rung = rung.name
        if rung.kind == "draft" and rung.name != "strategy":
            self._announce(rung)
        base = self.ctx.history if rung.kind == "draft" or self._best is None else self._best
        try:
            after = await self._attempt(rung, base)
        except FoldlineError as failure:
            if rung.kind != "again":  # the first time it went well
                self.failures.append(failure)
            return False
        if after is None:
            return False
        if rung.kind in ("lighten", "truncate"):
            self._announce(rung)
        return self._take(rung, base, after)

    async def _attempt(self, rung: Rung, base: Sequence[BaseMessage]) -> Sequence[BaseMessage] | None:
        """A view that may replace this one, or None where the rung has nothing to do."""
        ctx = self.ctx if base is self.ctx.history else replace(self.ctx, history=base, cut_position=None)
        name = type(rung.strategy).__name__
        if rung.kind == "again":
            smaller = tokens_of(base) / max(1, tokens_of(self.ctx.history))
            # What is cached is the view as it was.
            ctx = replace(ctx, token_count=round(ctx.token_count * smaller), prefix_cached=False)
        if rung.name == "chunks":
            ctx = replace(ctx, draft_window=_chunk_window(ctx), prefix_cached=False)
        try:
            after = await rung.strategy.compact(ctx)
            if after is None:
                return None
            after = _preamble_first(after)
            drafted = self.metered.drafted
            self.metered.progress(
                events.CompactionProgress(stage="verify", rung=rung.name, drafted_tokens=drafted)
            )
            unseen = self.ctx.may_clip_unseen
            wrong = await asyncio.to_thread(
                faults, self.ctx.history, after, self.ctx.pins, unseen_may_be_clipped=unseen
            )
        except FoldlineError:
            raise
        except Exception as error:
            raise CompactionFailed(
                f"The strategy {name} failed ({type(error).__name__}: {error})."
            ) from error
        if wrong:
            raise CompactionFailed(f"The compaction by {name} was rejected: {'; '.join(wrong)}.")
        return after

    def _take(self, rung: Rung, base: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> bool:
        size = tokens_of(after)
        enough = size <= self.need.enough or not self.need.must
        if rung.kind == "truncate" and not (enough or self.need.refused):
            return False  # turns are not given up for nothing
        best = self._best
        if best is None or size < tokens_of(best):
            if rung.kind == "truncate" and best is not None:
                self.left_out = frozenset(
                    {message.key for message in base} - {message.key for message in after}
                )
            elif rung.kind == "draft":
                self.left_out = frozenset()
            self._best, self.rung, self.made_by = after, rung.name, rung.strategy
        self._summarised = self._summarised or any(message.index == NEW for message in after)
        return enough

    def _announce(self, rung: Rung) -> None:
        self.metered.rung = rung.name
        detail = f"{self._why()} Going on with: {WORDS[rung.name]}."
        self.metered.progress(events.CompactionProgress(stage="draft", rung=rung.name, detail=detail))

    def _why(self) -> str:
        """Why what was tried so far does not do."""
        if self.failures:
            return str(self.failures[-1])
        if self._best is None:
            return "That way there is nothing to compact."
        return f"That leaves ~{self.ctx.request_tokens(self._best):,.0f} tokens, still too many."


def _record(
    ctx: CompactionContext, strategy: CompactionStrategy, rung: str, view: Sequence[BaseMessage]
) -> None:
    after = round(ctx.request_tokens(view))
    fields = {
        "strategy": type(strategy).__name__,
        "tokens_before": ctx.token_count,
        "tokens_after": after,
        "ratio": round(after / max(1, ctx.token_count), 3),
        "message_count": len(ctx.history),
        "rung": rung,
    }
    _log.info("compaction: %s", ", ".join(f"{name} {value}" for name, value in fields.items()), extra=fields)


def _chunk_window(ctx: CompactionContext) -> int:
    """Less than the refused request took, also where the whole view is below a quarter of the window."""
    return max(_LEAST_CHUNK, min(ctx.summariser_window // CHUNK_SHARE, ctx.token_count // 2))


def _preamble_first(after: Sequence[BaseMessage]) -> list[BaseMessage]:
    """As a compaction leaves it: instruction files from the middle of a session open the view, too."""
    return sorted(after, key=lambda message: not is_preamble(message))


WORDS = {
    "strategy": "the strategy",
    "chunks": "the same in chunks",
    "hide": "hiding old results",
    "clip": "clipping what is large",
    "digest": "a digest without a model",
    "truncate": "leaving out the oldest turns",
}
"""The rungs as people read them."""


def _last_resorts(strategy: CompactionStrategy, need: Need) -> Iterator[Rung]:
    hide = Rung("hide", ToolResultHidingCompaction(), "lighten")
    clip = Rung("clip", ClipGiants(need.enough, need.by_hand), "lighten")
    # What hides first and summarises where nothing is left to hide gets to its summary in one run.
    yield Rung("strategy", strategy, "again")
    if not isinstance(strategy, DigestCompaction):
        yield hide
        yield clip
        yield Rung("digest", DigestCompaction(), "draft")
    yield hide
    yield clip
    yield Rung("truncate", TruncateTurns(need.enough), "truncate")
