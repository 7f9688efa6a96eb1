"""At rest: when the provider's cache of this session ends, what the next request costs then, and whether to
compact before. Reckoned once for a history at rest, never while somebody types."""

from contextlib import suppress
from dataclasses import dataclass

from foldline.compaction import WORTH_WHILE, Plan, asks_model, idle_gain
from foldline.llm.models import cached_price, price_of
from foldline.protocol import FoldlineError, RequestRecord

from .auto_compact import auto_compact_blocker
from .state import AgentState

LEAST = 10_000
"""Tokens of the next request from which on its cache is worth a word."""
_OUTPUT = 5.0
"""What a token of a summary costs where a fresh one costs 1: most providers' price."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The next request, compacted first. `dollars` are of both, where they are known."""

    tokens: int
    dollars: float | None
    pays: bool
    """Whether it is worth it before the cache ends, though nobody may come back."""


@dataclass(frozen=True, slots=True)
class CacheEnd:
    """The end of the cache that the newest request left."""

    seconds: float
    """Until then; below 0, since then."""
    tokens: int
    """Of the next request, all of them new from then on."""
    dollars: float | None
    """What it costs then; None where the model's price is not known."""
    compacted: Compacted | None = None
    """None where a compaction would not make it cheaper, or none is to be made."""


def cache_end(state: AgentState) -> CacheEnd | None:
    """None where the provider names no life, or nothing of this view is in its cache."""
    record = _newest(state)
    if record is None or not (record.cache and record.cache.life and record.usage):
        return None
    left, tokens = record.left or record.at, state.size()
    if left is None or tokens < LEAST:
        return None
    seconds = record.cache.life - (state.session.now() - left).total_seconds()
    price = price_of(record.model)
    hour = bool(record.usage.written_1h)
    dollars = None if price is None else price.cost(tokens, 0, written_1h=tokens if hour else 0)
    compacted = None
    with suppress(FoldlineError):  # A window too small to work in: the next turn says so.
        planned = None if auto_compact_blocker(state) else state.plan("phase")
        if planned is not None and planned.tokens_expected <= WORTH_WHILE * tokens:
            compacted = _compacted(state, planned, tokens, is_cold=seconds <= 0)
    return CacheEnd(seconds, tokens, dollars, compacted)


def _newest(state: AgentState) -> RequestRecord | None:
    """The request whose cache the next one finds: the newest, of this model, and of this view."""
    projection = state.projection
    if not (projection.records_requests and projection.prefix_cached):
        return None
    newest = projection.entries[projection.requests[-1].position]
    same = isinstance(newest, RequestRecord) and newest.model == state.llm.info.id
    return newest if same else None  # type: ignore[return-value]  # mypy does not carry `same` over


def _compacted(state: AgentState, planned: Plan, tokens: int, *, is_cold: bool) -> Compacted | None:
    """The next request after this compaction, where both together are cheaper than it is as it stands."""
    after, draft, price = planned.tokens_expected, _draft(state, tokens, is_cold), price_of(state.llm.info.id)
    if draft + after >= tokens:
        return None
    dollars = None if price is None else price.cost(round(draft), 0) + price.cost(after, 0)
    pays = tokens >= state.budget.early_mark and idle_gain(tokens, after, draft=draft) > 0
    return Compacted(after, dollars, pays)


def _draft(state: AgentState, tokens: int, is_cold: bool) -> float:
    """What writing the compaction costs, in tokens of fresh input. What another model is to read is in no
    cache."""
    if not asks_model(state.strategy):
        return 0.0
    model, writer = state.llm.info.id, state.basis.writer.info.id
    price, writes = price_of(model), price_of(writer)
    read = tokens if is_cold or writer != model else cached_price(model) * tokens
    said = (_OUTPUT if writes is None else writes.output_ratio) * state.budget.max_summary_tokens / 2
    share = writes.input / price.input if price and writes and price.input else 1.0
    return share * (read + said)
