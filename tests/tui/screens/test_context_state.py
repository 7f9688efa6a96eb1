"""What the Context screen is told: the meter's size in parts, and the Inspector's weights."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from foldline.agent import Agent
from foldline.agent.mcp.servers import Server, ServerTool
from foldline.context.weight import item_weight
from foldline.history import Session
from foldline.llm import ToolSpec
from foldline.tui.figures import Figures
from foldline.tui.screens.context import ContextState, trouble_of, use_rows
from support.agents import PlayedLLM
from support.history import History
from support.live import session_in
from support.scenes import shop_api
from support.stories import chinese, shop


def agent_with(folder: Path, built: History, window: int = 131_072) -> Agent:
    session = Session.from_entries(session_in(folder).header, built.entries)
    return Agent(session, llm=PlayedLLM(window=window))


def gathered(agent: Agent, prompts: Sequence[str] = ()) -> ContextState:
    planned = None if trouble_of(agent.state) else agent.state.plan("manual")
    return ContextState(agent.state, Figures(agent.state).room(), prompts, planned)


BUILT = [History(), shop(), shop_api(), chinese()]


@pytest.mark.parametrize("built", BUILT, ids=["new", "shop", "api", "zh"])
def test_the_parts_add_up_to_the_meter_and_all_rows_to_the_window(tmp_path: Path, built: History) -> None:
    agent = agent_with(tmp_path, built)
    state = gathered(agent, ["held", "one", "two", "typed"])
    assert state.usage.size.tokens == Figures(agent.state).room().size
    assert abs(sum(share.tokens for share in state.usage.shares) - state.usage.size.tokens) < 1
    rest = state.waiting + state.free + (state.reserve or 0)
    assert state.usage.size.tokens + rest == state.room.window
    assert len(state.prompts) == 4 and state.waiting > 0


def test_what_subagents_have_worked_stands_below_what_the_window_holds(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, shop())
    saved = (3, 43_000, 1_200)
    with_some = ContextState(agent.state, Figures(agent.state).room(), (), None, "", saved)
    row = use_rows(with_some)[-1]
    assert row.name == "subagents, 43k worked"
    assert row.about == "3 subagents: 43k worked, 1.2k in your view, among tool results and notes."
    assert not any(row.name.startswith("subagents") for row in use_rows(gathered(agent)))


def test_the_largest_items_of_the_view_come_first(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, shop_api())
    projection = agent.state.projection
    weights = [item_weight(projection, item).tokens for item in gathered(agent).items]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == max(item_weight(projection, item).tokens for item in projection.view)


def test_the_tools_of_a_server_stand_apart_and_say_how_to_switch_them_off(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, shop())
    agent_state = agent.state
    spec = ToolSpec("github_search", "Searches. " * 300, {"type": "object"})
    server = cast(Server, SimpleNamespace(name="github"))
    agent_state.tools = [*agent_state.tools, ServerTool(spec, "search", server)]
    own, theirs = agent_state.schemas
    assert (own.server, theirs.server, theirs.tools) == ("", "github", 1)
    assert own.tokens + theirs.tokens == agent_state.overhead
    about = {row.name: row.about for row in use_rows(gathered(agent))}
    assert about["tools of Foldline"].startswith("The schemas of Foldline's own tools")
    assert "enabled = false in [mcp.github]" in about["tools of github"]


def test_what_a_compaction_would_take_stands_in_the_meter(tmp_path: Path) -> None:
    state = gathered(agent_with(tmp_path, shop_api()))
    assert state.plan is not None and state.plan.compacted == 25
    assert state.room.weights.compacting > 80_000 and state.room.weights.total == state.room.size


def test_a_window_too_small_to_work_in_is_said(tmp_path: Path) -> None:
    state = gathered(agent_with(tmp_path, shop(), window=1_000))
    assert "too small" in state.trouble and state.reserve is None
    assert any(row.name == "over the window" for row in use_rows(state)) == (state.free < 0)
