"""The presets, and which of them a name or an address means."""

import asyncio
import time

import pytest

from foldline.llm.client import OpenAIChat
from foldline.llm.dialect import dialect_named
from foldline.llm.models import is_listed
from foldline.llm.providers import (
    PROVIDERS,
    Provider,
    answers,
    close_to,
    is_local,
    provider_at,
    provider_named,
    split_model,
)
from support.server import running_server

OWN = {"mine": Provider("mine", "Mine", "http://box:1/v1")}


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_preset_is_whole(provider: Provider) -> None:
    assert PROVIDERS[provider.name] is provider
    assert provider.name.replace("-", "").isalnum()
    assert provider.name.islower()
    assert dialect_named(provider.dialect) is not None
    assert bool(provider.key_env) != is_local(provider.base_url)  # Who needs a key says in which variable.
    assert bool(provider.key_page) == bool(provider.key_env)
    if not is_local(provider.base_url):
        assert provider.base_url.startswith("https://")
        assert is_listed(provider.default_model) or provider.name == "openrouter"
    assert OpenAIChat(provider, key="k").info.provider


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://localhost:8080/v1", "llama-cpp"),
        ("http://localhost:5555/v1", None),
        ("https://api.openai.com.example.org/v1", None),
        ("https://notdeepseek.com", None),
        ("http://[broken", None),
        ("http://h:port/v1", None),
    ],
)
def test_an_address_is_known_by_its_host_and_a_local_one_by_its_port(url: str, name: str | None) -> None:
    found = provider_at(url)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("deepseek-chat@deepseek", ("deepseek-chat", "deepseek")),
        ("openai/gpt-5@OpenRouter", ("openai/gpt-5", "openrouter")),
        ("qwen2.5:14b@mine", ("qwen2.5:14b", "mine")),
        ("@ollama", ("", "ollama")),
        ("claude-opus@20240229", ("claude-opus@20240229", "")),
        ("a@b@groq", ("a@b", "groq")),
        ("gpt-5", ("gpt-5", "")),
    ],
)
def test_only_a_known_name_behind_the_last_at_is_a_provider(text: str, parts: tuple[str, str]) -> None:
    assert split_model(text, OWN) == parts


def test_a_provider_of_ones_own_goes_before_a_preset() -> None:
    own = {"ollama": Provider("ollama", "Mine", "http://box:1/v1")}
    assert provider_named("Ollama", own) is own["ollama"]
    assert provider_named("ollama") is PROVIDERS["ollama"]
    assert provider_named("nobody") is None


def test_a_misspelt_name_has_a_near_one() -> None:
    assert close_to("monshot") == "moonshot"
    assert close_to("zzz") == ""


async def test_a_model_server_is_seen() -> None:
    with running_server() as server:
        assert await answers(server.base_url, 5)
    assert not await answers(server.base_url, 5), "it has gone"


async def test_a_server_that_wants_a_key_first_is_there() -> None:
    with running_server(key="sk-other") as server:
        assert await answers(server.base_url, 5)


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>my web shop</html>",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"\x00\xff" * 9_000,
    ],
    ids=["404", "web", "ssh", "nothing", "noise"],
)
async def test_whatever_else_listens_there_is_none(says: bytes) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        assert not await answers(f"http://127.0.0.1:{port}/v1", 5)


async def test_one_that_says_nothing_is_not_waited_for() -> None:
    async def keep_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100_000)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_still, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        before = time.monotonic()
        assert not await answers(f"http://127.0.0.1:{port}/v1", 0.05)
        assert time.monotonic() - before < 10, "it is given up, not waited for"


async def test_no_address_is_no_server() -> None:
    assert not await answers("http://[::1", 5)
    assert not await answers("http://localhost:99999/v1", 5)
