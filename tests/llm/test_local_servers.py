"""Local servers: minutes of model loading, empty streams as refusals, reports on how
far they have read, models without tools."""

from typing import Any

import pytest

from foldline.llm import ContextOverflow, ReadingChunk, RetryChunk, failures
from foldline.llm.catalog import connect
from foldline.llm.client import ModelClient
from foldline.llm.failures import LONGEST_LOADING, MAX_RETRIES
from foldline.llm.providers import Provider
from foldline.protocol import ImagePart, UserMessage
from support.clients import (
    Waits,
    answer_of,
    chunks_of,
    client_of,
    error_of,
    prompt,
    scripted_server,
)
from support.sentences import says
from support.shapes import ListingServer, listing_server

LOADING = {
    "error": {"message": "Loading model", "type": "unavailable_error", "code": 503}
}
STILL_LOADING = {"fault": {"status": 503, "body": LOADING}}
TOO_LONG = {
    "error": {"message": "Requested tokens (5210) exceed context window of 4096"}
}
PROPS = {
    "default_generation_settings": {"n_ctx": 4_096},
    "chat_template_caps": {"supports_tools": False},
}
MODEL_LIST = {
    "data": [{"id": "smol", "owned_by": "llamacpp", "meta": {"n_ctx": 4_096}}]
}
UNSTREAMED_ANSWER = {
    "choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]
}


def at(server: ListingServer, waits: Waits | None = None) -> ModelClient:
    """Return a client for a server known only by its address."""
    return ModelClient(
        Provider("env", "env", server.base_url, asks_usage=False),
        sleep=waits or Waits(),
    )


# --- loading -------------------------------------------------------------------------------------------


async def test_a_loading_model_is_waited_for_longer_than_any_failure() -> None:
    waits = Waits()
    with scripted_server(
        *([STILL_LOADING] * (MAX_RETRIES + 4)), {"text": "hello"}
    ) as server:
        client = client_of(server, waits)
        chunks = await chunks_of(client, prompt())
        await client.aclose()
    said = [chunk for chunk in chunks if isinstance(chunk, RetryChunk)]
    assert len(said) == MAX_RETRIES + 4
    waited = failures.LOADING.replace(" (503)", ", 3 s so far (503)")
    assert says(said[2].sentence, waited, model="scripted-1")
    assert {chunk.attempts for chunk in said} == {0}
    assert str(said[0].event).endswith("(503).")
    assert waits.seconds[:5] == [1, 2, 4, 5, 5]


@pytest.mark.slow
async def test_a_model_that_never_loads_times_out_after_half_an_hour() -> None:
    waits = Waits()
    with scripted_server(STILL_LOADING) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        await client.aclose()
    assert says(error, failures.LOADING)
    assert LONGEST_LOADING <= sum(waits.seconds) < LONGEST_LOADING + 200


async def test_a_loading_server_is_queried_later_for_its_first_model() -> None:
    loading = {"status": 503, "body": LOADING}
    shapes = {
        "GET /v1/models": [loading, loading, MODEL_LIST],
        "GET /props": PROPS,
        "POST /v1/chat/completions": UNSTREAMED_ANSWER,
    }
    with listing_server(shapes) as server:
        client = at(server)
        assert (await client.prepare()).id == "default"
        assert (await answer_of(client, prompt())).text == "hello"
        assert (client.info.id, client.info.window) == ("smol", 4_096)
        await client.aclose()


# --- properties of llama.cpp ---------------------------------------------------------------------------


async def test_name_window_and_missing_tools_are_known_before_the_first_request() -> (
    None
):
    with listing_server({"GET /v1/models": MODEL_LIST, "GET /props": PROPS}) as server:
        client = at(server)
        info = await client.prepare()
        assert (info.id, info.window, info.window_from, info.tools) == (
            "smol",
            4_096,
            "server",
            False,
        )
        await client.aclose()


@pytest.mark.parametrize("vision", [True, False])
async def test_pictures_are_omitted_if_the_server_reports_a_model_without_vision(
    vision: bool,
) -> None:
    props = {**PROPS, "modalities": {"vision": vision, "audio": False}}
    with listing_server(
        {
            "GET /v1/models": MODEL_LIST,
            "GET /props": props,
            "POST /v1/chat/completions": UNSTREAMED_ANSWER,
        }
    ) as server:
        client = at(server)
        assert (await client.prepare()).pictures is vision
        await answer_of(
            client,
            [UserMessage(parts=(ImagePart(media_type="image/png", data="aGk="),))],
        )
        assert ("aGk=" in str(server.requests()[-1].body)) is vision
        await client.aclose()


