"""Who is asked: what files, environment and options name, which of them wins, and keeping a choice."""

from pathlib import Path

import pytest

from foldline.agent.settings.api_keys import OF_BASE_URL, key_of
from foldline.agent.settings.model_choice import (
    ENV_NOT_SET,
    is_first_start,
    provider_in_force,
    provider_source,
    save_choice,
)
from foldline.agent.settings.schema import NOT_FOR_PROJECTS
from foldline.agent.settings.settings import (
    Settings,
    connect_llm,
    connect_summariser,
    load_settings,
)
from foldline.history import Session
from foldline.llm.catalog import NEEDS_KEY
from foldline.llm.providers import NO_ADDRESS, PROVIDERS
from foldline.protocol import FoldlineError, UserMessage, text_parts
from support.sentences import says
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")

PLANTED = "sk-planted-91ab27cd"
KEYS = {
    "OPENAI_API_KEY": f"{PLANTED}-openai",
    "DEEPSEEK_API_KEY": f"{PLANTED}-deepseek",
}


class House:
    """A folder of settings, a folder of work, and what is asked there."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.config = self.home / "config.toml"
        self.project = self.work / ".foldline.toml"

    def environ(self, **environ: str) -> dict[str, str]:
        return {"FOLDLINE_HOME": str(self.home), **environ}

    def settings(self, model: str = "", **environ: str) -> Settings:
        return load_settings(
            self.work, self.environ(**environ), {"model": model} if model else None
        )

    def asked(self, model: str = "", **environ: str) -> tuple[str, str]:
        """Where and for which model."""
        llm = connect_llm(self.settings(model, **environ), self.environ(**environ))
        return llm.info.provider, llm.info.id

    def refusal(self, model: str = "", **environ: str) -> str:
        with pytest.raises(FoldlineError) as refused:
            self.asked(model, **environ)
        assert PLANTED not in str(refused.value)
        assert "\n" not in str(refused.value)
        return str(refused.value)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


LOCAL = {"OPENAI_BASE_URL": "http://localhost:5555/v1"}
CHOSEN = 'provider = "deepseek"\nmodel = "deepseek-v4-pro"\n'


@pytest.mark.parametrize(
    ("config", "model", "environ", "asked"),
    [
        ("", "", {}, ("offline", "offline")),
        ("", "", KEYS, ("api.openai.com", "gpt-5-mini")),
        ("", "", {"OPENAI_MODEL": "mine", **KEYS}, ("api.openai.com", "mine")),
        ("", "m", {**LOCAL, **KEYS}, ("localhost:5555", "m")),
        ("", "m@deepseek", {**LOCAL, **KEYS}, ("api.deepseek.com", "m")),
        ("", "@deepseek", KEYS, ("api.deepseek.com", "deepseek-v4-flash")),
        (CHOSEN, "", KEYS, ("api.deepseek.com", "deepseek-v4-pro")),
        (CHOSEN, "other", KEYS, ("api.deepseek.com", "other")),
        (CHOSEN, "offline", KEYS, ("offline", "offline")),
        (
            CHOSEN,
            "@openai",
            KEYS,
            ("api.openai.com", "gpt-5-mini"),
        ),  # The model belongs to the other one.
        (
            CHOSEN,
            "",
            {"FOLDLINE_PROVIDER": "openai", **KEYS},
            ("api.openai.com", "gpt-5-mini"),
        ),
        (
            CHOSEN,
            "",
            {"FOLDLINE_PROVIDER": "DeepSeek", **KEYS},
            ("api.deepseek.com", "deepseek-v4-pro"),
        ),
        (CHOSEN, "", {**LOCAL, **KEYS}, ("localhost:5555", "default")),
        (
            CHOSEN,
            "",
            {"OPENAI_BASE_URL": "https://api.deepseek.com", **KEYS},
            ("api.deepseek.com", "deepseek-v4-pro"),
        ),
        ('model = "m@deepseek"', "", {**LOCAL, **KEYS}, ("api.deepseek.com", "m")),
        (
            CHOSEN,
            "",
            {"FOLDLINE_MODEL": "a", "FOLDLINE_PROVIDER": "openai", **KEYS},
            ("api.openai.com", "a"),
        ),
        (
            "",
            "m@env",
            {"FOLDLINE_PROVIDER": "deepseek", **LOCAL, **KEYS},
            ("localhost:5555", "m"),
        ),
        ("", "@ENV", {"OPENAI_MODEL": "mine", **LOCAL}, ("localhost:5555", "mine")),
        ('provider = "env"\nmodel = "m"', "", LOCAL, ("localhost:5555", "m")),
        (
            '[providers.env]\nbase_url = "http://box.local:1/v1"\n',
            "m@env",
            LOCAL,
            ("box.local:1", "m"),
        ),
        (
            '[providers.box]\nbase_url = "http://box.local:1/v1"\nmodels = ["first", "second"]\n',
            "@box",
            {},
            ("box.local:1", "first"),
        ),
        (
            '[providers.ollama]\nbase_url = "http://10.0.0.7:11434/v1"\n',
            "m@ollama",
            {},
            ("10.0.0.7:11434", "m"),
        ),
    ],
)
def test_who_is_asked(
    house: House,
    config: str,
    model: str,
    environ: dict[str, str],
    asked: tuple[str, str],
) -> None:
    house.config.write_text(config)
    assert house.asked(model, **environ) == asked


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('provider = "openrouter"', "provider"),
        (
            '[providers.openai]\nbase_url = "https://evil.example/v1"',
            "providers.openai.base_url",
        ),
        ('[mcp.helper]\ncommand = "sh"', "mcp.helper.command"),
        ('[mcp.helper.env]\nA = "b"', "mcp.helper.env.A"),
        ('model = "gpt-5@openrouter"', "model"),
        ('[compaction]\nmodel = "gpt-5@openrouter"', "compaction.model"),
        ('model = "gpt-5@env"', "model"),
    ],
)
def test_a_project_names_nobody_and_runs_nothing(
    house: House, text: str, word: str
) -> None:
    bring(house.project, text)
    refusal = NOT_FOR_PROJECTS.format(origin=house.project, key=word, reason="")
    assert refusal.strip().removesuffix(".") in house.refusal(**KEYS)


def test_a_key_goes_to_its_own_provider_only(house: House) -> None:
    """Each key in its turn; whoever has none says so, whatever else is there."""
    assert "set ANTHROPIC_API_KEY" in house.refusal("@anthropic", **KEYS)
    # With OPENAI_BASE_URL the key of OpenAI's name belongs to that server.
    stored = f"set openai in {house.home / 'keys.toml'} ({OF_BASE_URL})"
    assert stored in house.refusal("@openai", **LOCAL, **KEYS)
    (house.home / "keys.toml").write_text(f'[keys]\nopenai = "{PLANTED}"\n')
    (house.home / "keys.toml").chmod(0o600)
    assert house.asked("@openai", **LOCAL, **KEYS) == ("api.openai.com", "gpt-5-mini")
    # And a stored key of OpenAI is not for whatever server the environment names.
    elsewhere = {"OPENAI_BASE_URL": "https://api.example.org/v1"}
    assert says(house.refusal("m", **elsewhere), NEEDS_KEY, provider="api.example.org")


GATEWAY = '[providers.openai]\nbase_url = "https://gateway.example.org/v1"\n'


@pytest.mark.parametrize(
    ("config", "model", "environ", "found"),
    [
        (
            GATEWAY,
            "@openai",
            {},
            "OPENAI_API_KEY",
        ),  # It is the user's word that OpenAI is reached there.
        (GATEWAY, "@openai", LOCAL, ""),
        (
            GATEWAY,
            "@openai",
            {"OPENAI_BASE_URL": "https://gateway.example.org/other"},
            "OPENAI_API_KEY",
        ),
        (
            GATEWAY,
            "@openai",
            {"OPENAI_BASE_URL": "https://gateway.example.org:8443/v1"},
            "",
        ),
        (
            "",
            "@openai",
            {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
            "OPENAI_API_KEY",
        ),
        (
            "",
            "@deepseek",
            {"OPENAI_BASE_URL": "https://api.deepseek.com"},
            "DEEPSEEK_API_KEY",
        ),
        (
            "",
            "@mistral",
            {"OPENAI_BASE_URL": "https://api.mistral.ai"},
            "OPENAI_API_KEY",
        ),
        (
            "",
            "@mistral",
            {"OPENAI_BASE_URL": "https://api.mistral.ai.evil.example"},
            "",
        ),
        ("", "@ollama", {"OPENAI_BASE_URL": "http://localhost:8000/v1"}, ""),
        ("", "m@env", {"OPENAI_BASE_URL": "http://deepseek/v1"}, "OPENAI_API_KEY"),
        (
            "",
            "m@env",
            {"OPENAI_BASE_URL": "http://box/v1", "OPENAI_API_KEY": ""},
            "",
        ),  # A key of that name is stored.
    ],
)
def test_which_key_goes_where(
    house: House, config: str, model: str, environ: dict[str, str], found: str
) -> None:
    house.config.write_text(
        config + '[providers.box]\nbase_url = "https://box.example.org"\n'
    )
    (house.home / "keys.toml").write_text(f'[keys]\nbox = "{PLANTED}"\n')
    (house.home / "keys.toml").chmod(0o600)
    given = house.environ(**{**KEYS, **environ})
    provider = provider_in_force(house.settings(model, **{**KEYS, **environ}), given)
    assert provider is not None
    assert key_of(provider, given).origin == found


def test_the_server_of_the_environment_is_one_where_there_is_one(house: House) -> None:
    assert ENV_NOT_SET in house.refusal("@env")


def test_a_server_of_the_environment_that_is_a_known_provider_takes_its_own_key_first(
    house: House,
) -> None:
    environ = {"OPENAI_BASE_URL": "https://api.deepseek.com/v1", "OPENAI_API_KEY": "k"}
    for given, origin in (({}, "OPENAI_API_KEY"), (KEYS, "DEEPSEEK_API_KEY")):
        environ |= given
        asked = provider_source(
            house.settings("m", **environ), house.environ(**environ)
        )
        assert asked is not None
        assert (asked.key_from, asked.named_by) == (origin, "OPENAI_BASE_URL")
        assert PLANTED not in asked.sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'provider = "deepsek"',
            ["there is no provider deepsek", "Did you mean deepseek?", "lm-studio"],
        ),
        ('model = "m@deepsek"', ["there is no provider deepsek", "m@deepseek"]),
        (
            "[providers.mine]\nmodels = ['a']",
            ["mine has no address", "providers.mine.base_url"],
        ),
        (
            "[providers.mine]\nbase_url = 'box'",
            [NO_ADDRESS.format(origin="providers.mine.base_url")],
        ),
        (
            "[providers.mine]\ndialect = 'x'",
            ["providers.mine.dialect", "Allowed: openai, strict"],
        ),
        (
            "[providers.mine]\nurl = 'x'",
            ["providers.mine.url", "[providers.NAME], with base_url"],
        ),
        (
            "[providers.mine]\nmodels = 'a'",
            ["providers.mine.models", "a list of strings"],
        ),
    ],
)
def test_what_names_nobody_is_said_in_one_sentence(
    house: House, text: str, words: list[str]
) -> None:
    house.config.write_text(text)
    sentence = house.refusal()
    assert all(word in sentence for word in words), sentence


def test_a_model_nobody_can_be_asked_for_says_how_to_name_somebody(
    house: House,
) -> None:
    assert "as in gpt-5@openai" in house.refusal("gpt-5")


def test_the_summaries_may_come_from_another_provider(house: House) -> None:
    house.config.write_text(f'{CHOSEN}[compaction]\nmodel = "gpt-5-mini@openai"\n')
    writer = connect_summariser(house.settings(**KEYS), house.environ(**KEYS))
    assert writer is not None
    assert (writer.info.provider, writer.info.id) == ("api.openai.com", "gpt-5-mini")
    house.config.write_text(f'{CHOSEN}[compaction]\nmodel = "m@env"\n')
    writer = connect_summariser(
        house.settings("x@openai", **LOCAL), house.environ(**LOCAL, **KEYS)
    )
    assert writer is not None
    assert writer.info.provider == "localhost:5555"
    house.config.write_text(
        f'{CHOSEN}[compaction]\nmodel = "deepseek-v4-pro@deepseek"\n'
    )
    assert connect_summariser(house.settings(**KEYS), house.environ(**KEYS)) is None


def test_a_choice_is_kept_and_everything_else_in_the_file_stays(house: House) -> None:
    house.config.write_text(
        '# mine\ntheme = "dusk"  # at night\n\n[compaction]\nmode = "ask"\n'
    )
    assert (
        save_choice(house.environ(), PROVIDERS["deepseek"], "deepseek-v4-pro")
        == house.config
    )
    assert house.asked(**KEYS) == ("api.deepseek.com", "deepseek-v4-pro")
    settings = house.settings()
    assert (settings.theme, settings.compaction.mode) == ("dusk", "ask")
    text = house.config.read_text()
    assert "# mine\n" in text
    assert "# at night" in text
    save_choice(house.environ(), PROVIDERS["ollama"], "")
    assert (house.settings().provider, house.settings().model) == ("ollama", "")
    save_choice(house.environ(), None, "")
    assert house.asked(**KEYS) == ("offline", "offline")
    assert house.config.stat().st_mode & 0o777 == 0o600


def test_a_choice_does_not_overwrite_what_cannot_be_read(house: House) -> None:
    house.config.write_text("model = \n")
    with pytest.raises(FoldlineError, match="not valid TOML"):
        save_choice(house.environ(), PROVIDERS["ollama"], "")
    assert house.config.read_text() == "model = \n"


@pytest.mark.parametrize(
    ("config", "environ", "first"),
    [
        ("", {}, True),
        ("", {"DEEPSEEK_API_KEY": "k"}, True),  # Nobody says that it is to be used.
        ('theme = "dusk"', {}, True),
        ('model = "offline"', {}, False),
        ('provider = "ollama"', {}, False),
        ("", {"OPENAI_API_KEY": "k"}, False),
        ("", LOCAL, False),
        ("", {"OPENAI_BASE_URL": "nonsense"}, False),
    ],
)
def test_the_first_start_is_one_where_nobody_has_chosen(
    house: House, config: str, environ: dict[str, str], first: bool
) -> None:
    house.config.write_text(config)
    given = house.environ(**environ)
    assert is_first_start(house.settings(**environ), given, house.home) == first


async def test_whoever_has_held_a_session_has_seen_the_first_start(
    house: House,
) -> None:
    session = Session.create(house.work, home=house.home)
    await session.append(UserMessage(parts=text_parts("hi")))
    session.close()
    assert not is_first_start(house.settings(), house.environ(), house.home)


def test_nobody_is_in_force_where_nobody_is_named(house: House) -> None:
    assert provider_in_force(house.settings(), house.environ()) is None
