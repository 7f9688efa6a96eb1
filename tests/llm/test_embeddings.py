"""Embeddings by the real client against the test server in its own process."""

import asyncio
from collections.abc import Iterator

import pytest

from foldline.llm import LLMError, NoEmbedder
from foldline.llm.catalog import connect_embeddings
from foldline.llm.embeddings import OpenAIEmbedder
from foldline.llm.providers import PROVIDERS, Provider
from support.server import RunningServer, running_server
from support.server_embeddings import vector

KEY = "sk-test-5f2c8a917b3d4e60"
TEXTS = ["the password is refused", "an invoice without VAT", "账单和发票", "the legend of the chart"]


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
    assert await embedder_of(server).embed(TEXTS) == [tuple(vector(text)) for text in TEXTS]


async def test_the_request_names_the_model_and_asks_for_plain_numbers(server: RunningServer) -> None:
    await embedder_of(server).embed(TEXTS[:1])
    assert server.embedded()[-1] == {
        "model": "meanings-1",
        "input": TEXTS[:1],
        "encoding_format": "float",
    }


async def test_many_texts_go_in_several_requests(server: RunningServer) -> None:
    before = len(server.embedded())
    texts = [f"invoice number {number}" for number in range(23)]
    vectors = await embedder_of(server).embed(texts)
    assert [len(body["input"]) for body in server.embedded()[before:]] == [10, 10, 3]
    assert vectors == [tuple(vector(text)) for text in texts]


async def test_long_texts_share_a_request_only_as_far_as_they_fit(server: RunningServer) -> None:
    before = len(server.embedded())
    await embedder_of(server).embed(["one long text " * 1_600] * 4)  # 4,500 tokens each
    assert [len(body["input"]) for body in server.embedded()[before:]] == [1, 1, 1, 1]


async def test_nothing_to_embed_asks_nobody(server: RunningServer) -> None:
    before = len(server.embedded())
    assert await embedder_of(server).embed([]) == []
    assert len(server.embedded()) == before


async def test_records_in_another_order_are_put_in_order() -> None:
    with running_server(flags=["--embeddings", "shuffled"]) as server:
        assert await embedder_of(server).embed(TEXTS) == [tuple(vector(text)) for text in TEXTS]


@pytest.mark.parametrize("way", ["torn", "short", "uneven", "nothing"])
async def test_an_answer_of_another_shape_is_one_sentence(way: str) -> None:
    with running_server(flags=["--embeddings", way]) as server:
        assert "gave no usable embeddings with meanings-1" in await failure_of(embedder_of(server))


async def test_a_server_without_embeddings_is_one_sentence() -> None:
    with running_server() as server:
        assert "(404)" in await failure_of(embedder_of(server))


async def test_a_refusal_is_not_sent_again() -> None:
    with running_server(flags=["--embeddings", "refused"]) as server:
        assert "(500)" in await failure_of(embedder_of(server))
        assert len(server.embedded()) == 1


async def test_a_refused_key_is_one_sentence_without_the_key(server: RunningServer) -> None:
    with pytest.raises(LLMError, match="refused the key") as raised:
        await embedder_of(server, key="sk-wrong-000").embed(TEXTS)
    assert "sk-wrong" not in str(raised.value)


async def test_a_server_nobody_runs_is_one_sentence() -> None:
    embedder = OpenAIEmbedder(provider_at("http://127.0.0.1:9/v1"), model="m", key=KEY)
    assert "Cannot connect" in await failure_of(embedder)


async def test_a_server_that_never_answers_is_given_up() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        assert "sent nothing for 0.3 s" in await failure_of(embedder_of(server, seconds=0.3))


async def test_cancelling_passes_through() -> None:
    with running_server(flags=["--embeddings", "hang"]) as server:
        task = asyncio.create_task(embedder_of(server).embed(TEXTS))
        while not server.embedded():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_without_an_embedder_there_are_no_vectors() -> None:
    with pytest.raises(LLMError, match=r"compaction\.embedding_model"):
        await NoEmbedder().embed(TEXTS)


def test_a_named_model_goes_before_the_one_known_for_the_provider() -> None:
    known, named = (connect_embeddings(PROVIDERS["mistral"], KEY, model) for model in ("", "mine"))
    assert known is not None
    assert named is not None
    assert (known.model, named.model) == ("mistral-embed", "mine")
    assert connect_embeddings(PROVIDERS["ollama"], "") is None
