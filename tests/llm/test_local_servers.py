"""What local servers do: load a model for minutes, stream nothing where they refuse, say how
far they have read, have no place for tools."""

from typing import Any

import pytest

from foldline.llm import ContextOverflow, ReadingChunk, RetryChunk
from foldline.llm.catalog import connect
from foldline.llm.client import ModelClient
from foldline.llm.failures import LONGEST_LOADING, MAX_RETRIES
from foldline.llm.providers import Provider
from foldline.protocol import ImagePart, UserMessage
from support.clients import Waits, answer_of, chunks_of, client_of, error_of, prompt, scripted
from support.shapes import Shapes, answering

LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
STILL = {"fault": {"status": 503, "body": LOADING}}
TOO_LONG = {"error": {"message": "Requested tokens (5210) exceed context window of 4096"}}
PROPS = {"default_generation_settings": {"n_ctx": 4_096}, "chat_template_caps": {"supports_tools": False}}
LISTED = {"data": [{"id": "smol", "owned_by": "llamacpp", "meta": {"n_ctx": 4_096}}]}
SAID = {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}


def at(server: Shapes, waits: Waits | None = None) -> ModelClient:
    """The client for a server about which nothing is known but its address."""
    return ModelClient(Provider("env", "env", server.base_url, asks_usage=False), sleep=waits or Waits())


# --- loading ------------------------------------------------------------------------------------------


async def test_a_model_that_is_loaded_is_waited_for_longer_than_any_failure() -> None:
    waits = Waits()
    with scripted(*([STILL] * (MAX_RETRIES + 4)), {"text": "hello"}) as server:
        client = client_of(server, waits)
        chunks = await chunks_of(client, prompt())
        await client.aclose()
    said = [chunk for chunk in chunks if isinstance(chunk, RetryChunk)]
    assert len(said) == MAX_RETRIES + 4
    assert said[2].sentence.endswith("is still loading scripted-1, 3 s so far (503).")
    assert {chunk.attempts for chunk in said} == {0}
    assert str(said[0].event).endswith("(503).")
    assert waits.seconds[:5] == [1, 2, 4, 5, 5]


async def test_a_model_that_is_never_loaded_is_given_up_after_half_an_hour() -> None:
    waits = Waits()
    with scripted(STILL) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        await client.aclose()
    assert "is still loading" in str(error)
    assert LONGEST_LOADING <= sum(waits.seconds) < LONGEST_LOADING + 200


async def test_a_server_that_is_loading_is_asked_later_for_its_first_model() -> None:
    loading = {"status": 503, "body": LOADING}
    shapes = {
        "GET /v1/models": [loading, loading, LISTED],
        "GET /props": PROPS,
        "POST /v1/chat/completions": SAID,
    }
    with answering(shapes) as server:
        client = at(server)
        assert (await client.prepare()).id == "default"
        assert (await answer_of(client, prompt())).text == "hello"
        assert (client.info.id, client.info.window) == ("smol", 4_096)
        await client.aclose()


# --- what llama.cpp says of itself --------------------------------------------------------------------


async def test_name_window_and_missing_tools_are_known_before_the_first_request() -> None:
    with answering({"GET /v1/models": LISTED, "GET /props": PROPS}) as server:
        client = at(server)
        info = await client.prepare()
        assert (info.id, info.window, info.window_from, info.tools) == ("smol", 4_096, "server", False)
        await client.aclose()


@pytest.mark.parametrize("vision", [True, False])
async def test_pictures_are_left_out_where_it_says_beforehand_that_its_model_takes_none(vision: bool) -> None:
    props = {**PROPS, "modalities": {"vision": vision, "audio": False}}
    with answering(
        {"GET /v1/models": LISTED, "GET /props": props, "POST /v1/chat/completions": SAID}
    ) as server:
        client = at(server)
        assert (await client.prepare()).pictures is vision
        await answer_of(client, [UserMessage(parts=(ImagePart(media_type="image/png", data="aGk="),))])
        assert ("aGk=" in str(server.asked()[-1].body)) is vision
        await client.aclose()


