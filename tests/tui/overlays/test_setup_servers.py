"""The screen's servers for real: what is known of providers, keys and the environment, and what is kept."""

from pathlib import Path

import pytest

from foldline.agent.settings.settings import connect_llm, load_settings
from foldline.llm import LLMError
from foldline.protocol import FoldlineError
from foldline.tui.overlays.setup_servers import (
    OFFLINE,
    OTHER,
    KnownServers,
    ModelServer,
    Secret,
    SetupResult,
)
from support.server import MODEL, running_server
from support.setup_screen import KEY


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def known(home: Path, **environ: str) -> KnownServers:
    given = {"FOLDLINE_HOME": str(home), **environ}
    return KnownServers(load_settings(home, given), given, lambda offer: False)


def source(servers: KnownServers, name: str) -> ModelServer:
    return next(source for source in servers.sources if source.name == name)


def test_every_provider_is_listed_between_the_built_in_one_and_a_server_to_be_named(
    home: Path,
) -> None:
    sources = known(home).sources
    assert (sources[0], sources[-1]) == (OFFLINE, OTHER)
    names = [source.name for source in sources]
    assert len(set(names)) == len(names) and {
        "openai",
        "anthropic",
        "openrouter",
        "ollama",
    } < set(names)


def test_where_a_key_was_found_is_told_and_the_key_is_not(home: Path) -> None:
    keys = home / "keys.toml"
    keys.write_text(f'[keys]\ndeepseek = "{KEY}"\nmistral = "{KEY}"\n')
    keys.chmod(0o600)
    servers = known(home, GOOGLE_API_KEY=KEY, MISTRAL_API_KEY=KEY)
    found = {
        each.name: (each.key_in, each.from_environment)
        for each in servers.sources
        if each.key_in
    }
    assert found == {
        "gemini": ("GOOGLE_API_KEY", True),
        "deepseek": ("keys.toml", False),
        "mistral": ("MISTRAL_API_KEY", True),
    }
    assert KEY not in repr(servers.sources) and not source(servers, "openai").key_in


def test_the_server_of_the_environment_comes_first_and_nothing_is_kept_of_it(
    home: Path,
) -> None:
    servers = known(home, OPENAI_BASE_URL="http://gpu-box:9000/v1")
    first = servers.sources[1]
    assert (first.url, first.named) == ("http://gpu-box:9000/v1", False)
    assert SetupResult(first, "m").named == "m@env"
    servers._keep(SetupResult(first, "m"))
    assert not (home / "config.toml").exists()


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_of_several_apis_at_one_host_it_is_the_one_the_session_speaks(
    home: Path, api: str
) -> None:
    own = 'base_url = "https://api.anthropic.com/v1"\napi = "chat"\nkey_env = "OWN_KEY"'
    (home / "config.toml").write_text(f"[providers.claude-chat]\n{own}\n")
    name = {"chat": "claude-chat", "messages": "anthropic"}[api]
    keys = {"OWN_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    servers = known(home, **keys)
    chosen = {
        "FOLDLINE_HOME": str(home),
        "FOLDLINE_MODEL": f"claude-opus-5@{name}",
        **keys,
    }
    llm = connect_llm(load_settings(home, chosen), chosen)
    assert servers.in_use(llm) == (name, "claude-opus-5")


def test_the_other_address_of_a_preset_takes_its_place(home: Path) -> None:
    servers = known(
        home, OPENAI_BASE_URL="https://api.moonshot.cn/v1", OPENAI_API_KEY=KEY
    )
    there = [each for each in servers.sources if each.name == "moonshot"]
    assert [(each.url, each.key_in) for each in there] == [
        ("https://api.moonshot.cn/v1", "OPENAI_API_KEY")
    ]
    assert not source(servers, "openai").key_in, "that key belongs to the other server"


@pytest.mark.parametrize(
    ("typed", "url", "name"),
    [
        ("http://localhost:9000/v1", "http://localhost:9000/v1", "localhost-9000"),
        (" localhost:9000 ", "http://localhost:9000/v1", "localhost-9000"),
        ("gpu-box:9000/v1/", "http://gpu-box:9000/v1", "gpu-box-9000"),
        (
            "llm.corp.example/openai",
            "https://llm.corp.example/openai",
            "llm-corp-example",
        ),
        ("http://localhost:11434/v1", "http://localhost:11434/v1", "ollama"),
        ("https://api.deepseek.com/v1", "https://api.deepseek.com/v1", "deepseek"),
    ],
)
def test_an_address_is_made_whole_and_a_known_one_recognised(
    home: Path, typed: str, url: str, name: str
) -> None:
    other = known(home).other(typed)
    assert (other.url, other.name) == (url, name)


@pytest.mark.parametrize(
    "typed",
    ["", "ftp://x/v1", "http://", f"https://me:{KEY}@host/v1", f"http://h/v1?k={KEY}"],
)
def test_what_is_no_address_is_refused_and_not_repeated(home: Path, typed: str) -> None:
    with pytest.raises(FoldlineError) as refused:
        known(home).other(typed)
    assert KEY not in str(refused.value)


async def test_what_was_chosen_is_asked_at_the_next_start(home: Path) -> None:
    with running_server(key=KEY) as server:
        servers = known(home)
        mine = servers.other(server.base_url)
        with pytest.raises(LLMError):
            await servers.models(mine, Secret("sk-wrong"))
        (offer,) = await servers.models(mine, Secret(KEY))
        assert (offer.id, offer.window) == (MODEL, server.window)
        await servers.keep(SetupResult(mine, offer.id, Secret(KEY)))
        environ = {"FOLDLINE_HOME": str(home)}
        llm = connect_llm(load_settings(home, environ), environ)
        assert (await llm.prepare()).id == MODEL
        again = known(home)
        assert again.in_use(llm) == (mine.name, MODEL)
        assert source(again, mine.name).key_in == "keys.toml"
        await llm.aclose()


def test_both_apis_of_one_host_are_told_apart(home: Path) -> None:
    for name in ("openai", "openai-responses"):
        environ = {
            "FOLDLINE_HOME": str(home),
            "OPENAI_API_KEY": KEY,
            "FOLDLINE_MODEL": f"gpt-5@{name}",
        }
        llm = connect_llm(load_settings(home, environ), environ)
        assert known(home).in_use(llm) == (name, "gpt-5")


async def test_a_disk_that_refuses_is_one_sentence(home: Path) -> None:
    servers = known(home)
    (home / "config.toml").mkdir()
    with pytest.raises(FoldlineError, match=r"config\.toml"):
        await servers.keep(
            SetupResult(source(servers, "deepseek"), "deepseek-v4-flash")
        )
