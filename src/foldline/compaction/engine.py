"""The engine: plan, draft, verify, propose. One pipeline for all strategies; committing is one append.

Nothing here changes a session. A `Proposal` is a value: what is previewed is what is applied.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from foldline.context.budget import Budget
from foldline.context.cut import Cut, find_cut, giant_limit, giant_results
from foldline.context.files import file_lists
from foldline.context.projection import Projection
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.context.view import ViewItem
from foldline.context.weight import view_size
from foldline.llm import LLM, Answer, Chunk, ContextOverflow, LLMError, ModelInfo, Request, TextChunk
from foldline.protocol import BaseMessage, Compaction, Reason, Usage, events

from .derive import derive
from .digest import DigestCompaction
from .strategy import CompactionContext, CompactionFailed, CompactionStrategy
from .summary_text import unframed
from .verify import faults

Progress = Callable[[events.CompactionProgress], None]

_MANUAL_SHARE = 4
"""By hand, at most a quarter of what could be folded is kept: who asks for a fold wants one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fold would do, without a model call."""

    cut: Cut | None
    """None where only giant results would be clipped, or a strategy of its own mind decides."""
    keep_recent_tokens: int
    """Estimated tokens to keep verbatim, before calibration."""
    tokens_before: int
    tokens_expected: int
    folded: int
    """Entries that would leave the view."""
    kept: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A finished, validated fold that has not been committed."""

    entry: Compaction
    view: tuple[ViewItem, ...]
    """The view it was made for: it fits no other."""
    folded: int
    kept: int
    model_calls: int

    def fits(self, projection: Projection) -> bool:
        """Whether the view is still the one it was made for, pins included, or has only grown since."""
        return tuple(projection.view[: len(self.view)]) == self.view


