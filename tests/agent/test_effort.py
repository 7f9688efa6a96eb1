"""How much a model thinks: what the settings say goes out, with the words of each API."""

from pathlib import Path

import pytest

from foldline.agent.agent import use_request_options
from foldline.agent.settings.settings import load_settings
from support.agents import agent_in
from support.clients import client_of
from support.server import running_server


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("different", "field", "value"),
    [
        ({"api": "messages"}, "output_config", {"effort": "low"}),
        ({"api": "responses"}, "reasoning", {"summary": "auto", "effort": "low"}),
        ({}, "reasoning_effort", "low"),
        ({"dialect": "openrouter"}, "reasoning", {"effort": "low"}),
    ],
)
async def test_a_change_holds_from_the_next_request_on(
    tmp_path: Path, different: dict[str, str], field: str, value: object
) -> None:
    (tmp_path / "project").mkdir()
    with running_server() as server:
        agent, _ = agent_in(tmp_path / "project", client_of(server, **different))
        await agent.prompt("hello")
        use_request_options(agent.state, load_settings(tmp_path, {}, {"effort": "low"}))
        await agent.prompt("and again")
        await agent.aclose()
        first, second = server.requests()
    assert "low" not in str(first.body.get(field))
    assert second.body[field] == value
