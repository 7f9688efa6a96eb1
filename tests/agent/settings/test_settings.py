"""Settings: where values come from, which one wins, what is refused and how."""

import runpy
from pathlib import Path

import pytest

from foldline.agent.settings.amounts import ALLOWED, Amount, parse_amount, parse_tokens
from foldline.agent.settings.layers import REMOVED, key_settings
from foldline.agent.settings.schema import (
    ADVANCED,
    ALL_SETTINGS,
    KEYS,
    PAYS,
    PROJECT_MODE,
    PROJECT_STRATEGY,
    REACHES,
    TABLES,
    UNKNOWN,
)
from foldline.agent.settings.settings import (
    IGNORED,
    NO_PROVIDER,
    NOT_SET_UP,
    Settings,
    connect_llm,
    connect_summariser,
    known_window,
    load_settings,
)
from foldline.protocol import FoldlineError
from foldline.tui.keys.registry import check
from support.server import running_server
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")


@pytest.fixture
def house(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, and beside it the folder `work`."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return {"FOLDLINE_HOME": str(tmp_path / "home")}


def own(house: dict[str, str], text: str) -> Path:
    path = Path(house["FOLDLINE_HOME"]) / "config.toml"
    path.write_text(text)
    return path


def load(house: dict[str, str], /, **environ: str) -> Settings:
    return load_settings(
        Path(house["FOLDLINE_HOME"]).parent / "work", {**house, **environ}
    )


def refusal(house: dict[str, str], /, **environ: str) -> str:
    with pytest.raises(FoldlineError) as refused:
        load(house, **environ)
    return str(refused.value)


def test_without_any_file_everything_is_default(house: dict[str, str]) -> None:
    settings = load(house)
    assert settings == Settings()
    assert all(settings.origin(key) == "default" for key in KEYS)


def test_a_setting_of_an_earlier_version_is_ignored_with_a_warning(
    house: dict[str, str],
) -> None:
    file = own(house, 'vim = "on"\nnotify = "bell"\n')
    settings = load(house, FOLDLINE_VIM="on")
    assert settings.notify == "bell" and "vim" not in settings.values()
    assert settings.warnings == [
        IGNORED.format(origin=origin, key="vim", reason=REMOVED["vim"])
        for origin in (file, "FOLDLINE_VIM")
    ]


def test_a_key_of_a_removed_command_is_ignored_with_a_warning(
    house: dict[str, str],
) -> None:
    file = own(house, '[keys.inspector]\nborder-left = "f9"\nfollow = "f8"\n')
    settings = load(house)
    assert settings.keys == {"inspector": {"follow": "f8"}}
    assert [setting.key for setting in key_settings(house)] == ["keys.inspector.follow"]
    key = "keys.inspector.border-left"
    reason = REMOVED["keys.*.border-*"]
    assert settings.warnings == [IGNORED.format(origin=file, key=key, reason=reason)]


@pytest.mark.parametrize(
    "table",
    [
        '[keys.filter]\nclear = "f9"\n',
        '[keys.inspector]\nfilter = "f9"\n',
        '[keys.tree]\nenter = "f9"\n',
        '[keys.chat]\ntree = "f9"\n',
        '[keys.tour]\nskip-step = "f9"\n',
        '[keys.rewind]\noverwrite = "f9"\n',
    ],
)
def test_keys_of_removed_screens_and_commands_do_not_refuse_the_start(
    house: dict[str, str], table: str
) -> None:
    own(house, table)
    check(key_settings(house))
    settings = load(house)
    assert settings.keys == {}
    assert len(settings.warnings) == 1


def test_a_models_name_in_a_variable_may_contain_two_underscores(
    house: dict[str, str],
) -> None:
    settings = load(house, FOLDLINE_MODELS__MY__MODEL__WINDOW="32k")
    assert "my__model" in settings.models


def test_the_later_layer_wins_and_is_named_as_the_origin(
    house: dict[str, str], tmp_path: Path
) -> None:
    file = own(
        house,
        'theme = "dusk"\nnotify = "bell"\n[context]\nwindow = 10000\n[compaction]\nmode = "off"\n',
    )
    project = tmp_path / "work" / ".foldline.toml"
    bring(project, 'notify = "off"\n[context]\nwindow = "20k"\n')
    environ = {**house, "FOLDLINE_CONTEXT_WINDOW": "30k"}
    settings = load_settings(tmp_path / "work", environ, {"context.window": 40_000})
    assert (settings.theme, settings.origin("theme")) == ("dusk", str(file))
    assert (settings.notify, settings.origin("notify")) == ("off", str(project))
    assert (settings.context.window, settings.origin("context.window")) == (
        40_000,
        "command line",
    )
    assert settings.compaction.mode == "off"
    assert load(environ).origin("context.window") == "FOLDLINE_CONTEXT_WINDOW"


def test_any_key_can_come_from_the_environment(house: dict[str, str]) -> None:
    settings = load(
        house,
        FOLDLINE_MODEL="m",
        FOLDLINE_COMPACTION__SOFT_RATIO="0.5",
        FOLDLINE_THEME="",
    )
    assert settings.model == "m"
    assert settings.compaction.soft_ratio == 0.5
    assert settings.theme == "auto"


def test_the_project_file_is_found_up_to_the_top_of_the_repository_and_no_further(
    house: dict[str, str], tmp_path: Path
) -> None:
    inner = tmp_path / "work" / "src" / "deep"
    inner.mkdir(parents=True)
    bring(tmp_path / ".foldline.toml", 'theme = "outside"\n')
    bring(tmp_path / "work" / ".foldline.toml", 'theme = "inside"\n')
    assert load_settings(inner, house).theme == "auto"
    (tmp_path / "work" / ".git").mkdir()
    assert load_settings(inner, house).theme == "inside"
    (tmp_path / "work" / ".foldline.toml").unlink()
    assert load_settings(inner, house).theme == "auto"


def test_sizes_are_tokens_or_a_share_of_the_window(house: dict[str, str]) -> None:
    own(
        house,
        '[compaction]\nreserve_tokens = 5000\nkeep_recent_tokens = "20%"\nmax_summary_tokens = "4k"\n',
    )
    budget = load(house).budget_settings(100_000)
    assert (
        budget.reserve_tokens,
        budget.keep_recent_tokens,
        budget.max_summary_tokens,
    ) == (
        5_000,
        20_000,
        4_000,
    )
    assert load(house).values()["compaction.keep_recent_tokens"] == "20%"


def test_a_threshold_is_tokens_or_a_share_of_the_window(house: dict[str, str]) -> None:
    assert load(house).budget_settings(100_000).threshold is None
    own(house, '[compaction]\nthreshold = "60%"\n')
    assert load(house).budget_settings(100_000).threshold == 60_000
    assert (
        load(house, FOLDLINE_COMPACTION__THRESHOLD="50k")
        .budget_settings(100_000)
        .threshold
        == 50_000
    )


MODELS_FILE = """
[context]
window = "64k"
[models."gpt-4.1"]
window = "1M"
[models."moonshotai/Kimi-K2"]
window = "256k"
[models."qwen2.5:14b"]
window = 16384
"""


def test_sizes_for_one_model_have_no_effect_and_a_warning(
    house: dict[str, str],
) -> None:
    own(house, '[models."gpt-4.1"]\nthreshold = "40%"\nsoft_ratio = 0.9\n')
    settings = load(house)
    assert settings.budget_settings(100_000).threshold is None
    assert [warning.partition(" ")[0] for warning in settings.warnings] == [
        'models."gpt-4.1".threshold',
        'models."gpt-4.1".soft_ratio',
    ]


def test_the_window_of_a_model_is_its_own_or_that_for_all(
    house: dict[str, str],
) -> None:
    own(house, MODELS_FILE)
    settings = load(house)
    windows = [
        settings.window_of(model)
        for model in ("gpt-4.1", "QWEN2.5:14b", "gpt-4.1-mini", "")
    ]
    assert windows == [1_000_000, 16_384, 64_000, 64_000]
    assert (
        load({"FOLDLINE_HOME": house["FOLDLINE_HOME"] + "/none"}).window_of("gpt-4.1")
        is None
    )


def test_names_of_models_keep_their_dots_slashes_and_colons_in_keys(
    house: dict[str, str],
) -> None:
    file = own(house, MODELS_FILE)
    settings = load(house)
    shown = {
        key: value
        for key, value in settings.values().items()
        if key.startswith("models")
    }
    assert shown == {
        'models."gpt-4.1".window': 1_000_000,
        'models."moonshotai/kimi-k2".window': 256_000,
        'models."qwen2.5:14b".window': 16_384,
    }
    assert all(settings.origin(key) == str(file) for key in shown)


def test_later_layers_add_to_the_table_of_a_model(
    house: dict[str, str], tmp_path: Path
) -> None:
    own(house, MODELS_FILE)
    project = tmp_path / "work" / ".foldline.toml"
    bring(project, '[models."GPT-4.1"]\nwindow = "30k"\n')
    variable = "FOLDLINE_MODELS__moonshotai/Kimi-K2__WINDOW"
    settings = load(house, **{variable: "20k"})
    assert settings.window_of("gpt-4.1") == 30_000
    assert settings.window_of("moonshotai/kimi-k2") == 20_000
    assert settings.window_of("qwen2.5:14b") == 16_384
    assert settings.origin('models."gpt-4.1".window') == str(project)
    assert settings.origin('models."moonshotai/kimi-k2".window') == variable


def test_what_is_set_for_this_run_wins_over_a_file_that_speaks_of_one_model(
    house: dict[str, str], tmp_path: Path
) -> None:
    own(house, MODELS_FILE)
    assert load(house, FOLDLINE_CONTEXT_WINDOW="9k").window_of("gpt-4.1") == 9_000
    by_option = load_settings(tmp_path / "work", house, {"context.window": "70k"})
    assert by_option.window_of("gpt-4.1") == 70_000
    assert 'models."gpt-4.1".window' not in by_option.values()


def test_a_variable_for_one_model_wins_over_one_for_all(house: dict[str, str]) -> None:
    mixed = {
        "FOLDLINE_CONTEXT_WINDOW": "50k",
        "FOLDLINE_MODELS__A.B__WINDOW": "60k",
    }
    settings = load(house, **mixed)
    assert settings.window_of("a.b") == 60_000
    assert settings.window_of("other") == 50_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[compaction]\nmodus = 'auto'\n",
            ["compaction.modus", "Did you mean compaction.mode?", ALL_SETTINGS],
        ),
        ("modell = 'x'\n", ["modell", "Did you mean model?"]),
        (
            "[colours]\nred = 1\n",
            ["colours.red", ALL_SETTINGS],
        ),
        ("compaction = 3\n", ["no setting compaction"]),
        (
            "[compaction]\nmode = 'maybe'\n",
            ["compaction.mode", "'maybe'", "Allowed: auto"],
        ),
        (
            "[compaction]\nreserve_tokens = 'lots'\n",
            ["reserve_tokens", ALLOWED],
        ),
        ("[compaction]\nreserve_tokens = -5\n", ["reserve_tokens", "-5"]),
        ("[compaction]\nsoft_ratio = 1.5\n", ["soft_ratio", "a number above 0 to 1"]),
        ("[compaction]\nsoft_ratio = nan\n", ["soft_ratio"]),
        ("[context]\nwindow = 100\n", ["context.window", "100", "from 2,048"]),
        ("[context]\nwindow = true\n", ["context.window", "True"]),
        ("[context]\nwindow = '20%'\n", ["context.window"]),
        ("theme = 3\n", ["theme", "a name"]),
        (
            "[approvals]\nmode = 'never'\n",
            ["approvals.mode", "sandboxed, read-only, all or plan"],
        ),
        ("model = \n", ["not valid TOML", "line 1"]),
        ("[compaction]\nmode = 'maybe'\n", ["Allowed: auto, ask or off"]),
        ("[context]\ndmail = 'perhaps'\n", ["context.dmail", "Allowed: true or false"]),
        (
            "[compaction]\nthreshold = '120%'\n",
            ["compaction.threshold", "'120%'", "32k", "(20%)"],
        ),
        ("[compaction]\nmodel = 5\n", ["compaction.model", "5", "a name"]),
        (
            "[models.'gpt-4.1']\nwindw = 5\n",
            ['models."gpt-4.1".windw', "Did you mean window?", 'models."NAME"'],
        ),
        (
            "[models.'a/b:c']\nwindow = '20%'\n",
            ['models."a/b:c".window', "'20%'", "from 2,048"],
        ),
        (
            "[models.gpt-4.1]\nwindow = 5000\n",
            [UNKNOWN.format(key="models.gpt-4.1.window"), "needs quotes"],
        ),
        (
            "[models]\nwindow = 5000\n",
            ["models.window", 'its own table, [models."NAME"]'],
        ),
        ("models = 3\n", [UNKNOWN.format(key="models"), "its own table"]),
        ("[models.'']\nwindow = 5000\n", ['models."".window']),
        ("[models.a.window]\nb = 1\n", ["models.a.window.b", "with window"]),
        ("'compaction.mode' = 'off'\n", ["Did you mean compaction.mode?"]),
        (
            "[mcp.a]\ncomand = 'x'\n",
            ["mcp.a.comand", "Did you mean command?", "[mcp.NAME], with command"],
        ),
        ("[mcp.a]\nargs = 'x'\n", ["mcp.a.args cannot be that", "a list of strings"]),
        ("[mcp.a]\nargs = [1]\n", ["mcp.a.args", "a list of strings"]),
        ("[mcp.a]\nenv = 'x'\n", ["mcp.a.env", "a table of strings"]),
        ("[mcp.a]\ntimeout = 0\n", ["mcp.a.timeout", "a number above 0"]),
        ("[mcp.a.args]\nb = 'x'\n", ["mcp.a.args.b"]),
        ("[mcp.a.env.b]\nc = 'x'\n", ["mcp.a.env.b.c"]),
        (
            "[mcp]\ncommand = 'x'\n",
            ["Each tool server has its own table, [mcp.NAME]"],
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_file_key_and_what_is_allowed(
    house: dict[str, str], text: str, words: list[str]
) -> None:
    file = own(house, text)
    sentence = refusal(house)
    assert all(word in sentence for word in [str(file), *words])
    assert "\n" not in sentence


def test_what_is_wrong_in_the_environment_is_named_by_its_variable(
    house: dict[str, str],
) -> None:
    assert refusal(house, FOLDLINE_CONTEXT_WINDOW="big").startswith(
        "FOLDLINE_CONTEXT_WINDOW: context.window"
    )
    assert "no setting foo.bar" in refusal(house, FOLDLINE_FOO__BAR="1")
    named = refusal(house, **{"FOLDLINE_MODELS__gpt-4.1__WINDOW": "big"})
    assert named.startswith(
        'FOLDLINE_MODELS__gpt-4.1__WINDOW: models."gpt-4.1".window cannot be'
    )
    assert "its own table" in refusal(house, FOLDLINE_MODELS__WINDOW="5k")


def test_other_variables_of_ours_are_no_settings(house: dict[str, str]) -> None:
    assert (
        load(house, FOLDLINE_SHARED_SESSIONS="/x", FOLDLINE_SOMETHING="1") == Settings()
    )


def test_a_file_that_is_no_text_is_refused(house: dict[str, str]) -> None:
    (Path(house["FOLDLINE_HOME"]) / "config.toml").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refusal(house)


def test_a_project_opens_nothing_in_the_sandbox(
    house: dict[str, str], tmp_path: Path
) -> None:
    bring(tmp_path / "work" / ".foldline.toml", '[sandbox]\nwritable = ["/"]\n')
    assert f"a project cannot set sandbox.writable. {REACHES}" in refusal(house)


@pytest.mark.parametrize("key", ["model", "compaction.model", "fallback"])
def test_a_project_chooses_no_model_that_somebody_else_pays_for(
    house: dict[str, str], tmp_path: Path, key: str
) -> None:
    table, _, name = key.rpartition(".")
    value = '["dear"]' if key == "fallback" else '"dear"'
    said = f"[{table}]\n{name} = {value}\n" if table else f"{name} = {value}\n"
    bring(tmp_path / "work" / ".foldline.toml", said)
    assert f"cannot set {key}. {PAYS}" in refusal(house)
    (tmp_path / "work" / ".foldline.toml").unlink()
    own(house, said)
    assert load(house).origin(key).endswith("config.toml")


def test_a_setting_that_is_gone_gets_the_sentence_about_unknown_ones(
    house: dict[str, str],
) -> None:
    own(house, '[compaction]\nembedding_model = "nomic-embed-text"\n')
    assert UNKNOWN.format(key="compaction.embedding_model") in refusal(house)


def test_a_project_cannot_bring_code_that_compacts(
    house: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "work" / ".foldline.toml"
    bring(project, '[compaction]\nstrategy = "their_module:Strategy"\n')
    assert refusal(house) == PROJECT_STRATEGY.format(origin=project)
    bring(project, '[compaction]\nstrategy = "hide"\n')
    assert type(load(house).strategy()).__name__ == "ToolResultHidingCompaction"
    own(house, '[compaction]\nstrategy = "foldline.compaction:SimpleCompaction"\n')
    project.unlink()
    assert type(load(house).strategy()).__name__ == "SimpleCompaction"


def test_a_project_cannot_decide_what_runs_unasked(
    house: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "work" / ".foldline.toml"
    bring(project, "[approvals]\nmode = 'all'\n")
    assert refusal(house) == PROJECT_MODE.format(origin=project)
    bring(project, "[approvals]\nmode = 'ask'\n")
    own(house, "[approvals]\nmode = 'all'\n")
    assert load(house).approvals.mode == "ask"


def test_no_key_for_a_server_can_be_put_into_settings(house: dict[str, str]) -> None:
    own(house, "openai_api_key = 'sk-secret'\n")
    assert "sk-secret" not in refusal(house)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("32768", Amount(32_768)),
        ("32k", Amount(32_000)),
        ("1.5K", Amount(1_500)),
        ("1M", Amount(1_000_000)),
        ("32,768", Amount(32_768)),
        ("32_768", Amount(32_768)),
        (" 20 % ", Amount(percent=20)),
        ("0.5%", Amount(percent=0.5)),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, amount: Amount) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize(
    "text", ["", "k", "-1", "0", "1.5", "0%", "101%", "1e5", "32kb", "nan", "9" * 40]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a number of tokens"):
        parse_amount(text)


def test_tokens_take_no_share() -> None:
    with pytest.raises(ValueError, match="32k, 1M"):
        parse_tokens("20%")


def test_the_model_is_offline_until_something_else_is_set_up(
    house: dict[str, str],
) -> None:
    assert connect_llm(load(house), {}).info.id == "offline"
    assert (
        connect_llm(
            load(house, FOLDLINE_MODEL="offline"), {"OPENAI_API_KEY": "sk-x"}
        ).info.id
        == "offline"
    )
    assert (
        connect_llm(load(house), {"OPENAI_API_KEY": "sk-x"}).info.provider
        == "api.openai.com"
    )
    with pytest.raises(FoldlineError, match="OPENAI_API_KEY"):
        connect_llm(load(house, FOLDLINE_MODEL="gpt-5"), {})


def test_the_window_of_the_settings_overrides_what_is_known(
    house: dict[str, str],
) -> None:
    own(house, "[offline]\nwindow = 9000\n")
    assert connect_llm(load(house), {}).info.window == 9_000
    environ = {"FOLDLINE_CONTEXT_WINDOW": "50k", "FOLDLINE_MODEL": "gpt-5"}
    assert (
        connect_llm(load(house, **environ), {"OPENAI_API_KEY": "sk-x"}).info.window
        == 50_000
    )
    assert (
        connect_llm(load(house, FOLDLINE_CONTEXT_WINDOW="50k"), {}).info.window
        == 50_000
    )


def test_the_window_of_a_model_reaches_its_client(house: dict[str, str]) -> None:
    own(
        house,
        MODELS_FILE
        + "[models.offline]\nwindow = 5000\n[models.gpt-5-mini]\nwindow = 7000\n",
    )
    key = {"OPENAI_API_KEY": "sk-x"}
    assert (
        connect_llm(load(house, FOLDLINE_MODEL="GPT-4.1"), key).info.window == 1_000_000
    )
    assert connect_llm(load(house, FOLDLINE_MODEL="gpt-4o"), key).info.window == 64_000
    assert (
        connect_llm(load(house), key).info.window == 7_000
    )  # of the model that is asked where none is named
    assert connect_llm(load(house), {}).info.window == 5_000


async def test_the_window_of_a_model_holds_where_the_server_chooses_the_model(
    house: dict[str, str],
) -> None:
    own(house, "[models.'their/model:1']\nwindow = 7000\n")
    with running_server(window=12_345, model="their/model:1") as server:
        client = connect_llm(load(house), {"OPENAI_BASE_URL": server.base_url})
        assert await known_window(client) == 7_000
        await client.aclose()


def test_without_a_model_of_their_own_summaries_have_no_client(
    house: dict[str, str],
) -> None:
    key = {"OPENAI_API_KEY": "sk-x"}
    assert connect_summariser(load(house), key) is None
    own(house, "model = 'gpt-4.1'\n[compaction]\nmodel = 'gpt-4.1'\n")
    assert connect_summariser(load(house), key) is None


def test_the_client_of_the_summaries_has_a_window_of_its_own(
    house: dict[str, str],
) -> None:
    own(
        house,
        "model = 'gpt-5'\n[context]\nwindow = 9000\n[compaction]\nmodel = 'gpt-4.1-mini'\n",
    )
    summariser = connect_summariser(load(house), {"OPENAI_API_KEY": "sk-x"})
    assert summariser is not None
    assert (summariser.info.id, summariser.info.window) == ("gpt-4.1-mini", 1_047_576)
    offline = connect_summariser(
        load(house, FOLDLINE_COMPACTION__MODEL="offline"), {"OPENAI_API_KEY": "sk-x"}
    )
    assert offline is not None
    assert (offline.info.id, offline.info.window) == ("offline", 16_384)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-5", NOT_SET_UP.format(model="gpt-5")),
        ("gpt-5@nobody", NO_PROVIDER.format(name="nobody")),
    ],
)
def test_a_model_that_nobody_can_be_asked_for_says_how_to_name_a_provider(
    house: dict[str, str], model: str, words: str
) -> None:
    with pytest.raises(FoldlineError, match=f"^{words}"):
        connect_llm(load(house, FOLDLINE_MODEL=model), {})


def test_a_model_for_summaries_that_cannot_be_reached_is_named_by_its_key(
    house: dict[str, str],
) -> None:
    own(house, "model = 'offline'\n[compaction]\nmodel = 'gpt-4.1-mini'\n")
    with pytest.raises(
        FoldlineError,
        match=r"^compaction.model, gpt-4.1-mini, cannot be used: No provider is set up",
    ):
        connect_summariser(load(house), {})


async def test_the_window_of_the_embedded_model_is_known_without_asking(
    house: dict[str, str],
) -> None:
    assert await known_window(connect_llm(load(house), {})) == 16_384


def test_the_table_for_the_docs_has_every_key_with_its_meaning() -> None:
    pages = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "make_pages.py"))
    rows = [row for row in pages["settings_table"]().splitlines() if row[:3] == "| `"]
    keys = [row.split("`")[1] for row in rows]
    assert keys == sorted(KEYS, key=ADVANCED.__contains__)
    assert len(KEYS) - len(ADVANCED) <= 28 and set(KEYS) > ADVANCED
    for section, name in (
        ("models", 'models."NAME"'),
        ("providers", "providers.NAME"),
        ("mcp", "mcp.NAME"),
    ):
        more = pages["section_table"](section, "").splitlines()[2:]
        assert [row.split("`")[1] for row in more] == [
            f"{name}.{key}" for key in TABLES[section]
        ]
        rows += more
    assert all(row.rstrip("| ").rpartition("| ")[2] for row in rows)


