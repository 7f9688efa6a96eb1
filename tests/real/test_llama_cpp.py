"""Foldline against llama.cpp's own server with a real model (`make test-real`), whose log and usage judge."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.settings.model_choice import server_of_environment
from foldline.llm import (
    Answer,
    ContextOverflow,
    LLMError,
    ReadingChunk,
    Request,
    RetryChunk,
    TextChunk,
)
from foldline.llm.client import ModelClient
from foldline.llm.embeddings import OpenAIEmbedder
from foldline.llm.failures import BROKEN, UNREACHABLE
from foldline.protocol import Message, SystemMessage, UserMessage, events, text_parts
from foldline.view.rules import broken
from support.agents import Watch, agent_in
from support.real_server import RealServer, free_port, real_server, why_not
from support.sentences import pattern, says

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

WINDOW = 2_048
STORY = "The keeper of the lighthouse wrote down every ship that passed. "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(
        tmp_path_factory.mktemp("real") / "log", window=WINDOW, slots=2
    ) as running:
        yield running


def client_at(server: RealServer) -> ModelClient:
    """As OPENAI_BASE_URL names it: nothing is known but the address."""
    return ModelClient(server_of_environment(server.base_url))


def conversation(*said: str) -> list[Message]:
    return [
        SystemMessage(parts=text_parts("You answer in one short sentence.")),
        *(UserMessage(parts=text_parts(text)) for text in said),
    ]


async def answer(
    client: ModelClient, messages: list[Message], most: int = 12
) -> Answer:
    async with aclosing(client.stream(Request(messages, max_output=most))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Answer):
                return chunk
    raise AssertionError("no answer")


async def test_its_name_and_the_window_of_one_slot_are_known_before_the_first_request(
    server: RealServer,
) -> None:
    client = client_at(server)
    info = await client.prepare()
    assert info.id.endswith(".gguf")
    assert (info.window, info.window_from, info.tools) == (WINDOW, "server", False)
    await client.aclose()


async def test_an_answer_is_streamed_with_its_usage_and_how_far_the_prompt_was_read(
    server: RealServer,
) -> None:
    client = client_at(server)
    messages = conversation(STORY * 30 + "What did the keeper write down?")
    async with aclosing(client.stream(Request(messages, max_output=24))) as chunks:
        came = [chunk async for chunk in chunks]
    await client.aclose()
    assert isinstance(came[-1], Answer)
    texts = [chunk.text for chunk in came if isinstance(chunk, TextChunk)]
    assert len(texts) > 3
    assert "".join(texts) == came[-1].message.text
    usage = came[-1].message.usage
    assert usage is not None and 300 < usage.input < 700 and 0 < usage.output <= 24
    read = [chunk for chunk in came if isinstance(chunk, ReadingChunk)]
    assert [chunk.read for chunk in read] == sorted(chunk.read for chunk in read)
    assert read[-1].read == read[-1].total == usage.input


async def test_ten_turns_are_read_from_the_cache(server: RealServer) -> None:
    client = client_at(server)
    messages = conversation(STORY * 20 + "Who wrote?")
    shares = []
    for turn in range(10):
        said = (await answer(client, messages)).message
        assert said.usage is not None
        shares.append(said.usage.cached / said.usage.input)
        messages += [
            said,
            UserMessage(parts=text_parts(f"And what else, number {turn}?")),
        ]
    await client.aclose()
    assert min(shares[1:]) > 0.9, shares


async def test_two_slots_answer_two_at_a_time(server: RealServer) -> None:
    clients = [client_at(server), client_at(server)]
    both = await asyncio.gather(
        *(
            answer(client, conversation(f"Tell me about {about}."), 40)
            for client, about in zip(clients, ("ships", "trees"), strict=True)
        )
    )
    assert all(said.message.text.strip() for said in both)
    for client in clients:
        await client.aclose()


async def test_a_request_beyond_the_window_is_an_overflow_that_names_it(
    server: RealServer,
) -> None:
    client = client_at(server)
    with pytest.raises(ContextOverflow) as refused:
        await answer(client, conversation(STORY * 400))
    assert refused.value.window == WINDOW
    await client.aclose()


async def test_cancelled_while_it_reads_the_prompt_it_stops_reading(
    server: RealServer,
) -> None:
    client = client_at(server)
    reading = asyncio.Event()
    before = server.log.count("cancel task")

    async def ask() -> None:
        request = Request(conversation("Begin anew. " + STORY * 100), max_output=40)
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ReadingChunk):
                    reading.set()

    task = asyncio.create_task(ask())
    await asyncio.wait_for(reading.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.aclose()
    for _ in range(400):
        if server.log.count("cancel task") > before:
            break
        await asyncio.sleep(0.05)
    assert server.log.count("cancel task") > before


async def test_killed_in_mid_stream_and_loading_again_it_is_waited_for(
    tmp_path: Path,
) -> None:
    port = free_port()
    first = RealServer(port, WINDOW, 1, tmp_path / "first")
    first.wait_until_loaded()
    client = client_at(first)
    again: RealServer | None = None
    retries: list[RetryChunk] = []
    whole = ""
    try:
        request = Request(
            conversation("Tell me a long story of the sea."), max_output=60
        )
        async with aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextChunk) and again is None:
                    first.kill()
                    again = RealServer(port, WINDOW, 1, tmp_path / "again")
                elif isinstance(chunk, RetryChunk):
                    retries.append(chunk)
                elif isinstance(chunk, Answer):
                    whole = chunk.message.text
        assert again is not None
        assert whole.strip()
        assert says(retries[0].sentence, BROKEN)
        assert retries[0].partial is not None and retries[0].partial.text
    finally:
        await client.aclose()
        first.kill()
        if again is not None:
            again.kill()


async def test_a_full_window_is_compacted_and_the_session_goes_on(
    server: RealServer, tmp_path: Path
) -> None:
    agent, _ = _agent(server, tmp_path)
    for number in range(12):
        if agent.session.projection.all_compactions:
            break
        await agent.prompt(f"{STORY * 8} This was page {number}. Say only: read.")
    assert agent.session.projection.all_compactions
    assert agent.state.models.window == WINDOW
    assert broken(agent.session.projection) == []
    assert (await agent.prompt("Are you there?")).text.strip()
    await agent.aclose()


async def test_a_real_refusal_is_compacted_away_and_the_step_goes_through(
    server: RealServer, tmp_path: Path
) -> None:
    """Somebody set a window that the server does not have."""
    agent, watch = _agent(server, tmp_path, window=16_384)
    for number in range(12):
        if watch.of(events.CompactionEnd):
            break
        await agent.prompt(f"{STORY * 12} This was page {number}. Say only: read.")
    ends = watch.of(events.CompactionEnd)
    assert ends and ends[0].reason == "overflow" and ends[0].will_retry
    assert agent.state.budget.limits.window == WINDOW
    await agent.aclose()


def _agent(server: RealServer, folder: Path, **options: int) -> tuple[Agent, Watch]:
    provider = replace(server_of_environment(server.base_url))
    return agent_in(folder, ModelClient(provider, **options), tools=())


async def test_its_embeddings_tell_what_is_near(tmp_path: Path) -> None:
    with real_server(tmp_path / "log", "embeddings", window=1_024) as server:
        embedder = OpenAIEmbedder(
            server_of_environment(server.base_url), model="smollm2"
        )
        ships, boats, tax = await embedder.embed(
            [
                "A ship sails on the sea.",
                "A boat sails on the ocean.",
                "The tax office sent a form.",
            ]
        )
        near = sum(a * b for a, b in zip(ships, boats, strict=True))
        far = sum(a * b for a, b in zip(ships, tax, strict=True))
        assert near > far


async def test_a_server_that_is_gone_says_so_in_one_sentence() -> None:
    client = ModelClient(server_of_environment(f"http://127.0.0.1:{free_port()}/v1"))
    with pytest.raises(LLMError, match=pattern(UNREACHABLE)):
        await client.prepare()
    await client.aclose()
