"""A server of the user's own: what may be typed as its address, and what becomes of it."""

from pathlib import Path

import pytest

from foldline.agent.settings.edit import save_server, server_at
from foldline.agent.settings.settings import load_settings
from foldline.llm.providers import PROVIDERS
from foldline.protocol import FoldlineError


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost:8001", "http://localhost:8001/v1"),
        ("127.0.0.1:8001/", "http://127.0.0.1:8001/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
        ("box:8000/api", "http://box:8000/api"),
        ("llm.example.com", "https://llm.example.com/v1"),
        (" http://llm.example.com/openai/v1/ ", "http://llm.example.com/openai/v1"),
    ],
)
def test_an_address_is_completed_as_people_mean_it(typed: str, url: str) -> None:
    assert server_at(typed, {}).base_url == url


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "not a url at all",
        "http://",
        "ftp://x/v1",
        "http://u:p@box/v1",
        "https://x.de/v1?key=1",
        "box:port",
    ],
)
def test_what_is_no_address_is_one_sentence(typed: str) -> None:
    with pytest.raises(FoldlineError) as refusal:
        server_at(typed, {})
    assert "\n" not in str(refusal.value)


def test_a_server_that_is_known_is_that_provider_and_another_gets_a_free_name() -> None:
    assert server_at("https://api.deepseek.com/v1", PROVIDERS) is PROVIDERS["deepseek"]
    first = server_at("box:8000", PROVIDERS)
    second = server_at("http://box:8000/other", {**PROVIDERS, first.name: first})
    assert first.name == "box-8000"
    assert second.name == "box-8000-2"


def test_it_is_kept_in_the_users_settings_whose_comments_stay(tmp_path: Path) -> None:
    environ = {"FOLDLINE_HOME": str(tmp_path)}
    (tmp_path / "config.toml").write_text('# mine\ntheme = "foldline-dark" # dark\n')
    save_server(environ, server_at("box:8000", {}))
    text = (tmp_path / "config.toml").read_text()
    assert text.startswith('# mine\ntheme = "foldline-dark" # dark\n')
    settings = load_settings(tmp_path, environ)
    assert settings.providers["box-8000"].base_url == "http://box:8000/v1"
