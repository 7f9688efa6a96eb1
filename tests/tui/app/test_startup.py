"""What is imported ahead, and what only when it is wanted."""

from pathlib import Path

import pytest

from foldline.llm import LLM
from foldline.llm.client import ModelClient
from foldline.llm.offline import OfflineLLM
from foldline.llm.providers import OPENAI
from foldline.tui.app import open_session, startup
from support.live import live


async def test_the_first_letter_of_a_prompt_makes_the_client_ready_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_ready: list[LLM] = []
    monkeypatch.setattr(open_session, "import_client", made_ready.append)
    async with live(tmp_path) as running:
        assert made_ready == []
        await running.pilot.press("h", "i")
        assert made_ready == [running.agent.state.models.llm]


def test_only_a_model_that_is_asked_over_the_network_needs_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(
        "foldline.llm.client.preload", lambda api: loaded.append("openai")
    )
    startup.import_client(OfflineLLM())
    assert loaded == []
    startup.import_client(ModelClient(OPENAI, model="gpt-x"))
    assert loaded == ["openai"]


async def test_the_inspector_is_made_when_it_is_wanted(tmp_path: Path) -> None:
    async with live(tmp_path, "An answer.") as running:
        await running.ask("hi")
        shown = running.app.chat.presenter.shown
        assert shown is not None and shown.inspected is None
        await running.pilot.press("f2")
        assert shown.inspected is not None
