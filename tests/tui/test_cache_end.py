"""When the cache of a session at rest ends, and what the next request costs then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.frontend.figures import Figures
from foldline.frontend.state import CacheEnds
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


def cache_end(agent: Agent) -> CacheEnds | None:
    return Figures(agent.state).cache_ends(0.0)


def known(agent: Agent) -> CacheEnds:
    found = cache_end(agent)
    assert found is not None
    return found


async def test_it_ends_a_life_after_the_newest_request_left(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM()) as (agent, clock):
        assert known(agent).at == LIFE
        clock.pass_time(LIFE + 20)
        assert known(agent).at == -20


async def test_what_is_new_then_is_the_next_request_at_the_price_of_its_model(
    tmp_path: Path,
) -> None:
    async with at_rest(tmp_path, CachingLLM()) as (agent, _):
        found, price = known(agent), price_of(PRICED)
        assert price is not None
        assert found.tokens == agent.state.budget.size()
        assert found.dollars == pytest.approx(price.cost(found.tokens, 0))


async def test_without_a_price_there_are_tokens_only(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM(model="mine")) as (agent, _):
        found = known(agent)
        assert found.dollars is None and found.tokens > 0


async def test_a_short_view_is_not_worth_a_word(tmp_path: Path) -> None:
    async with at_rest(tmp_path, CachingLLM(), prompts=0) as (agent, _):
        await agent.prompt("hello")
        await agent.prompt("hello again")
        assert cache_end(agent) is None


async def test_where_no_life_is_known_or_the_model_or_the_view_is_another_nothing_ends(
    tmp_path: Path,
) -> None:
    async with at_rest(tmp_path / "a", CachingLLM(life=0)) as (agent, _):
        assert cache_end(agent) is None
    async with at_rest(tmp_path / "b", CachingLLM()) as (agent, _):
        agent.state.models.llm = CachingLLM(model="other")
        assert cache_end(agent) is None
    async with at_rest(tmp_path / "c", CachingLLM()) as (agent, _):
        await agent.executor.wait_for(
            agent.executor.submit(operations.CompactSession(reason="phase"))
        )
        assert agent.session.projection.all_compactions and cache_end(agent) is None