async def test_how_far_it_has_read_is_asked_for_and_passed_on() -> None:
    def reading(read: int) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"content": None}}], "prompt_progress": {
            "total": 900, "cache": 0, "processed": read, "time_ms": 9}}  # fmt: skip

    said = {"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]}
    with scripted({"fault": {"raw": [reading(0), reading(512), said]}}) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt())
        await client.aclose()
        assert "return_progress" not in (server.requests()[0].body or {})
    assert [chunk for chunk in chunks if isinstance(chunk, ReadingChunk)] == [
        ReadingChunk(0, 900),
        ReadingChunk(512, 900),
    ]
    shapes = {"GET /v1/models": LISTED, "GET /props": PROPS, "POST /v1/chat/completions": SAID}
    with answering(shapes) as told:
        client = at(told)
        await answer_of(client, prompt())
        await client.aclose()
        assert told.asked()[-1].body["return_progress"] is True


# --- an empty stream ----------------------------------------------------------------------------------


async def test_an_empty_stream_is_asked_once_unstreamed_and_its_refusal_read() -> None:
    waits = Waits()
    with scripted({"fault": {"raw": []}}, {"fault": {"status": 400, "body": TOO_LONG}}) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        await client.aclose()
        assert [(seen.body or {})["stream"] for seen in server.requests()] == [True, False]
        assert "stream_options" not in (server.requests()[1].body or {})
    assert isinstance(error, ContextOverflow)
    assert error.window == 4_096
    assert waits.seconds == []


async def test_an_empty_stream_of_a_server_that_answers_unstreamed_is_an_answer() -> None:
    with scripted({"fault": {"raw": []}}, {"text": "hello"}) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "hello"
        await client.aclose()


async def test_a_server_that_stays_mute_is_given_up() -> None:
    with scripted({"fault": {"raw": []}}, {"fault": {"status": 200, "body": ""}}) as server:
        client = client_of(server)
        error = await error_of(client)
        await client.aclose()
        assert len(server.requests()) == MAX_RETRIES + 2
    assert "ended the answer" in str(error)


# --- how long an answer may be ------------------------------------------------------------------------


async def test_an_answer_of_a_local_server_may_have_what_the_window_has_left() -> None:
    with scripted({"text": "ok"}, window=8_000) as server:
        client = client_of(server)
        for tokens in (2_000, 7_900, 0):
            await chunks_of(client, prompt(), tokens=tokens)
        await client.aclose()
        assert [seen.max_tokens for seen in server.requests()] == [5_400, 500, None]


async def test_where_a_limit_of_ours_makes_a_request_too_long_it_is_left_out() -> None:
    """vLLM adds both, and an estimate may be low."""
    with scripted({"text": "ok"}, window=8_000) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt("word " * 4_000), tokens=100)).text == "ok"
        await client.aclose()
        assert [seen.max_tokens for seen in server.requests()] == [7_110, None]


@pytest.mark.parametrize(("asked", "empty"), [(7_990, True), (4_000, False)])
async def test_a_request_that_fills_the_window_leaves_no_answer_and_is_too_long(
    asked: int, empty: bool
) -> None:
    usage = {"prompt_tokens": asked, "completion_tokens": 0}
    with scripted({"text": "", "finish_reason": "length", "usage": usage}, window=8_000) as server:
        client = client_of(server)
        if empty:
            assert isinstance(await error_of(client), ContextOverflow)
        else:
            assert (await answer_of(client, prompt())).stop_reason == "length"
        await client.aclose()


async def test_a_404_keeps_the_words_of_the_server() -> None:
    words = 'model "qwen9" not found, try pulling it first'
    with answering({"POST /v1/chat/completions": {"status": 404, "body": {"error": words}}}) as server:
        client = connect(Provider("mine", "Mine", server.base_url), "qwen9", window=8_000)
        error = await error_of(client)
        await client.aclose()
    assert words in str(error)