def plan(projection: Projection, budget: Budget, reason: Reason, *, overhead: int = 0) -> Plan | None:
    """What a fold would do now; None where there is nothing to fold. Linear in the view."""
    messages = [item.message for item in projection.view]
    scale = projection.calibration.scale(projection.model)
    keep = int(budget.keep_recent_tokens / scale)
    foldable = sum(item.tokens for item in projection.view if item.foldable and not item.written)
    if reason == "manual":
        keep = min(keep, foldable // _MANUAL_SHARE)
    cut = find_cut(messages, keep, pins=projection.pins)
    if cut is None and not giant_results(messages, giant_limit(keep, budget.window), pins=projection.pins):
        keep = 1  # one long message holds all that was to be kept: what came before it may still go
        cut = find_cut(messages, keep, pins=projection.pins)
        if cut is None:
            return None
    before = view_size(projection, overhead=overhead).tokens
    gone = cut.folded + cut.previous if cut else ()
    shrink = sum(message_tokens(message) for message in gone)
    expected = (projection.tokens + overhead - shrink) * scale + (
        budget.max_summary_tokens // 2 if cut else 0
    )
    return Plan(
        cut=cut,
        keep_recent_tokens=max(1, keep),
        tokens_before=before,
        tokens_expected=min(before, round(expected)),
        folded=len(cut.folded) if cut else 0,
        kept=len(messages) - len(gone),
    )


async def propose(
    projection: Projection,
    *,
    strategy: CompactionStrategy,
    llm: LLM,
    budget: Budget,
    reason: Reason,
    focus: str | None = None,
    overhead: int = 0,
    progress: Progress = lambda _: None,
) -> Proposal | None:
    """Draft and verify a fold of the present view; None where there is nothing to fold.

    Where the configured strategy fails, the digest folds without a model, and the entry's `rung` says so.

    Raises:
        CompactionFailed: no rung of the ladder gave a view that may replace this one.
        LLMError: the provider refuses all requests (a wrong key, say): folding on is no use.
    """
    planned = plan(projection, budget, reason, overhead=overhead)
    if planned is None:
        return None
    metered = _Metered(llm, progress)
    view = tuple(projection.view)
    ctx = CompactionContext(
        history=tuple(item.message for item in view),
        token_count=planned.tokens_before,
        max_context_size=budget.window,
        reserved_context_size=budget.reserve_tokens,
        llm=metered,
        focus=focus,
        keep_recent_tokens=planned.keep_recent_tokens,
        max_summary_tokens=budget.max_summary_tokens,
        pins=projection.pins,
        details=file_lists(projection),
    )
    scale = projection.calibration.scale(projection.model)
    failure: CompactionFailed | LLMError | None = None
    for rung, attempt in _ladder(strategy):
        if failure is not None:
            progress(events.CompactionProgress(stage="draft", detail=f"{failure} Going on with: {rung}."))
        try:
            after = await attempt.compact(ctx)
        except (CompactionFailed, ContextOverflow, LLMError) as error:
            failure = error
            continue
        if after is None and failure is None:
            return None
        if after is None:
            break
        progress(events.CompactionProgress(stage="verify", drafted_tokens=metered.drafted))
        wrong = faults(ctx.history, after, ctx.pins)
        if wrong:
            failure = CompactionFailed(f"The fold was rejected: {'; '.join(wrong)}.")
            continue
        entry = derive(ctx.history, after).model_copy(
            update={
                "summary": _summary_of(after),
                "strategy": type(attempt).__name__,
                "rung": rung,
                "reason": reason,
                "focus": focus,
                "model": llm.info.id if metered.calls else None,
                "usage": metered.usage if metered.calls else None,
                "tokens_before": planned.tokens_before,
                "tokens_after": round((sum(message_tokens(m) for m in after) + overhead) * scale),
                "details": ctx.details,
            }
        )
        gone = {message.key for message in ctx.history} - {message.key for message in after}
        return Proposal(
            entry=entry,
            view=view,
            folded=len(gone),
            kept=len(ctx.history) - len(gone),
            model_calls=metered.calls,
        )
    assert failure is not None, "a ladder without rungs"
    raise failure


def _ladder(strategy: CompactionStrategy) -> Sequence[tuple[str, CompactionStrategy]]:
    if isinstance(strategy, DigestCompaction):
        return (("strategy", strategy),)
    return (("strategy", strategy), ("digest", DigestCompaction()))


def _summary_of(after: Sequence[BaseMessage]) -> str:
    return "\n\n".join(unframed(message) for message in after if message.index < 0)


@dataclass
class _Metered:
    """The strategy's model, its calls counted and its drafts announced as they grow."""

    llm: LLM
    progress: Progress
    calls: int = 0
    drafted: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def info(self) -> ModelInfo:
        return self.llm.info

    @property
    def dialect(self) -> str:
        return self.llm.dialect

    async def prepare(self) -> ModelInfo:
        return await self.llm.prepare()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.calls += 1
        text = ""
        self.progress(events.CompactionProgress(stage="draft", drafted_tokens=self.drafted))
        async with aclosing(self.llm.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextChunk):
                    text += chunk.text
                    drafted = self.drafted + estimate_tokens(text)
                    self.progress(events.CompactionProgress(stage="draft", drafted_tokens=drafted))
                elif isinstance(chunk, Answer):
                    self.drafted += estimate_tokens(chunk.message.text)
                    self._count(chunk.message.usage)
                yield chunk

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = Usage(
                input=self.usage.input + usage.input,
                cached=self.usage.cached + usage.cached,
                output=self.usage.output + usage.output,
                reasoning=self.usage.reasoning + usage.reasoning,
            )

    async def aclose(self) -> None:
        await self.llm.aclose()


INEFFECTIVE = 0.9
"""A fold that leaves more than this share of the view was of no use."""


def automation_paused(projection: Projection) -> bool:
    """Whether the two newest changes of the view are automatic folds of no use: another would loop.

    An edit, a clear, a rewind or a fold by hand since is the user acting (invariant 8).
    """
    newest = projection.markers[-2:]
    return len(newest) == 2 and all(
        isinstance(marker, Compaction)
        and marker.reason != "manual"
        and marker.tokens_after > INEFFECTIVE * marker.tokens_before
        for marker in newest
    )


def largest_items(projection: Projection, count: int = 3) -> str:
    """The largest items that a fold may not take away, named for a person."""
    scale = projection.calibration.scale(projection.model)
    items = sorted(projection.view, key=lambda item: item.tokens, reverse=True)[:count]
    return ", ".join(
        f"entry {item.index} ({item.kind}, {round(item.tokens * scale):,} tokens)" for item in items
    )
