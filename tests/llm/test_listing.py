"""Model lists of many kinds of servers, over HTTP."""

from dataclasses import replace
from typing import Any

import pytest

from foldline.llm import LLMError
from foldline.llm.catalog import connect, list_models
from foldline.llm.listing import ListedModel, listed_window
from foldline.llm.models import DEFAULT_WINDOW, Price
from foldline.llm.providers import PROVIDERS, Listing, Provider
from support.shapes import ListingServer, listing_server

KEY = "sk-planted-4d1c77"


async def test_a_failed_list_is_requested_again_if_that_can_help() -> None:
    listed = {"data": [{"id": "mine-1", "max_model_len": 50_000}]}
    for status, window in ((503, 50_000), (404, DEFAULT_WINDOW)):
        with listing_server(
            {"GET /v1/models": [{"status": status, "body": {}}, listed]}
        ) as server:
            client = connect(at(server), "mine-1")
            assert (await client.prepare()).window == DEFAULT_WINDOW
            assert (await client.prepare()).window == window
            await client.aclose()


def at(
    server: ListingServer, listing: Listing = "openai", **different: Any
) -> Provider:
    return Provider("mine", "Mine", server.base_url, listing=listing, **different)


def models(*records: dict[str, Any]) -> dict[str, Any]:
    return {"GET /v1/models": {"object": "list", "data": list(records)}}


@pytest.mark.parametrize(
    ("record", "window"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_length": 8192}, 8192),
        ({"context_window": 131_072}, 131_072),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 131_072}}, 2048),
        (
            {"context_length": 200_000, "top_provider": {"context_length": 50_000}},
            50_000,
        ),
        ({"context_length": "big", "max_model_len": True}, None),
        ({}, None),
    ],
)
def test_the_window_is_read_from_a_servers_list(
    record: dict[str, object], window: int | None
) -> None:
    assert listed_window(record) == window


@pytest.mark.parametrize(
    ("record", "offer"),
    [
        ({"id": "qwen", "max_model_len": 40_960}, ListedModel("qwen", 40_960)),  # vLLM
        (
            {"id": "kimi-x", "context_length": 262_144},
            ListedModel("kimi-x", 262_144),
        ),  # Moonshot
        (  # Groq
            {
                "id": "new/one",
                "context_window": 131_072,
                "max_completion_tokens": 32_768,
            },
            ListedModel("new/one", 131_072, 32_768),
        ),
        (  # Mistral
            {
                "id": "strange",
                "max_context_length": 9_000,
                "capabilities": {"completion_chat": True},
            },
            ListedModel("strange", 9_000),
        ),
        ({"id": "models/strange"}, ListedModel("strange")),  # Gemini
        (  # OpenRouter
            {
                "id": "acme/strange",
                "context_length": 128_000,
                "architecture": {"output_modalities": ["text"]},
                "top_provider": {
                    "context_length": 64_000,
                    "max_completion_tokens": 8_000,
                },
                "pricing": {
                    "prompt": "0.000003",
                    "completion": "0.000015",
                    "input_cache_read": "0.0000003",
                    "input_cache_write": "0.00000375",
                },
            },
            ListedModel("acme/strange", 64_000, 8_000, Price(3, 0.3, 1.25, 15)),
        ),
        (
            {"id": "acme/free", "pricing": {"prompt": "0", "completion": "0"}},
            ListedModel("acme/free", price=Price(0, 0, 1, 0)),
        ),
        (
            {"id": "gpt-4o-mini"},  # from the table: OpenAI reports no window
            ListedModel("gpt-4o-mini", 128_000, 16_384, Price(0.15, 0.075, 1, 0.6)),
        ),
    ],
)
async def test_each_kind_of_record_becomes_an_offered_model(
    record: dict[str, Any], offer: ListedModel
) -> None:
    with listing_server(models(record)) as server:
        assert await list_models(at(server)) == [offer]


async def test_models_that_cannot_chat_are_left_out() -> None:
    listed = models(
        {"id": "text-embedding-3-small"},
        {"id": "whisper-1"},
        {"id": "chatty"},
        {"id": "silent", "capabilities": {"completion_chat": False}},
        {"id": "painter", "architecture": {"output_modalities": ["image"]}},
        {"no": "id"},
    )
    with listing_server(listed) as server:
        assert [offer.id for offer in await list_models(at(server))] == ["chatty"]


async def test_a_refused_key_is_reported_by_its_variable_and_never_shown() -> None:
    refusal = {
        "status": 401,
        "body": {"error": {"message": f"Incorrect API key provided: {KEY}."}},
    }
    with listing_server({"GET /v1/models": refusal}) as server:
        with pytest.raises(LLMError) as raised:
            await list_models(
                replace(PROVIDERS["deepseek"], base_url=server.base_url), KEY
            )
        [asked] = server.requests()
    assert "DEEPSEEK_API_KEY" in str(raised.value)
    assert KEY not in str(raised.value)
    assert asked.headers["authorization"] == f"Bearer {KEY}"