async def test_prompt_progress_is_requested_and_passed_on() -> None:
    def reading(read: int) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"content": None}}], "prompt_progress": {
            "total": 900, "cache": 0, "processed": read, "time_ms": 9}}  # fmt: skip

    said = {
        "choices": [
            {"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}
        ]
    }
    with scripted_server(
        {"fault": {"raw": [reading(0), reading(512), said]}}
    ) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt())
        await client.aclose()
        assert "return_progress" not in (server.requests()[0].body or {})
    assert [chunk for chunk in chunks if isinstance(chunk, ReadingChunk)] == [
        ReadingChunk(0, 900),
        ReadingChunk(512, 900),
    ]
    shapes = {
        "GET /v1/models": MODEL_LIST,
        "GET /props": PROPS,
        "POST /v1/chat/completions": UNSTREAMED_ANSWER,
    }
    with listing_server(shapes) as told:
        client = at(told)
        await answer_of(client, prompt())
        await client.aclose()
        assert told.requests()[-1].body["return_progress"] is True


# --- an empty stream -----------------------------------------------------------------------------------


async def test_an_empty_stream_leads_to_one_unstreamed_request_for_the_refusal() -> (
    None
):
    waits = Waits()
    with scripted_server(
        {"fault": {"raw": []}}, {"fault": {"status": 400, "body": TOO_LONG}}
    ) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        await client.aclose()
        assert [(seen.body or {})["stream"] for seen in server.requests()] == [
            True,
            False,
        ]
        assert "stream_options" not in (server.requests()[1].body or {})
    assert isinstance(error, ContextOverflow)
    assert error.window == 4_096
    assert waits.seconds == []


async def test_an_unstreamed_answer_after_an_empty_stream_is_accepted() -> None:
    with scripted_server({"fault": {"raw": []}}, {"text": "hello"}) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "hello"
        await client.aclose()


async def test_a_server_that_never_answers_is_an_error() -> None:
    with scripted_server(
        {"fault": {"raw": []}}, {"fault": {"status": 200, "body": ""}}
    ) as server:
        client = client_of(server)
        error = await error_of(client)
        await client.aclose()
        assert len(server.requests()) == MAX_RETRIES + 2
    assert says(error, failures.BROKEN)


# --- length of an answer -------------------------------------------------------------------------------


async def test_a_local_servers_answer_may_fill_the_rest_of_the_window() -> None:
    with scripted_server({"text": "ok"}, window=8_000) as server:
        client = client_of(server)
        for tokens in (2_000, 7_900, 0):
            await chunks_of(client, prompt(), tokens=tokens)
        await client.aclose()
        assert [seen.max_tokens for seen in server.requests()] == [5_400, 500, None]


async def test_our_limit_is_omitted_if_it_makes_a_request_too_long() -> None:
    """vLLM adds limit and prompt, and an estimate may be too low."""
    with scripted_server({"text": "ok"}, window=8_000) as server:
        client = client_of(server)
        assert (
            await answer_of(client, prompt("word " * 4_000), tokens=100)
        ).text == "ok"
        await client.aclose()
        assert [seen.max_tokens for seen in server.requests()] == [7_110, None]


@pytest.mark.parametrize(("asked", "empty"), [(7_990, True), (4_000, False)])
async def test_a_request_that_fills_the_window_is_overflow(
    asked: int, empty: bool
) -> None:
    usage = {"prompt_tokens": asked, "completion_tokens": 0}
    with scripted_server(
        {"text": "", "finish_reason": "length", "usage": usage}, window=8_000
    ) as server:
        client = client_of(server)
        if empty:
            assert isinstance(await error_of(client), ContextOverflow)
        else:
            assert (await answer_of(client, prompt())).stop_reason == "length"
        await client.aclose()


async def test_a_404_error_quotes_the_server() -> None:
    words = 'model "qwen9" not found, try pulling it first'
    with listing_server(
        {"POST /v1/chat/completions": {"status": 404, "body": {"error": words}}}
    ) as server:
        client = connect(
            Provider("mine", "Mine", server.base_url), "qwen9", window=8_000
        )
        error = await error_of(client)
        await client.aclose()
    assert words in str(error)
