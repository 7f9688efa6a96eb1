"""Embeddings by the real client against the test server in its own process."""

import asyncio
from collections.abc import Iterator

import pytest

from foldline.llm import LLMError
from foldline.llm.client import ModelClient
from foldline.llm.embeddings import UNUSABLE, OpenAIEmbedder
from foldline.llm.failures import STALLED, UNREACHABLE, WRONG_KEY
from foldline.llm.providers import PROVIDERS, Provider
from support.sentences import pattern, says
from support.server import RunningServer, running_server
from support.server_embeddings import vector

KEY = "sk-test-5f2c8a917b3d4e60"
TEXTS = [
    "the password is refused",
    "an invoice without VAT",
    "账单和发票",
    "the legend of the chart",
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(key=KEY, flags=["--embeddings", "good"]) as running:
        yield running


def embedder_of(server: RunningServer, **options: object) -> OpenAIEmbedder:
    given = {"model": "meanings-1", "key": KEY, **options}
    return OpenAIEmbedder(provider_at(server.base_url), **given)  # type: ignore[arg-type]


def provider_at(base_url: str) -> Provider:
    return Provider("here", "Here", base_url, key_env="HERE_API_KEY")


async def failure_of(embedder: OpenAIEmbedder) -> str:
    with pytest.raises(LLMError) as raised:
        await embedder.embed(TEXTS)
    sentence = str(raised.value)
    assert KEY not in sentence
    assert "\n" not in sentence
    return sentence


async def test_every_text_gets_its_vector_in_order(server: RunningServer) -> None:
    assert await embedder_of(server).embed(TEXTS) == [
        tuple(vector(text)) for text in TEXTS
    ]


async def test_the_request_has_the_model_and_the_float_format(
    server: RunningServer,
) -> None:
    await embedder_of(server).embed(TEXTS[:1])
    assert server.embedding_requests()[-1] == {
        "model": "meanings-1",
        "input": TEXTS[:1],
        "encoding_format": "float",
    }


async def test_many_texts_are_sent_in_several_requests(server: RunningServer) -> None:
    before = len(server.embedding_requests())
    texts = [f"invoice number {number}" for number in range(23)]
    vectors = await embedder_of(server).embed(texts)
    assert [len(body["input"]) for body in server.embedding_requests()[before:]] == [
        10,
        10,
        3,
    ]
    assert vectors == [tuple(vector(text)) for text in texts]


async def test_no_request_is_sent_without_texts(server: RunningServer) -> None:
    before = len(server.embedding_requests())
    assert await embedder_of(server).embed([]) == []
    assert len(server.embedding_requests()) == before


async def test_unordered_records_are_sorted() -> None:
    with running_server(flags=["--embeddings", "shuffled"]) as server:
        assert await embedder_of(server).embed(TEXTS) == [
            tuple(vector(text)) for text in TEXTS
        ]


@pytest.mark.parametrize("way", ["torn", "short", "uneven", "nothing"])
async def test_a_malformed_answer_is_reported_in_one_sentence(way: str) -> None:
    with running_server(flags=["--embeddings", way]) as server:
        failure = await failure_of(embedder_of(server))
        assert says(failure, UNUSABLE, model="meanings-1")


async def test_a_server_without_embeddings_is_reported_in_one_sentence() -> None:
    with running_server() as server:
        assert "(404)" in await failure_of(embedder_of(server))


async def test_a_refused_request_is_not_retried() -> None:
    with running_server(flags=["--embeddings", "refused"]) as server:
        assert "(500)" in await failure_of(embedder_of(server))
        assert len(server.embedding_requests()) == 1


async def test_a_refused_key_is_reported_in_one_sentence_without_the_key(
    server: RunningServer,
) -> None:
    with pytest.raises(LLMError, match=pattern(WRONG_KEY)) as raised:
        await embedder_of(server, key="sk-wrong-000").embed(TEXTS)
    assert "sk-wrong" not in str(raised.value)


async def test_an_unreachable_server_is_reported_in_one_sentence() -> None:
    embedder = OpenAIEmbedder(provider_at("http://127.0.0.1:9/v1"), model="m", key=KEY)
    assert says(await failure_of(embedder), UNREACHABLE)


async def test_a_silent_server_times_out() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        failure = await failure_of(embedder_of(server, seconds=0.3))
        assert says(failure, STALLED, seconds=0.3)


async def test_cancelling_passes_through() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        task = asyncio.create_task(embedder_of(server).embed(TEXTS))
        while not server.embedding_requests():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_client_has_the_embeddings_of_its_provider() -> None:
    client = ModelClient(PROVIDERS["mistral"], model="mistral-large-latest", key=KEY)
    embedder = client.embedder()
    assert embedder is not None
    assert (embedder.model, embedder.provider) == (
        "mistral-embed",
        client.info.provider,
    )
    assert ModelClient(PROVIDERS["ollama"], model="m").embedder() is None
