"""From the settings to a strategy that gets its embeddings from the provider."""

from pathlib import Path

from foldline.agent import Agent
from foldline.agent.settings import connect_embedder, load_settings
from foldline.history import Session
from foldline.llm import Embedder
from foldline.llm.embeddings import OpenAIEmbedder
from support.embedders import Meanings
from support.llm import ScriptedLLM


def connected(folder: Path, **environ: str) -> Embedder | None:
    given = {"FOLDLINE_HOME": str(folder), **environ}
    return connect_embedder(load_settings(folder, given), given)


def test_a_known_provider_brings_its_model_along(tmp_path: Path) -> None:
    found = connected(tmp_path, OPENAI_API_KEY="sk-x")
    assert isinstance(found, OpenAIEmbedder)
    assert found.model == "text-embedding-3-small"


def test_a_server_of_ones_own_needs_the_setting(tmp_path: Path) -> None:
    local = {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    assert connected(tmp_path, **local) is None
    found = connected(tmp_path, **local, FOLDLINE_COMPACTION__EMBEDDING_MODEL="nomic-embed-text")
    assert isinstance(found, OpenAIEmbedder)
    assert found.model == "nomic-embed-text"


def test_offline_nobody_is_asked(tmp_path: Path) -> None:
    assert connected(tmp_path) is None
    assert connected(tmp_path, OPENAI_API_KEY="sk-x", FOLDLINE_MODEL="offline") is None


async def test_a_strategy_of_the_agent_gets_the_embedder_it_asks_for(tmp_path: Path) -> None:
    session, embedder = Session.create(tmp_path, home=tmp_path), Meanings()
    agent = Agent(session, llm=ScriptedLLM(), compaction="semantic", embedder=embedder)
    assert agent.state.dependencies[Embedder] is embedder
    await agent.aclose()
    without = Agent(session, llm=ScriptedLLM(), compaction="semantic")
    assert Embedder not in without.state.dependencies
    await without.aclose()
    session.close()
