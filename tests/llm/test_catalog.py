"""From the environment to a model client."""

import subprocess
import sys

import pytest

from foldline.llm.catalog import OPENAI_MODEL, ask_window, connect, is_configured, model_info
from foldline.llm.models import DEFAULT_WINDOW, listed_window
from foldline.protocol import FoldlineError
from support.server import running_server


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4o-mini", 128_000),
        ("gpt-4.1", 1_047_576),
        ("gpt-5.1-codex", 400_000),
        ("o4-mini", 200_000),
        ("moonshotai/Kimi-K2-Thinking", 262_144),
        ("deepseek-chat", 131_072),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("models/gemini-2.5-pro", 1_048_576),
        ("llama3.1:8b", 131_072),
        ("qwen3-coder:30b", 262_144),
        ("never-heard-of", DEFAULT_WINDOW),
    ],
)
def test_windows_of_known_models_are_known(model: str, window: int) -> None:
    assert model_info(model).window == window


def test_a_window_that_was_set_wins() -> None:
    assert model_info("gpt-4o", None, 9_000).window == 9_000


@pytest.mark.parametrize(
    ("record", "window"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_length": 8192}, 8192),
        ({"context_window": 131_072}, 131_072),
        ({"meta": {"n_ctx": 2048}}, 2048),
        ({"top_provider": {"context_length": 5}}, 5),
        ({"context_length": "big", "max_model_len": True}, None),
        ({}, None),
    ],
)
def test_the_window_a_server_lists_is_found(record: dict[str, object], window: int | None) -> None:
    assert listed_window(record) == window


def test_an_environment_without_server_or_key_says_what_to_set() -> None:
    assert not is_configured({"OPENAI_API_KEY": "  "})
    with pytest.raises(FoldlineError, match="OPENAI_API_KEY"):
        connect(None, {})


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://h:port/v1", "http://[x/v1"]
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(FoldlineError, match="OPENAI_BASE_URL"):
        connect("m", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"})


def test_only_servers_nearby_need_no_key() -> None:
    for url in ("http://localhost:1/v1", "http://127.0.0.1:1", "http://192.168.1.9:1", "http://box.local/v1"):
        assert connect("m", {"OPENAI_BASE_URL": url}).info.id == "m"
    with pytest.raises(FoldlineError, match=r"api\.moonshot\.ai needs a key"):
        connect("m", {"OPENAI_BASE_URL": "https://api.moonshot.ai/v1"})


@pytest.mark.parametrize("key", ["two words", "sk-é", "sk-\x07x"])
def test_a_key_no_header_can_hold_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(FoldlineError) as raised:
        connect("m", {"OPENAI_API_KEY": key})
    assert key not in str(raised.value)


def test_the_model_comes_from_the_argument_then_the_environment() -> None:
    environ = {"OPENAI_API_KEY": "k", "FOLDLINE_MODEL": "two", "OPENAI_MODEL": "three"}
    assert connect("one", environ).info.id == "one"
    assert connect(None, environ).info.id == "two"
    assert connect(None, {**environ, "FOLDLINE_MODEL": ""}).info.id == "three"
    assert connect(None, {"OPENAI_API_KEY": "k"}).info.id == OPENAI_MODEL
    assert connect(None, {"OPENAI_API_KEY": "k"}).dialect == "openai"


async def test_the_server_is_asked_for_its_first_model_and_the_window() -> None:
    with running_server(window=12_345, model="their-model") as server:
        client = connect(None, {"OPENAI_BASE_URL": server.base_url})
        assert await ask_window(client) == 12_345
        assert client.info.id == "their-model"
        await client.aclose()


async def test_a_window_that_was_set_is_not_overridden_by_the_server() -> None:
    with running_server(window=12_345) as server:
        client = connect(None, {"OPENAI_BASE_URL": server.base_url}, 8_000)
        assert await ask_window(client) == 8_000
        await client.aclose()


async def test_a_server_that_does_not_say_its_window_gets_the_careful_one() -> None:
    with running_server(flags=["--bare-listing"]) as server:
        client = connect("scripted-1", {"OPENAI_BASE_URL": server.base_url})
        assert await ask_window(client) == DEFAULT_WINDOW
        await client.aclose()


async def test_a_server_that_lists_no_models_asks_for_a_name() -> None:
    with running_server() as server:
        client = connect(None, {"OPENAI_BASE_URL": server.base_url + "/elsewhere"})
        with pytest.raises(FoldlineError, match="FOLDLINE_MODEL"):
            await client.prepare()
        await client.aclose()


def test_openai_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from foldline.llm.catalog import connect; "
        "connect('m', {'OPENAI_API_KEY': 'k'}); "
        "assert 'openai' not in sys.modules and 'httpx2' not in sys.modules; "
        "from foldline.llm.openai_client import preload; preload(); assert 'openai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
