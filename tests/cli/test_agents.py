"""Switching models in the middle of a session, by name and by provider."""

import os
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.settings.settings import connect_llm, load_settings
from foldline.cli.agents import agent_for
from foldline.history import Session
from foldline.llm.catalog import NEEDS_KEY
from foldline.llm.failures import UNREACHABLE
from foldline.protocol import ModelChange, operations
from support.sentences import says
from support.shapes import ListingServer, listing_server

LISTED = {
    "GET /v1/models": {"data": [{"id": "one", "max_model_len": 20_000}, {"id": "two"}]}
}


async def switched(agent: Agent, model: str) -> str:
    """What is asked then, or why not."""
    finished = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model=model))
    )
    return (
        finished.error
        or f"{agent.state.models.llm.info.id} at {agent.state.models.llm.info.provider}"
    )


async def test_the_server_of_the_environment_has_a_name_to_go_back_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each server gets its own key: not the other's, and not on the way."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    with listing_server(LISTED) as box, listing_server(LISTED) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.base_url)
        monkeypatch.setenv("BOX_KEY", "sk-of-the-box")
        agent, here = agent_here(tmp_path, box), other.root.removeprefix("http://")
        assert (await agent.state.models.llm.prepare()).id == "one"
        there = box.root.removeprefix("http://")
        for model, asked in (
            ("two@box", f"two at {there}"),
            ("one", f"one at {there}"),
            ("two@env", f"two at {here}"),
            ("one", f"one at {here}"),
            ("@box", f"one at {there}"),
        ):
            assert await switched(agent, model) == asked
        await agent.aclose()
        agent.session.close()
        for server, key in ((box, "sk-of-the-box"), (other, "sk-of-the-environment")):
            assert {asked.headers["authorization"] for asked in server.requests()} == {
                f"Bearer {key}"
            }


def agent_here(folder: Path, box: ListingServer) -> Agent:
    (folder / "config.toml").write_text(
        f'provider = "box"\n[providers.box]\nbase_url = "{box.base_url}"\nkey_env = "BOX_KEY"\n'
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
    with listing_server(LISTED) as box:
        agent, here = agent_here(tmp_path, box), box.root.removeprefix("http://")
        assert await switched(agent, "two") == f"two at {here}"
        assert (
            await switched(agent, "deepseek-chat@deepseek")
            == "deepseek-chat at api.deepseek.com"
        )
        assert (
            await switched(agent, "deepseek-v4-pro")
            == "deepseek-v4-pro at api.deepseek.com"
        )
        assert says(await switched(agent, "@away"), UNREACHABLE)
        assert (
            await switched(agent, "deepseek-chat")
            == "deepseek-chat at api.deepseek.com"
        )
        said = await switched(agent, "@groq")
        assert says(said, NEEDS_KEY, name="GROQ_API_KEY")
        assert (await switched(agent, "m@deepsek")).startswith(
            "/model: there is no provider deepsek"
        )
        assert await switched(agent, "offline") == "offline at offline"
        assert await switched(agent, "@box") == f"one at {here}"
        assert agent.state.budget.limits.window == 20_000
        changes = [
            entry for entry in agent.session.entries if isinstance(entry, ModelChange)
        ]
        assert [change.provider for change in changes][:2] == [here, "api.deepseek.com"]
        await agent.aclose()
        agent.session.close()