SERVERS = """
[mcp.Files]
command = "npx"
args = ["-y", "files"]
[mcp.Files.env]
TOKEN = "sk-planted-77aa"
"a.b" = "c"
[mcp.web]
url = "https://example.org/mcp?token=sk-planted-77aa"
headers = { Authorization = "Bearer sk-planted-77aa" }
timeout = 5
enabled = false
"""


def test_tool_servers_have_tables_by_their_names(house: dict[str, str]) -> None:
    own(house, SERVERS)
    servers = load(house, FOLDLINE_MCP__web__TIMEOUT="7").mcp
    assert (servers["Files"].command, servers["Files"].args) == ("npx", ["-y", "files"])
    assert servers["Files"].env == {"TOKEN": "sk-planted-77aa", "a.b": "c"}
    assert (servers["Files"].timeout, servers["Files"].enabled) == (120, True)
    assert servers["web"].headers == {"Authorization": "Bearer sk-planted-77aa"}
    assert (servers["web"].timeout, servers["web"].enabled) == (7, False)


def test_what_may_hold_a_password_is_not_told(house: dict[str, str]) -> None:
    file = own(house, SERVERS)
    settings = load(house)
    values = settings.values()
    assert (
        values["mcp.Files.env.TOKEN"]
        == values["mcp.web.headers.Authorization"]
        == "(set)"
    )
    assert (
        values["mcp.Files.args"] == "(set)"
    )  # `--header "Authorization: …"` is common
    assert values["mcp.web.url"] == "https://example.org/mcp"
    assert settings.origin("mcp.Files.env.TOKEN") == str(file)
    assert "sk-planted" not in str(values)
    own(house, "[mcp.a.env]\nTOKEN = ['sk-planted-77aa']\n")
    assert "sk-planted" not in refusal(house)


def test_providers_have_tables_by_their_names_in_small_letters(
    house: dict[str, str],
) -> None:
    own(
        house,
        '[providers.Box]\nbase_url = "http://box:1/v1"\nkey_env = "BOX_KEY"\ndialect = "mistral"\n',
    )
    settings = load(house, FOLDLINE_PROVIDERS__BOX__API="responses")
    box = settings.provider_named("box")
    assert box is not None
    assert (box.base_url, box.key_env, box.dialect, box.api) == (
        "http://box:1/v1",
        "BOX_KEY",
        "mistral",
        "responses",
    )
    assert settings.values()["providers.box.key_env"] == "BOX_KEY"
    assert "providers.box.models" not in settings.values()
