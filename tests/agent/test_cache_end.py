"""When the cache of a session at rest ends, what the next request costs then, and what a compaction saves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.agent.cache_end import CacheEnd, cache_end
from foldline.compaction import idle_gain
from foldline.llm.models import price_of
from foldline.protocol import operations
from support.caching import LIFE, LONG, PRICED, CachingLLM, Hours, session_on


@asynccontextmanager
async def at_rest(
    folder: Path, llm: CachingLLM, prompts: int = 4, **options: Any
) -> AsyncIterator[tuple[Agent, Hours]]:
    """An agent after so many long prompts."""
    clock = Hours()
    agent = Agent(session_on(clock, folder), llm=llm, approvals="all", **options)
    try:
        for _ in range(prompts):
            await agent.prompt(LONG)
        yield agent, clock
    finally:
        await agent.aclose()


def known(agent: Agent) -> CacheEnd:
    found = cache_end(agent.state)
    assert found is not None
    return found


async def test_it_ends_a_life_after_the_newest_request_left(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM()) as (agent, clock):
        assert known(agent).seconds == LIFE
        clock.pass_time(LIFE + 20)
        assert known(agent).seconds == -20


async def test_what_is_new_then_is_the_next_request_at_the_price_of_its_model(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM()) as (agent, _):
        found, price = known(agent), price_of(PRICED)
        assert price is not None
        assert found.tokens == agent.state.size()
        assert found.dollars == pytest.approx(price.cost(found.tokens, 0))


async def test_the_default_strategy_compacts_for_nothing_so_only_what_is_left_is_paid(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM()) as (agent, _):
        found, price, planned = known(agent), price_of(PRICED), agent.state.plan("phase")
        assert price is not None and planned is not None and found.compacted is not None
        assert found.compacted.tokens == planned.tokens_expected < found.tokens / 2
        assert found.compacted.dollars == pytest.approx(price.cost(planned.tokens_expected, 0))
        assert found.compacted.pays


async def test_a_summary_is_drafted_from_the_cache_before_its_end_and_is_too_dear_after_it(
    tmp_path: Path,
) -> None:
    async with at_rest(tmp_path, CachingLLM(), prompts=6, compaction="summary") as (agent, clock):
        warm = known(agent)
        assert warm.compacted is not None and warm.compacted.pays
        clock.pass_time(LIFE + 1)
        assert known(agent).compacted is None
        assert known(agent).dollars == warm.dollars


async def test_without_a_price_there_are_tokens_only(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM(model="mine")) as (agent, _):
        found = known(agent)
        assert found.dollars is None and found.compacted is not None
        assert (found.compacted.dollars, found.compacted.tokens > 0) == (None, True)


async def test_a_short_view_is_not_worth_a_word_and_a_longer_one_not_a_compaction(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM(), prompts=2) as (agent, _):
        assert known(agent).compacted is None or not known(agent).compacted.pays  # type: ignore[union-attr]
    async with at_rest(tmp_path / "other", CachingLLM(), prompts=0) as (agent, _):
        await agent.prompt("hello")
        await agent.prompt("hello again")
        assert cache_end(agent.state) is None


async def test_where_no_life_is_known_or_the_model_or_the_view_is_another_nothing_ends(
    tmp_path: Path,
) -> None:
    async with at_rest(tmp_path / "a", CachingLLM(life=0)) as (agent, _):
        assert cache_end(agent.state) is None
    async with at_rest(tmp_path / "b", CachingLLM()) as (agent, _):
        agent.state.llm = CachingLLM(model="other")
        assert cache_end(agent.state) is None
    async with at_rest(tmp_path / "c", CachingLLM()) as (agent, _):
        await agent.executor.wait_for(agent.executor.submit(operations.CompactSession(reason="phase")))
        assert agent.session.projection.all_compactions and cache_end(agent.state) is None


async def test_where_nothing_is_compacted_automatically_nothing_is_offered(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM(), mode="off") as (agent, _):
        assert known(agent).compacted is None


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_it_never_pays_to_compact_what_saves_less_than_it_costs(
    before: float, after: float, draft: float
) -> None:
    if idle_gain(before, after, draft=draft) > 0:
        assert before - after > draft
