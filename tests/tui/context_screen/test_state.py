"""What the Context screen is told: the meter's size in parts, the Inspector's weights, and true remedies."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from foldline.agent import Agent
from foldline.agent.mcp.servers import Server, ServerTool
from foldline.context.weight import item_weight
from foldline.history import Session
from foldline.llm import ToolSpec
from foldline.tui.context_screen.rows import use_rows
from foldline.tui.context_screen.state import ContextReader, ContextState, PromptKind, largest, schemas_of
from foldline.tui.figures import Figures
from foldline.tui.panels.edit_hints import Limits, change_words, edit_hints
from support.agents import PlayedLLM
from support.history import History
from support.live import session_in
from support.scenes import shop_api
from support.stories import Story, chinese, shop

ACTIONS = {"hides": "hide", "shows": "show", "drops": "drop"}


def agent_with(folder: Path, built: History, window: int = 131_072) -> Agent:
    session = Session.from_entries(session_in(folder).header, built.entries)
    return Agent(session, llm=PlayedLLM(window=window))


def gathered(agent: Agent) -> ContextState:
    return ContextReader(agent.state).state(Figures(agent.state).room(), {})


BUILT = [History(), shop(), shop_api(), chinese()]


@pytest.mark.parametrize("built", BUILT, ids=["new", "shop", "api", "zh"])
def test_the_parts_add_up_to_the_meter_and_all_rows_to_the_window(tmp_path: Path, built: History) -> None:
    agent = agent_with(tmp_path, built)
    prompts: dict[PromptKind, list[str]] = {"held": ["held"], "queued": ["one", "two"], "written": ["typed"]}
    state = ContextReader(agent.state).state(Figures(agent.state).room(), prompts)
    assert state.usage.size.tokens == Figures(agent.state).room().size
    assert abs(sum(share.tokens for share in state.usage.shares) - state.usage.size.tokens) < 1
    rest = state.waiting + state.free + (state.reserve or 0)
    assert state.usage.size.tokens + rest == state.room.window
    counted = [(share.kind, share.items) for share in state.prompts]
    assert counted == [("held", 1), ("queued", 2), ("written", 1)]


def test_an_item_weighs_what_the_inspector_says(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, shop_api())
    projection = agent.state.projection
    weights = {item.key: item_weight(projection, item).tokens for item in projection.view}
    items = gathered(agent).items
    listed = [item for item in items if item.entry is not None]
    assert listed and all(item.tokens == weights[item.key] for item in listed)
    assert [item.tokens for item in items] == sorted((item.tokens for item in items), reverse=True)
    assert max(weights.values()) == items[0].tokens


@pytest.mark.parametrize("built", [shop(), shop_api(), shop().edit("pin", 6)], ids=["shop", "api", "pinned"])
def test_what_a_row_promises_is_what_the_key_does(built: Story) -> None:
    projection = built.projection()
    promised = 0
    for item in largest(projection, [], None, count=64):
        found = re.match(r"[zx] (hides|shows|drops) (\S+)", item.remedy)
        if found is None or item.entry is None:
            continue
        keys = edit_hints(projection, item.entry, Limits()).keys
        changes = [change_words(offer.change) for offer in keys if offer.action == ACTIONS[found[1]]]
        assert changes == [found[2]], item
        promised += 1
    assert promised > 3


def test_what_no_key_helps_against_says_what_does(tmp_path: Path) -> None:
    items = {item.kind: item for item in gathered(agent_with(tmp_path, shop_api())).items}
    assert items["system"].remedy == "opens every request"
    assert items["dev"].remedy == "shorten AGENTS.md"
    assert items["summary"].remedy == "rewritten next time"
    assert items["tools"].advice.startswith("The schemas of Foldline's own tools")


def test_the_tools_of_a_server_stand_apart_and_say_how_to_switch_them_off(tmp_path: Path) -> None:
    agent = agent_with(tmp_path, shop())
    agent_state = agent.state
    spec = ToolSpec("github_search", "Searches. " * 300, {"type": "object"})
    server = cast(Server, SimpleNamespace(name="github"))
    agent_state.tools = [*agent_state.tools, ServerTool(spec, "search", server)]
    own, theirs = schemas_of(agent_state)
    assert (own.server, theirs.server, theirs.tools) == ("", "github", 1)
    assert own.tokens + theirs.tokens == agent_state.overhead
    lent = next(item for item in gathered(agent).items if item.server == "github")
    assert lent.remedy == "off: [mcp.github]" and "enabled = false in [mcp.github]" in lent.advice


async def test_a_compaction_is_planned_once_for_a_view_that_stays(tmp_path: Path, monkeypatch: Any) -> None:
    agent = agent_with(tmp_path, shop_api())
    gathering, told = ContextReader(agent.state), []
    for _ in range(3):
        await gathering.plan_anew(lambda: told.append(1))
    state = gathering.state(Figures(agent.state).room(), {})
    assert len(told) == 1 and state.compaction is not None
    assert state.compaction.after < state.compaction.before and state.compaction.entries == 25
    taken = [item for item in state.items if item.taken]
    assert {"read", "grep", "summary"} <= {item.kind for item in taken}
    assert state.room.weights.compacting > 80_000 and state.room.weights.total == state.room.size


def test_a_window_too_small_to_work_in_is_said(tmp_path: Path) -> None:
    state = gathered(agent_with(tmp_path, shop(), window=1_000))
    assert "too small" in state.trouble and state.reserve is None
    assert any(row.name == "over the window" for row in use_rows(state)) == (state.free < 0)
