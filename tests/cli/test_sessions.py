"""`foldline sessions` and `foldline config`."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from foldline.cli import INTERNAL_ERROR
from foldline.cli.config import NO_PROVIDER
from foldline.cli.sessions import NOT_LISTED, SAME_NAME
from foldline.compaction.registry import (
    BUILT_IN,
    CANNOT_LOAD,
    NO_METHOD,
    UNKNOWN_STRATEGY,
)
from foldline.history.log import NOT_A_SESSION
from foldline.protocol import Usage
from foldline.text.shorten import cells
from support.command_line import CommandLine
from support.history import history
from support.trust import bring


def test_sessions_json_is_a_list_with_the_fields_programs_rely_on(
    cli: CommandLine,
) -> None:
    cli.keep(history().turn("Mend the login", "Done").entries, "20260101-000000-aaaaaa")
    [row] = cli("sessions", "--json").json
    assert {
        "id",
        "title",
        "cwd",
        "entries",
        "tokens",
        "updated_at",
        "model",
    } <= row.keys()
    assert (row["id"], row["title"], row["entries"]) == (
        "20260101-000000-aaaaaa",
        "Mend the login",
        2,
    )
    assert row["cwd"] == str(cli.cwd)


def test_sessions_of_other_folders_are_shown_with_all_only(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.keep(history().turn("here", "ok").entries)
    cli.keep(history().turn("there", "ok").entries, cwd=tmp_path / "elsewhere")
    assert [row["title"] for row in cli("sessions", "--json").json] == ["here"]
    assert {row["title"] for row in cli("sessions", "--all", "--json").json} == {
        "here",
        "there",
    }
    assert "elsewhere" in cli("sessions", "--all").out


def test_no_sessions_is_said_and_is_no_failure(cli: CommandLine) -> None:
    said = cli("sessions")
    assert (said.code, said.out) == (0, "")
    assert "no sessions in this folder" in said.err
    assert cli("sessions", "--json").json == []


def test_sessions_json_says_what_else_is_known(cli: CommandLine) -> None:
    cli.keep(
        history().turn("Mend the login", "Done").turn("And the tests", "Done").entries
    )
    [row] = cli("sessions", "--json").json
    assert (row["first_prompt"], row["last_prompt"]) == (
        "Mend the login",
        "And the tests",
    )
    assert row["size"] == Path(row["path"]).stat().st_size
    assert row["created_at"] <= row["updated_at"]
    assert (row["archived"], row["note"], row["tie"], row["moved_from"]) == (
        False,
        "",
        "path",
        "",
    )


def test_a_limit_leaves_the_older_ones_out_and_says_so(cli: CommandLine) -> None:
    for number in range(3):
        cli.keep(history().turn(f"prompt {number}", "ok").entries)
    said = cli("sessions", "--limit", "2")
    assert ("prompt 2" in said.out, "prompt 0" in said.out) == (True, False)
    assert NOT_LISTED.format(sessions="1 older session") in said.err
    assert len(cli("sessions", "--limit", "1", "--json").json) == 1
    assert cli("sessions", "--limit", "0").code == 2


def test_sessions_of_a_folder_that_was_moved_here_say_where_they_were_held(
    cli: CommandLine,
) -> None:
    gone = cli.cwd.with_name("gone") / cli.cwd.name
    cli.keep(history().turn("before", "ok").entries, cwd=gone)
    said = cli("sessions")
    assert "…/gone/work" in said.out
    assert SAME_NAME.format(folder=gone) in said.err
    [row] = cli("sessions", "--json").json
    assert (row["cwd"], row["moved_from"], row["tie"]) == (str(gone), str(gone), "name")


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("options", [(), ("--all",)])
def test_no_line_of_a_list_is_longer_than_the_terminal(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    options: tuple[str, ...],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    deep = cli.cwd.with_name("gone") / ("a" * 60) / cli.cwd.name
    usage = Usage(input=1_234_567, output=10)
    entries = (
        history()
        .user("长" * 80)
        .assistant("x", model="vendor/" + "m" * 60, usage=usage)
        .entries
    )
    cli.keep(
        [*entries, *history().gap(9).user("and \x1b]0;title\x07 then" * 20).entries]
    )
    cli.keep(entries, cwd=deep)
    lines = cli("sessions", *options).out.splitlines()
    assert len(lines) == 3
    assert max(map(cells, lines)) <= columns


def test_an_unreadable_session_is_listed_with_what_is_wrong(cli: CommandLine) -> None:
    folder = cli.keep(history().turn("fine", "ok").entries)
    broken = folder.with_name("20260101-000000-broken")
    broken.mkdir()
    (broken / "events.jsonl").write_text("not a session\n")
    said = cli("sessions")
    assert said.code == 0
    assert NOT_A_SESSION.partition("}")[2].partition(",")[0][:30] in said.out
    assert "fine" in said.out


def test_a_damaged_session_is_listed_by_its_title_and_with_what_is_wrong(
    cli: CommandLine,
) -> None:
    file = cli.keep(history().turn("Mend the login", "Done").entries) / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"user","ind')
    assert (
        "Mend the login: 1 damaged record (line 4) was left out" in cli("sessions").out
    )


def test_config_shows_each_value_and_who_set_it(cli: CommandLine) -> None:
    cli.home.mkdir()
    (cli.home / "config.toml").write_text(
        'theme = "dusk"\n[compaction]\nkeep_recent_tokens = "20%"\n'
    )
    said = cli("config", "--json").json
    assert said["settings"]["theme"] == {
        "value": "dusk",
        "origin": str(cli.home / "config.toml"),
    }
    assert said["settings"]["compaction.keep_recent_tokens"]["value"] == "20%"
    assert said["settings"]["compaction.mode"] == {"value": "auto", "origin": "default"}
    assert said["files"] == [str(cli.home / "config.toml")]
    assert "compaction.mode" in cli("config").out


def test_the_schema_of_the_settings_takes_what_the_program_takes(
    cli: CommandLine,
) -> None:
    check = Draft202012Validator(cli("config", "--schema").json).is_valid
    assert check(
        tomllib.loads(
            """theme = "dusk"
            fallback = ["glm-5@openrouter"]
            compaction = { mode = "ask", threshold = "70%", keep_recent_tokens = 4096 }
            sandbox = { memory = 0, hosts = ["pypi.example"] }
            models."qwen:14b".window = "32k"
            mcp.files = { command = "mcp-files", env = { TOKEN = "t" } }
            keys.chat.send = ["ctrl+d"]
            """
        )
    )
    for wrong in (
        "theem = 'dusk'",
        "[compaction]\nmode = 'never'",
        "[limits]\nturn_steps = -1",
    ):
        assert not check(tomllib.loads(wrong)), wrong


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        (
            "wizardry",
            UNKNOWN_STRATEGY.format("wizardry", "", ", ".join(BUILT_IN)),
        ),
        (
            "nowhere:Thing",
            CANNOT_LOAD.format("nowhere:Thing", "there is no module nowhere"),
        ),
        (
            "foldline.view.cut:Cut",
            NO_METHOD.format("foldline.view.cut:Cut"),
        ),
    ],
)
@pytest.mark.parametrize("command", ["config", "doctor"])
def test_a_strategy_that_cannot_be_loaded_is_refused_where_settings_are_looked_at(
    cli: CommandLine, command: str, strategy: str, says: str
) -> None:
    cli.home.mkdir()
    (cli.home / "config.toml").write_text(f'[compaction]\nstrategy = "{strategy}"\n')
    said = cli(command)
    assert said.code == 1
    shown = (said.out + said.err).replace("\n", "")
    # The report cuts long sentences.
    assert f"{cli.home / 'config.toml'}: compaction.strategy: {says[:60]}" in shown


def test_config_says_who_is_asked_and_where_the_key_came_from(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("config", "--json").json["asked"] is None
    assert NO_PROVIDER in cli("config").err
    monkeypatch.setenv("FOLDLINE_PROVIDER", "deepseek")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-planted-81f3")
    assert cli("config", "--json").json["asked"] == {
        "provider": "deepseek",
        "title": "DeepSeek",
        "url": "https://api.deepseek.com/v1",
        "named_by": "FOLDLINE_PROVIDER",
        "key_from": "DEEPSEEK_API_KEY",
    }
    said = cli("config")
    assert "set by FOLDLINE_PROVIDER, key from DEEPSEEK_API_KEY" in said.err
    assert "sk-planted" not in said.out + said.err
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-planted 81f3")
    said = cli("config")
    assert "DEEPSEEK_API_KEY contains spaces" in said.err
    assert "sk-planted" not in said.out + said.err


def test_config_shows_yes_and_no_as_a_settings_file_says_them(cli: CommandLine) -> None:
    assert re.search(r"context\.dmail +false ", cli("config").out)
    assert cli("config", "--json").json["settings"]["context.dmail"]["value"] is False


def test_config_shows_what_is_set_for_one_model(cli: CommandLine) -> None:
    bring(cli.cwd / ".foldline.toml", '[models."vendor/m-4.1:8b"]\nwindow = "60k"\n')
    said = cli("config", "--json").json["settings"]
    key = 'models."vendor/m-4.1:8b".window'
    assert said[key] == {"value": 60_000, "origin": str(cli.cwd / ".foldline.toml")}
    assert said["context.window"] == {"value": None, "origin": "default"}
    assert key in cli("config").out


def test_a_bad_key_names_file_key_and_what_there_is(cli: CommandLine) -> None:
    bring(cli.cwd / ".foldline.toml", "[compaction]\nmodus = 'auto'\n")
    said = cli("config")
    assert (said.code, said.out) == (1, "")
    assert ".foldline.toml" in said.err
    assert "compaction.modus" in said.err
    assert "Did you mean compaction.mode?" in said.err


def test_a_bad_value_names_file_key_and_what_is_allowed(cli: CommandLine) -> None:
    bring(cli.cwd / ".foldline.toml", "[compaction]\nmode = 'sometimes'\n")
    said = cli("run", "hello")
    assert said.code == 1
    assert (
        ".foldline.toml: compaction.mode cannot be 'sometimes'. Allowed: auto"
        in said.err
    )


def test_times_at_the_edges_of_the_calendar_keep_no_command_from_its_work(
    cli: CommandLine,
) -> None:
    folder = cli.keep(
        history().turn("hello there", "Done").entries, "20260101-000000-aaaaaa"
    )
    events = folder / "events.jsonl"
    text = re.sub(
        r'"created_at":"[^"]*"',
        '"created_at":"0001-01-01T00:00:00+14:00"',
        events.read_text(),
    )
    text = re.sub(
        r'("(?:user|assistant)","index":\d)',
        r'\1,"at":"9999-12-31T23:59:00-14:00"',
        text,
    )
    assert text.count("9999-12-31") == 2
    events.write_text(text)
    exports = (
        ("export", "aaaaaa", "--to", form) for form in ("html", "markdown", "openai")
    )
    for command in (("sessions",), ("search", "hello"), ("doctor", "aaaaaa"), *exports):
        said = cli(*command)
        assert (said.code, INTERNAL_ERROR in said.err) == (0, False), said.err


def test_a_count_beyond_all_windows_keeps_no_command_from_its_work(
    cli: CommandLine,
) -> None:
    folder = cli.keep(
        history()
        .user("hello there")
        .assistant("Done", usage=Usage(input=7777, output=1))
        .entries,
        "20260101-000000-aaaaaa",
    )
    events = folder / "events.jsonl"
    events.write_text(events.read_text().replace("7777", "1" + "0" * 400))
    for command in (["sessions"], ["view", "aaaaaa"], ["history", "aaaaaa"]):
        said = cli(*command)
        assert (said.code, INTERNAL_ERROR in said.err) == (0, False), said.err
