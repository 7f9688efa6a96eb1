"""Creating a model client for a provider, and model data known by name."""

import subprocess
import sys
from dataclasses import replace
from math import inf

import pytest

from foldline.llm.catalog import (
    INSTALL,
    NEEDS_KEY,
    NEEDS_SDK,
    connect,
    list_models,
)
from foldline.llm.models import (
    DEFAULT_WINDOW,
    is_listed,
    known_window,
    model_info,
    table,
)
from foldline.llm.providers import NO_ADDRESS, PROVIDERS, Provider, checked_url
from foldline.protocol import FoldlineError
from support.sentences import pattern
from support.server import RunningServer, running_server


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4o-mini", 128_000),
        ("gpt-4.1", 1_047_576),
        ("gpt-5.1-codex", 272_000),
        ("gpt-5-2025-08-07", 272_000),
        ("gpt-5-of-tomorrow", 128_000),
        ("o4-mini", 200_000),
        ("moonshotai/Kimi-K2-Thinking", 262_144),
        ("kimi-k2.6", 262_144),
        ("deepseek-chat", 131_072),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("claude-opus-5", 1_000_000),
        ("models/gemini-2.5-pro", 1_048_576),
        ("llama3.1:8b", 131_072),
        ("qwen3-coder:30b", 262_144),
        ("never-heard-of", DEFAULT_WINDOW),
    ],
)
def test_windows_of_known_models_are_known(model: str, window: int) -> None:
    assert model_info(model).window == window


def test_a_window_guessed_by_name_never_exceeds_the_tables_value() -> None:
    for name, row in table().by_model.items():
        assert (known_window(f"{name}-next") or 0) <= row.get("window", inf), name
        assert not is_listed(f"{name}-next")


def test_a_configured_window_takes_precedence() -> None:
    assert model_info("gpt-4o", None, 9_000).window == 9_000


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://x/v1", "http://", "http://h:port/v1", "http://[x/v1"],
)
def test_an_invalid_address_is_refused_with_the_name_of_its_setting(url: str) -> None:
    with pytest.raises(
        FoldlineError, match=pattern(NO_ADDRESS, origin="OPENAI_BASE_URL")
    ):
        checked_url(url, "OPENAI_BASE_URL")


def test_a_missing_key_error_names_the_variable_and_the_page_to_get_one() -> None:
    source = f" to one from {PROVIDERS['moonshot'].key_page}"
    expected = pattern(NEEDS_KEY, name="MOONSHOT_API_KEY", source=source)
    with pytest.raises(FoldlineError, match=expected):
        connect(PROVIDERS["moonshot"], "m")
    assert connect(PROVIDERS["vllm"], "m").info.id == "m"
    nearby = replace(PROVIDERS["moonshot"], base_url="http://192.168.1.9:1/v1")
    assert connect(nearby, "m").info.id == "m"


def test_the_providers_default_model_is_used_without_a_name() -> None:
    assert connect(PROVIDERS["deepseek"], key="k").info.id == "deepseek-v4-flash"
    assert connect(PROVIDERS["deepseek"], "two", "k").info.id == "two"


def here(server: RunningServer, path: str = "") -> Provider:
    return Provider("here", "Here", server.base_url + path, url_name="OPENAI_BASE_URL")


async def test_the_first_model_and_its_window_come_from_the_server() -> None:
    with running_server(window=12_345, model="their-model") as server:
        client = connect(here(server))
        assert (await client.prepare()).window == 12_345
        assert client.info.id == "their-model"
        await client.aclose()


async def test_the_server_does_not_override_a_configured_window() -> None:
    with running_server(window=12_345) as server:
        client = connect(here(server), window=8_000)
        assert (await client.prepare()).window == 8_000
        await client.aclose()


async def test_an_empty_model_list_leads_to_a_request_for_a_name() -> None:
    with running_server() as server:
        client = connect(here(server, "/elsewhere"))
        with pytest.raises(FoldlineError, match="FOLDLINE_MODEL"):
            await client.prepare()
        await client.aclose()


def test_a_missing_package_is_one_sentence_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("foldline.llm.catalog.find_spec", lambda name: None)
    with pytest.raises(FoldlineError) as refused:
        connect(PROVIDERS["anthropic"], "", "k")
    assert str(refused.value) == (
        NEEDS_SDK.format(provider="Anthropic", command=INSTALL)
    )


@pytest.mark.parametrize("path", ["", "/v1", "/v1/"])
async def test_an_anthropic_compatible_address_works_with_or_without_the_version(
    path: str,
) -> None:
    with running_server() as server:
        url = server.base_url.removesuffix("/v1") + path
        provider = Provider("box", "Box", url, api="messages")
        assert [model.id for model in await list_models(provider)] == [server.model]


@pytest.mark.slow
def test_openai_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from foldline.llm.catalog import connect; from foldline.llm.providers import OPENAI; "
        "connect(OPENAI, 'm', 'k'); "
        "assert 'openai' not in sys.modules and 'httpx2' not in sys.modules; "
        "from foldline.llm.client import preload; preload(); assert 'openai' in sys.modules; "
        "assert 'anthropic' not in sys.modules; preload('messages'); assert 'anthropic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
