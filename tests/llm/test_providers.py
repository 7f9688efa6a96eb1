"""Provider presets, looked up by name or address."""

import pytest

from foldline.llm.client import ModelClient
from foldline.llm.dialect import dialect_named
from foldline.llm.models import is_listed
from foldline.llm.providers import (
    PROVIDERS,
    Provider,
    close_to,
    is_local,
    provider_at,
    provider_named,
    split_model,
)

OWN = {"mine": Provider("mine", "Mine", "http://box:1/v1")}


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_preset_is_complete(provider: Provider) -> None:
    assert PROVIDERS[provider.name] is provider
    assert provider.name.replace("-", "").isalnum()
    assert provider.name.islower()
    assert dialect_named(provider.dialect) is not None
    # A preset that needs a key names its variable.
    assert bool(provider.key_env) != is_local(provider.base_url)
    assert bool(provider.key_page) == bool(provider.key_env)
    if not is_local(provider.base_url):
        assert provider.base_url.startswith("https://")
        assert is_listed(provider.default_model) or provider.name == "openrouter"
    assert ModelClient(provider, key="k").info.provider


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
def test_an_address_is_recognised_by_its_host_and_a_local_one_by_its_port(
    url: str, name: str | None
) -> None:
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
def test_only_a_known_name_after_the_last_at_sign_is_a_provider(
    text: str, parts: tuple[str, str]
) -> None:
    assert split_model(text, OWN) == parts


def test_a_custom_provider_takes_precedence_over_a_preset() -> None:
    own = {"ollama": Provider("ollama", "Mine", "http://box:1/v1")}
    assert provider_named("Ollama", own) is own["ollama"]
    assert provider_named("ollama") is PROVIDERS["ollama"]
    assert provider_named("nobody") is None


def test_a_misspelt_name_gets_a_suggestion() -> None:
    assert close_to("monshot") == "moonshot"
    assert close_to("zzz") == ""