async def test_anthropic_models_are_listed_with_its_own_sdk() -> None:
    with listing_server(
        models({"id": "claude-new", "max_input_tokens": 900_000})
    ) as server:
        [offer] = await list_models(
            replace(PROVIDERS["anthropic"], base_url=server.base_url), KEY
        )
        [asked] = server.requests()
    assert offer.window == 900_000
    assert asked.headers["x-api-key"] == KEY  # as this is not Anthropic's own host
    assert asked.headers["anthropic-version"] >= "2023-06-01"


async def test_configured_models_are_offered_if_the_server_lists_none() -> None:
    with listing_server({}) as server:
        assert await list_models(at(server, models=("one",))) == [ListedModel("one")]
        with pytest.raises(LLMError):
            await list_models(at(server))


async def test_the_window_of_llama_cpp_is_its_slot_size_not_its_training_size() -> None:
    answers = models({"id": "qwen3", "meta": {"n_ctx_train": 262_144}}) | {
        "GET /props": {
            "default_generation_settings": {"n_ctx": 8_192},
            "total_slots": 4,
        }
    }
    with listing_server(answers) as server:
        assert await list_models(at(server, "llama-cpp")) == [
            ListedModel("qwen3", 8_192)
        ]
        client = connect(at(server, "llama-cpp"))
        assert (await client.prepare()).window == 8_192
        await client.aclose()
        assert server.requests()[-1].what == "GET /props?model=qwen3"


async def test_lm_studio_is_queried_until_the_model_is_loaded() -> None:
    record = {"id": "m", "type": "llm", "max_context_length": 131_072}
    unloaded = {
        "data": [
            {**record, "state": "not-loaded"},
            {"id": "vectors", "type": "embeddings"},
        ]
    }
    loaded = {"data": [{**record, "state": "loaded", "loaded_context_length": 32_000}]}
    answers = models({"id": "m"}, {"id": "vectors"}) | {
        "GET /api/v0/models": [unloaded, unloaded, loaded]
    }
    with listing_server(answers) as server:
        assert await list_models(at(server, "lm-studio")) == [ListedModel("m", 4_096)]
        client = connect(at(server, "lm-studio"), "m")
        assert [(await client.prepare()).window for _ in range(3)] == [
            4_096,
            32_000,
            32_000,
        ]
        await client.aclose()
        assert len(server.requests()) == 4


def ollama(
    *running: int, parameters: str = "", trained: int = 40_960
) -> dict[str, Any]:
    """Simulate Ollama with model `m` and its window at each query of running models; 0 if not running."""
    looks = [
        {"models": [{"name": "m:latest", "context_length": tokens}] if tokens else []}
        for tokens in running
    ]
    return models({"id": "m:latest"}) | {
        "GET /api/ps": looks,
        "POST /api/show": {
            "parameters": parameters,
            "model_info": {"qwen3.context_length": trained},
        },
        "POST /api/generate": {"done": True},
    }


@pytest.mark.parametrize(
    ("answers", "window", "loads"),
    [
        (ollama(16_384), 16_384, False),  # as it runs
        (
            ollama(0, parameters='stop    "x"\nnum_ctx    8192'),
            8_192,
            False,
        ),  # as it will
        (ollama(0, parameters="num_ctx 99999", trained=32_768), 32_768, False),
        (ollama(0, 32_768), 32_768, True),  # as it turns out once it runs
        (ollama(0), 4_096, True),  # too old to report it: its default
        (ollama(0, trained=2_048), 2_048, True),
    ],
)
async def test_the_window_of_ollama_is_never_larger_than_the_running_models(
    answers: dict[str, Any], window: int, loads: bool
) -> None:
    with listing_server(answers) as server:
        client = connect(at(server, "ollama"), "m")
        assert (await client.prepare()).window == window
        await client.aclose()
        assert (
            "POST /api/generate" in [asked.what for asked in server.requests()]
        ) == loads


async def test_a_cloud_model_of_ollama_has_its_full_training_window() -> None:
    with listing_server(ollama(0, trained=262_144)) as server:
        client = connect(at(server, "ollama"), "m:cloud")
        assert (await client.prepare()).window == 262_144
        await client.aclose()


async def test_a_local_server_is_queried_even_for_a_known_model() -> None:
    with listing_server(
        models({"id": "gpt-oss-20b", "max_model_len": 20_000})
    ) as server:
        client = connect(at(server), "gpt-oss-20b")
        assert (await client.prepare()).window == 20_000
        await client.aclose()


async def test_a_server_that_reports_no_window_gets_the_cautious_default() -> None:
    with listing_server(models({"id": "never-heard-of"})) as server:
        client = connect(at(server))
        assert ((await client.prepare()).window, client.info.id) == (
            DEFAULT_WINDOW,
            "never-heard-of",
        )
        await client.aclose()
