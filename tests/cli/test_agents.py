"""Switching models in the middle of a session, by name and by provider."""

import os
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.settings import connect_llm, load_settings
from foldline.cli.agents import agent_for
from foldline.history import Session
from foldline.protocol import ModelChange, operations
from support.shapes import Shapes, answering

LISTED = {"GET /v1/models": {"data": [{"id": "one", "max_model_len": 20_000}, {"id": "two"}]}}


async def switched(agent: Agent, model: str) -> str:
    """What is asked then, or why not."""
    finished = await agent.executor.wait_for(agent.executor.submit(operations.SwitchModel(model=model)))
    return finished.error or f"{agent.desk.llm.info.id} at {agent.desk.llm.info.provider}"


def agent_here(folder: Path, box: Shapes) -> Agent:
    (folder / "config.toml").write_text(
        f'provider = "box"\n[providers.box]\nbase_url = "{box.base_url}"\n'
        '[providers.away]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    settings = load_settings(folder, os.environ)
    session = Session.create(folder, home=folder)
    return agent_for(session, settings, connect_llm(settings, os.environ))


async def test_a_model_alone_is_one_of_the_provider_asked_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
    with answering(LISTED) as box:
        agent, here = agent_here(tmp_path, box), box.root.removeprefix("http://")
        assert await switched(agent, "two") == f"two at {here}"
        assert await switched(agent, "deepseek-chat@deepseek") == "deepseek-chat at api.deepseek.com"
        assert await switched(agent, "deepseek-v4-pro") == "deepseek-v4-pro at api.deepseek.com"
        assert "Cannot connect" in await switched(agent, "@away")
        assert await switched(agent, "deepseek-chat") == "deepseek-chat at api.deepseek.com"
        assert "needs a key: set GROQ_API_KEY" in await switched(agent, "@groq")
        assert await switched(agent, "offline") == "offline at offline"
        assert await switched(agent, "@box") == f"one at {here}"
        assert agent.desk.budget.window == 20_000
        changes = [entry for entry in agent.session.entries if isinstance(entry, ModelChange)]
        assert [change.provider for change in changes][:2] == [here, "api.deepseek.com"]
        await agent.aclose()
        agent.session.close()
