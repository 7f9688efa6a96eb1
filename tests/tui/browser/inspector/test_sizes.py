"""The use of the window: the meter's size in parts, and the Inspector's weights."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from foldline.agent import Agent
from foldline.agent.extensions.mcp.servers import ServerTool, ToolServer
from foldline.frontend.figures import Figures
from foldline.history import Session
from foldline.llm import ToolSpec
from foldline.tui.browser.inspector.sizes import (
    SERVER_TOOLS,
    SUBAGENTS,
    UseRow,
    WindowUse,
    budget_error,
    use_at,
    use_now,
    use_rows,
)
from foldline.view.weight import request_breakdown, view_size
from support.agents import PlayedLLM
from support.history import History
from support.live import session_in
from support.scenes import shop_api
from support.stories import chinese, shop


def agent_with(folder: Path, built: History, window: int = 131_072) -> Agent:
    session = Session.from_entries(session_in(folder).header, built.entries)
    return Agent(session, llm=PlayedLLM(window=window))


def gathered(agent: Agent, prompts: Sequence[str] = ()) -> WindowUse:
    figures = Figures(agent.state)
    return use_now(agent.state, figures.room(), figures.manual_plan(), prompts)


def rows_of(use: WindowUse) -> list[UseRow]:
    return [row for row in use_rows(use) if isinstance(row, UseRow)]


BUILT = [History(), shop(), shop_api(), chinese()]


@pytest.mark.parametrize("built", BUILT, ids=["new", "shop", "api", "zh"])
def test_the_parts_add_up_to_the_meter_and_all_rows_to_the_window(
    tmp_path: Path, built: History
) -> None:
    agent = agent_with(tmp_path, built)
    state = gathered(agent, ["held", "one", "two", "typed"])
    usage = request_breakdown(agent.state.projection, state.schemas)
    assert usage.size.tokens == Figures(agent.state).room().size == state.room.size
    assert abs(sum(share.tokens for share in usage.shares) - usage.size.tokens) < 1
    rest = state.waiting + state.free + (state.reserve or 0)
    assert usage.size.tokens + rest == state.room.window
    assert len(state.prompts) == 4 and state.waiting > 0


def test_what_subagents_have_worked_stands_below_what_the_window_holds(
    tmp_path: Path,
) -> None:
    agent = agent_with(tmp_path, shop())
    saved = (3, 43_000, 1_200)
    with_some = use_now(agent.state, Figures(agent.state).room(), None, (), saved)
    row = rows_of(with_some)[-1]
    assert row.name == "subagents, used 43k"
    assert row.about == SUBAGENTS.format(
        subagents="3 subagents", used="43k", answers="1.2k"
    )
    assert not any(row.name.startswith("subagents") for row in rows_of(gathered(agent)))


def test_without_an_agent_the_parts_add_up_to_the_size_of_the_view() -> None:
    projection = shop_api().projection()
    size = view_size(projection)
    use = use_at(projection, size, 0, 131_072)
    assert use.room.size == size.tokens and use.reserve is None
    assert [row.name for row in rows_of(use)][-2:] == ["next request", "free"]


def test_the_tools_of_a_server_stand_apart_and_say_how_to_switch_them_off(
    tmp_path: Path,
) -> None:
    agent = agent_with(tmp_path, shop())
    agent_state = agent.state
    spec = ToolSpec("github_search", "Searches. " * 300, {"type": "object"})
    server = cast(ToolServer, SimpleNamespace(name="github"))
    agent_state.tools.all = [*agent_state.tools.all, ServerTool(spec, "search", server)]
    own, theirs = agent_state.tools.schemas
    assert (own.server, theirs.server, theirs.tools) == ("", "github", 1)
    assert own.tokens + theirs.tokens == agent_state.budget.overhead
    about = {row.name: row.about for row in rows_of(gathered(agent))}
    assert about["Foldline tools"]
    assert about["github tools"] == SERVER_TOOLS.format(server="github")


def test_what_a_compaction_would_take_stands_in_the_meter(tmp_path: Path) -> None:
    state = gathered(agent_with(tmp_path, shop_api()))
    assert state.plan is not None and state.plan.compacted == 25
    assert (
        state.room.weights.compacting > 80_000
        and state.room.weights.total == state.room.size
    )


def test_a_window_too_small_to_work_in_is_said(tmp_path: Path) -> None:
    state = gathered(agent_with(tmp_path, shop(), window=1_000))
    assert state.agent is not None
    assert "too small" in budget_error(state.agent) and state.reserve is None
    assert any(row.name == "over the window" for row in rows_of(state)) == (
        state.free < 0
    )
