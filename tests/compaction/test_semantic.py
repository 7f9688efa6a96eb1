"""`SemanticCompaction`: relevance to the current task, by embeddings if available."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.compaction import (
    CompactionStrategy,
    ImportanceCompaction,
    Proposal,
    SemanticCompaction,
    dependencies,
    load_strategy,
    propose,
)
from foldline.llm import Embedder, LLMError
from foldline.llm.client import ModelClient
from foldline.llm.embeddings import OpenAIEmbedder
from foldline.llm.providers import PROVIDERS, Provider
from foldline.view.budget import Budget
from foldline.view.rules import broken
from support.embedders import FakeEmbedder
from support.history import History, history
from support.llm import ScriptedLLM
from support.server import running_server

LINE = "nothing much to be seen in this line of the file\n"
NEAR = "The password is stored as a hash, and the token expires after an hour."
SAME_WORDS = "People who cannot get in are shown the page that says so."
FAR = (
    "I decided to draw the legend outside of the plot, because the axis would hide it."
)
RULE = "The chart must never use red."
REQUEST = "people cannot get in, fix the sign-in"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


def session() -> History:
    """Build a session: long work on charts, then the current task, a login touched only once."""
    built = history().system("s").turn(RULE, "Understood.")
    for topic in (NEAR, SAME_WORDS, FAR):
        built.user("what about this part?").step(
            "read", LINE * 3, path="a.py"
        ).assistant(topic)
        with_noise(built, len(built.entries))
    built.user(REQUEST)
    return with_noise(built, 900, steps=16)


def with_noise(built: History, first: int, steps: int = 10) -> History:
    for nth in range(first, first + steps):
        built.step("read", LINE * 14, path=f"{nth}.py")
    return built


async def run_compaction(
    built: History, strategy: CompactionStrategy, provider: str = ""
) -> Proposal:
    llm = ScriptedLLM("## Goal\nnotes")
    llm.info = replace(llm.info, provider=provider)
    proposal = await propose(
        built.projection(),
        strategy=strategy,
        llm=llm,
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.entry.rung == "strategy"
    assert broken(built.add(proposal.entry).projection()) == []
    return proposal


async def kept_texts(strategy: CompactionStrategy, provider: str = "") -> set[str]:
    built = session()
    await run_compaction(built, strategy, provider)
    return {item.message.text for item in built.projection().view} & {
        NEAR,
        SAME_WORDS,
        FAR,
        RULE,
        REQUEST,
    }


async def test_importance_keeps_the_decision_and_similarity_keeps_the_related_result() -> (
    None
):
    assert await kept_texts(ImportanceCompaction()) == {FAR, RULE, REQUEST}
    assert await kept_texts(SemanticCompaction(FakeEmbedder())) >= {NEAR, RULE, REQUEST}
    assert FAR not in await kept_texts(SemanticCompaction(FakeEmbedder()))


async def test_shared_words_measure_similarity_without_embeddings() -> None:
    found = await kept_texts(SemanticCompaction())
    assert found >= {SAME_WORDS, RULE, REQUEST}
    assert NEAR not in found


async def test_embeddings_come_from_the_providers_endpoint() -> None:
    with running_server(flags=["--embeddings", "good"]) as server:
        embedder = OpenAIEmbedder(
            Provider("box", "A box", server.base_url), model="meanings-1"
        )
        assert await kept_texts(SemanticCompaction(embedder), embedder.provider) >= {
            NEAR,
            RULE,
            REQUEST,
        }
        sent = [text for body in server.embedding_requests() for text in body["input"]]
        assert any(REQUEST in text for text in sent)
        assert server.requests() == []


@pytest.mark.parametrize(
    "flags",
    [[], *(["--embeddings", way] for way in ("refused", "torn", "short", "uneven"))],
)
async def test_a_failing_endpoint_falls_back_to_shared_words(flags: list[str]) -> None:
    with running_server(flags=flags) as server:
        embedder = OpenAIEmbedder(
            Provider("box", "A box", server.base_url), model="meanings-1"
        )
        assert await kept_texts(
            SemanticCompaction(embedder), embedder.provider
        ) == await kept_texts(SemanticCompaction())


async def test_a_hanging_endpoint_times_out_and_the_compaction_continues() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        embedder = OpenAIEmbedder(
            Provider("box", "A box", server.base_url), model="m", seconds=0.3
        )
        assert await kept_texts(
            SemanticCompaction(embedder), embedder.provider
        ) == await kept_texts(SemanticCompaction())


async def test_cancelling_passes_through_at_once() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        embedder = OpenAIEmbedder(Provider("box", "A box", server.base_url), model="m")
        task = asyncio.create_task(
            run_compaction(session(), SemanticCompaction(embedder), embedder.provider)
        )
        while not server.embedding_requests():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_neither_empty_texts_nor_consents_are_embedded() -> None:
    embedder, built = (
        FakeEmbedder(),
        history().system("s").user("", images=1).assistant("seen").user("ok, go on"),
    )
    await run_compaction(with_noise(built, 0, steps=30), SemanticCompaction(embedder))
    assert all(text.strip() for text in embedder.texts)
    assert "ok, go on" not in embedder.texts


async def test_nothing_is_embedded_if_everything_is_kept() -> None:
    embedder, built = FakeEmbedder(), history().system("s").turn("hi", "hello")
    built.user("go").step("bash", "x" * 40_000, command="make").assistant("made")
    proposal = await propose(
        built.projection(),
        strategy=SemanticCompaction(embedder),
        llm=ScriptedLLM(),
        budget=replace(BUDGET, keep_recent_tokens=8_000),
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.model_calls == 0
    assert embedder.texts == []


async def test_embeddings_do_not_count_as_model_calls() -> None:
    proposal = await run_compaction(session(), SemanticCompaction(FakeEmbedder()))
    assert (proposal.model_calls, proposal.entry.model) == (1, "scripted")


async def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="foldline.compaction"):
        await run_compaction(
            session(), SemanticCompaction(FakeEmbedder(LLMError("no worker is free")))
        )
    assert "no worker is free" in caplog.text


async def test_the_strategy_is_built_with_or_without_an_embedder() -> None:
    embedder = FakeEmbedder()
    strategy = load_strategy("semantic", {Embedder: embedder})
    await run_compaction(session(), strategy)
    assert embedder.texts
    assert type(load_strategy("semantic")) is SemanticCompaction


async def test_no_text_goes_to_the_previous_provider_after_a_switch() -> None:
    class Elsewhere(FakeEmbedder):
        provider = "another.example"

    embedder = Elsewhere()
    assert await kept_texts(SemanticCompaction(embedder)) == await kept_texts(
        SemanticCompaction()
    )
    assert embedder.texts == []


def test_the_summary_model_provides_the_embeddings(tmp_path: Path) -> None:
    client = ModelClient(PROVIDERS["openai"], model="gpt-5", key="sk-x")
    embedder = dependencies(client, tmp_path)[Embedder]
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder.model == "text-embedding-3-small"
    assert Embedder not in dependencies(ScriptedLLM(), tmp_path)
