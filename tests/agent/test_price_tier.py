"""A price tier of long requests: said before it is crossed, and a reason to compact where that pays."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.session import auto_compact, context_budget
from foldline.agent.session.auto_compact import TIER
from foldline.agent.turn import request
from foldline.agent.turn.request import CROSSES_TIER
from foldline.llm import ModelInfo
from foldline.llm.models import LongPrice, Price
from foldline.protocol import Compaction
from foldline.view.budget import BudgetSettings
from support.agents import PlayedLLM, Watch, agent_in, tool_reply

ABOVE = 20_000
TIERED = Price(input=2, cached=0.2, write=1, output=4, long=LongPrice(ABOVE, 2, 1.5))
CROSSES = CROSSES_TIER.format(tokens="20k", times="twice")
COMPACTS = TIER.format(tokens="20k", model="tiered")


@pytest.fixture(autouse=True)
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (auto_compact, request, context_budget):
        monkeypatch.setattr(
            module, "price_of", lambda model: TIERED if model == "tiered" else None
        )


class Priced(PlayedLLM):
    def __init__(self, *script: Any, model: str = "tiered") -> None:
        super().__init__(*script, window=65_536)
        self.info = ModelInfo(id=model, window=65_536)


async def worked(
    folder: Path, steps: int, numbers: int, model: str = "tiered", **options: Any
) -> tuple[Agent, Watch]:
    """A turn of so many steps, each of which reads so many numbers; its agent, closed."""
    command = {"command": f"seq 1000 {1000 + numbers}"}
    calls = [tool_reply(("bash", command), stem=f"c{step}-") for step in range(steps)]
    agent, watch = agent_in(folder, Priced(*calls, model=model), **options)
    await agent.prompt("count")
    await agent.aclose()
    return agent, watch


async def test_a_long_session_is_compacted_at_the_tier_and_the_user_told_why(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path, 60, 150)
    assert (
        watch.notices.count(COMPACTS)
        == len(agent.session.projection.all_compactions)
        >= 1
    )
    assert all(sent.tokens <= ABOVE for sent in agent.session.projection.meter.requests)
    assert CROSSES not in watch.notices
    [*_, made] = [
        entry for entry in agent.session.entries if isinstance(entry, Compaction)
    ]
    assert (made.reason, made.cause, made.window) == (
        "threshold",
        "price",
        agent.state.models.window,
    )


async def test_where_few_requests_would_pay_it_the_price_is_only_said(
    tmp_path: Path,
) -> None:
    """Once: the requests that follow are above it like the one before them."""
    agent, watch = await worked(tmp_path, 6, 1_400)
    assert agent.session.projection.all_compactions == []
    assert watch.notices.count(CROSSES) == 1
    starts = [
        event.type for event in watch.events if event.type in ("step_started", "notice")
    ]
    assert starts.index("notice") < len(starts) - 1, "before the last requests"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "options",
    [{"mode": "off"}, {"budget": BudgetSettings(threshold=60_000)}],
    ids=["off", "threshold"],
)
async def test_who_decides_otherwise_is_only_told(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    agent, watch = await worked(tmp_path, 60, 150, **options)
    assert agent.session.projection.all_compactions == []
    assert watch.notices.count(CROSSES) == 1


async def test_a_model_without_tiers_uses_its_whole_window(tmp_path: Path) -> None:
    agent, watch = await worked(tmp_path, 60, 150, model="plain")
    assert max(sent.tokens for sent in agent.session.projection.meter.requests) > ABOVE
    assert not {CROSSES, COMPACTS} & {*watch.notices}
