"""`SemanticCompaction`: near to the task at hand, by embeddings where there are any."""

import asyncio
from dataclasses import replace

import pytest

from foldline.compaction import (
    CompactionStrategy,
    ImportanceCompaction,
    Proposal,
    SemanticCompaction,
    load_strategy,
    propose,
)
from foldline.context.budget import Budget
from foldline.context.invariants import broken
from foldline.llm import Embedder, LLMError
from foldline.llm.embeddings import OpenAIEmbedder
from foldline.llm.providers import Provider
from support.embedders import Meanings
from support.history import History, history
from support.llm import ScriptedLLM
from support.server import running_server

LINE = "nothing much to be seen in this line of the file\n"
NEAR = "The password is stored as a hash, and the token expires after an hour."
SAME_WORDS = "People who cannot get in are shown the page that says so."
FAR = "I decided to draw the legend outside of the plot, because the axis would hide it."
RULE = "The chart must never use red."
REQUEST = "people cannot get in, fix the sign-in"
BUDGET = Budget(32_768, 4_096, 700, 1_600, 0.75)


def session() -> History:
    """Charts were worked on at length; the login, touched once, is the task at hand."""
    built = history().system("s").turn(RULE, "Understood.")
    for topic in (NEAR, SAME_WORDS, FAR):
        built.user("what about this part?").step("read", LINE * 3, path="a.py").assistant(topic)
        with_noise(built, len(built.entries))
    built.user(REQUEST)
    return with_noise(built, 900, steps=16)


def with_noise(built: History, first: int, steps: int = 10) -> History:
    for nth in range(first, first + steps):
        built.step("read", LINE * 14, path=f"{nth}.py")
    return built


async def folded(built: History, strategy: CompactionStrategy) -> Proposal:
    proposal = await propose(
        built.projection(),
        strategy=strategy,
        llm=ScriptedLLM("## Goal\nnotes"),
        budget=BUDGET,
        reason="threshold",
    )
    assert proposal is not None
    assert proposal.entry.rung == "strategy"
    assert broken(built.add(proposal.entry).projection()) == []
    return proposal


async def stays(strategy: CompactionStrategy) -> set[str]:
    built = session()
    await folded(built, strategy)
    return {item.message.text for item in built.projection().view} & {NEAR, SAME_WORDS, FAR, RULE, REQUEST}


async def test_by_importance_the_decision_stays_and_by_meaning_what_is_near_the_task() -> None:
    assert await stays(ImportanceCompaction()) == {FAR, RULE, REQUEST}
    assert await stays(SemanticCompaction(Meanings())) >= {NEAR, RULE, REQUEST}
    assert FAR not in await stays(SemanticCompaction(Meanings()))


async def test_without_embeddings_what_shares_words_with_the_task_is_near() -> None:
    found = await stays(SemanticCompaction())
    assert found >= {SAME_WORDS, RULE, REQUEST}
    assert NEAR not in found


async def test_embeddings_come_from_the_provider_s_own_endpoint() -> None:
    with running_server(flags=["--embeddings", "good"]) as server:
        embedder = OpenAIEmbedder(Provider("box", "A box", server.base_url), model="meanings-1")
        assert await stays(SemanticCompaction(embedder)) >= {NEAR, RULE, REQUEST}
        sent = [text for body in server.embedded() for text in body["input"]]
        assert any(REQUEST in text for text in sent)
        assert server.requests() == []


@pytest.mark.parametrize(
    "flags", [[], *(["--embeddings", way] for way in ("refused", "torn", "short", "uneven"))]
)
async def test_where_the_endpoint_fails_the_fold_goes_on_by_words(flags: list[str]) -> None:
    with running_server(flags=flags) as server:
        embedder = OpenAIEmbedder(Provider("box", "A box", server.base_url), model="meanings-1")
        assert await stays(SemanticCompaction(embedder)) == await stays(SemanticCompaction())


async def test_an_endpoint_that_hangs_is_given_up_and_the_fold_goes_on() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        embedder = OpenAIEmbedder(Provider("box", "A box", server.base_url), model="m", seconds=0.3)
        assert await stays(SemanticCompaction(embedder)) == await stays(SemanticCompaction())


async def test_cancelling_passes_through_at_once() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        embedder = OpenAIEmbedder(Provider("box", "A box", server.base_url), model="m")
        task = asyncio.create_task(folded(session(), SemanticCompaction(embedder)))
        while not server.embedded():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_later_fold_asks_only_for_what_is_new() -> None:
    embedder, built = Meanings(), session()
    strategy = SemanticCompaction(embedder)
    await folded(built, strategy)
    first = {*embedder.asked}
    embedder.asked.clear()
    await folded(with_noise(built, 1_000, steps=20), strategy)
    assert embedder.asked
    assert not first & {*embedder.asked}


async def test_no_text_is_empty_and_no_consent_is_asked_for() -> None:
    embedder, built = Meanings(), history().system("s").user("", images=1).assistant("seen").user("ok, go on")
    await folded(with_noise(built, 0, steps=30), SemanticCompaction(embedder))
    assert all(text.strip() for text in embedder.asked)
    assert "ok, go on" not in embedder.asked


async def test_where_everything_stays_nothing_is_compared() -> None:
    embedder, built = Meanings(), history().system("s").turn("hi", "hello")
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
    assert embedder.asked == []


async def test_embeddings_are_no_model_calls_of_the_fold() -> None:
    proposal = await folded(session(), SemanticCompaction(Meanings()))
    assert (proposal.model_calls, proposal.entry.model) == (1, "scripted")


async def test_a_failure_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="foldline.compaction"):
        await folded(session(), SemanticCompaction(Meanings(LLMError("no worker is free"))))
    assert "no worker is free" in caplog.text


async def test_it_is_made_with_the_embedder_there_is_or_with_none() -> None:
    embedder = Meanings()
    strategy = load_strategy("semantic", {Embedder: embedder})
    await folded(session(), strategy)
    assert embedder.asked
    assert type(load_strategy("semantic")) is SemanticCompaction
