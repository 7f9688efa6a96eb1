"""`foldline sessions` and `foldline config`."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from foldline.history.meta import cells
from foldline.protocol import Usage
from support.front_door import FrontDoor
from support.history import history
from support.trusting import bring


def test_sessions_json_is_a_list_with_the_fields_programs_rely_on(door: FrontDoor) -> None:
    door.keep(history().turn("Mend the login", "Done").entries, "20260101-000000-aaaaaa")
    [row] = door("sessions", "--json").json
    assert {"id", "title", "cwd", "entries", "tokens", "updated_at", "model"} <= row.keys()
    assert (row["id"], row["title"], row["entries"]) == ("20260101-000000-aaaaaa", "Mend the login", 2)
    assert row["cwd"] == str(door.cwd)


def test_sessions_of_other_folders_are_shown_with_all_only(door: FrontDoor, tmp_path: Path) -> None:
    door.keep(history().turn("here", "ok").entries)
    door.keep(history().turn("there", "ok").entries, cwd=tmp_path / "elsewhere")
    assert [row["title"] for row in door("sessions", "--json").json] == ["here"]
    assert {row["title"] for row in door("sessions", "--all", "--json").json} == {"here", "there"}
    assert "elsewhere" in door("sessions", "--all").out


def test_no_sessions_is_said_and_is_no_failure(door: FrontDoor) -> None:
    said = door("sessions")
    assert (said.code, said.out) == (0, "")
    assert "no sessions in this folder" in said.err
    assert door("sessions", "--json").json == []


def test_sessions_json_says_what_else_is_known(door: FrontDoor) -> None:
    door.keep(history().turn("Mend the login", "Done").turn("And the tests", "Done").entries)
    [row] = door("sessions", "--json").json
    assert (row["first_prompt"], row["last_prompt"]) == ("Mend the login", "And the tests")
    assert row["size"] == Path(row["path"]).stat().st_size
    assert row["created_at"] <= row["updated_at"]
    assert (row["archived"], row["note"], row["tie"], row["moved_from"]) == (False, "", "path", "")


def test_a_limit_leaves_the_older_ones_out_and_says_so(door: FrontDoor) -> None:
    for number in range(3):
        door.keep(history().turn(f"prompt {number}", "ok").entries)
    said = door("sessions", "--limit", "2")
    assert ("prompt 2" in said.out, "prompt 0" in said.out) == (True, False)
    assert "1 older one was left out" in said.err
    assert len(door("sessions", "--limit", "1", "--json").json) == 1
    assert door("sessions", "--limit", "0").code == 2


def test_sessions_of_a_folder_that_was_moved_here_say_where_they_were_held(door: FrontDoor) -> None:
    gone = door.cwd.with_name("gone") / door.cwd.name
    door.keep(history().turn("before", "ok").entries, cwd=gone)
    said = door("sessions")
    assert "…/gone/work" in said.out
    assert f"{gone} is gone, and this folder has its name" in said.err
    [row] = door("sessions", "--json").json
    assert (row["cwd"], row["moved_from"], row["tie"]) == (str(gone), str(gone), "name")


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("options", [(), ("--all",)])
def test_no_line_of_a_list_is_longer_than_the_terminal(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, columns: int, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    deep = door.cwd.with_name("gone") / ("a" * 60) / door.cwd.name
    usage = Usage(input=1_234_567, output=10)
    entries = history().user("长" * 80).assistant("x", model="vendor/" + "m" * 60, usage=usage).entries
    door.keep([*entries, *history().gap(9).user("and \x1b]0;title\x07 then" * 20).entries])
    door.keep(entries, cwd=deep)
    lines = door("sessions", *options).out.splitlines()
    assert len(lines) == 3
    assert max(map(cells, lines)) <= columns
    assert ("last prompt" in lines[0]) == (columns == 200)


def test_an_unreadable_session_is_listed_with_what_is_wrong(door: FrontDoor) -> None:
    folder = door.keep(history().turn("fine", "ok").entries)
    broken = folder.with_name("20260101-000000-broken")
    broken.mkdir()
    (broken / "events.jsonl").write_text("not a session\n")
    said = door("sessions")
    assert said.code == 0
    assert "does not begin like" in said.out
    assert "fine" in said.out


def test_a_damaged_session_is_listed_by_its_title_and_with_what_is_wrong(door: FrontDoor) -> None:
    file = door.keep(history().turn("Mend the login", "Done").entries) / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"user","ind')
    assert "Mend the login: 1 damaged record (line 4) was left out" in door("sessions").out


def test_config_shows_each_value_and_who_set_it(door: FrontDoor) -> None:
    door.home.mkdir()
    (door.home / "config.toml").write_text('theme = "dusk"\n[compaction]\nkeep_recent_tokens = "20%"\n')
    said = door("config", "--json").json
    assert said["settings"]["theme"] == {"value": "dusk", "origin": str(door.home / "config.toml")}
    assert said["settings"]["compaction.keep_recent_tokens"]["value"] == "20%"
    assert said["settings"]["compaction.mode"] == {"value": "auto", "origin": "default"}
    assert said["files"] == [str(door.home / "config.toml")]
    assert "compaction.mode" in door("config").out


def test_the_schema_of_the_settings_takes_what_the_program_takes(door: FrontDoor) -> None:
    check = Draft202012Validator(door("config", "--schema").json).is_valid
    assert check(
        tomllib.loads(
            """theme = "dusk"
            fallback = ["glm-5@openrouter"]
            compaction = { mode = "ask", threshold = "70%", keep_recent_tokens = 4096 }
            sandbox = { shell = false, hosts = ["pypi.example"] }
            models."qwen:14b".window = "32k"
            mcp.files = { command = "mcp-files", env = { TOKEN = "t" } }
            keys.chat.send = ["ctrl+d"]
            """
        )
    )
    for wrong in ("theem = 'dusk'", "[compaction]\nmode = 'never'", "[limits]\nturn_steps = -1"):
        assert not check(tomllib.loads(wrong)), wrong


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("wizardry", "There is no strategy wizardry; there are adaptive, summary, simple,"),
        ("nowhere:Thing", "The strategy nowhere:Thing cannot be loaded: there is no module nowhere."),
        ("foldline.context.cut:Cut", "The strategy foldline.context.cut:Cut has no method compact(ctx)"),
    ],
)
@pytest.mark.parametrize("command", ["config", "doctor"])
def test_a_strategy_that_cannot_be_loaded_is_refused_where_settings_are_looked_at(
    door: FrontDoor, command: str, strategy: str, says: str
) -> None:
    door.home.mkdir()
    (door.home / "config.toml").write_text(f'[compaction]\nstrategy = "{strategy}"\n')
    said = door(command)
    assert said.code == 1
    assert f"{door.home / 'config.toml'}: compaction.strategy: {says}" in (said.out + said.err).replace(
        "\n", ""
    )


def test_config_says_who_is_asked_and_where_the_key_came_from(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert door("config", "--json").json["asked"] is None
    assert "the embedded model" in door("config").err
    monkeypatch.setenv("FOLDLINE_PROVIDER", "deepseek")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-planted-81f3")
    assert door("config", "--json").json["asked"] == {
        "provider": "deepseek",
        "title": "DeepSeek",
        "url": "https://api.deepseek.com/v1",
        "named_by": "FOLDLINE_PROVIDER",
        "key_from": "DEEPSEEK_API_KEY",
    }
    said = door("config")
    assert "named by FOLDLINE_PROVIDER, key from DEEPSEEK_API_KEY" in said.err
    assert "sk-planted" not in said.out + said.err
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-planted 81f3")
    said = door("config")
    assert "DEEPSEEK_API_KEY holds blanks" in said.err
    assert "sk-planted" not in said.out + said.err


def test_config_shows_yes_and_no_as_a_settings_file_says_them(door: FrontDoor) -> None:
    assert re.search(r"context\.dmail +false ", door("config").out)
    assert door("config", "--json").json["settings"]["context.dmail"]["value"] is False


def test_config_shows_what_is_set_for_one_model(door: FrontDoor) -> None:
    bring(door.cwd / ".foldline.toml", '[models."vendor/m-4.1:8b"]\nthreshold = "60%"\n')
    said = door("config", "--json").json["settings"]
    key = 'models."vendor/m-4.1:8b".threshold'
    assert said[key] == {"value": "60%", "origin": str(door.cwd / ".foldline.toml")}
    assert said["compaction.threshold"] == {"value": None, "origin": "default"}
    assert key in door("config").out


def test_a_bad_key_names_file_key_and_what_there_is(door: FrontDoor) -> None:
    bring(door.cwd / ".foldline.toml", "[compaction]\nmodus = 'auto'\n")
    said = door("config")
    assert (said.code, said.out) == (1, "")
    assert ".foldline.toml" in said.err
    assert "compaction.modus" in said.err
    assert "did you mean compaction.mode?" in said.err


def test_a_bad_value_names_file_key_and_what_is_allowed(door: FrontDoor) -> None:
    bring(door.cwd / ".foldline.toml", "[compaction]\nmode = 'sometimes'\n")
    said = door("run", "hello")
    assert said.code == 1
    assert ".foldline.toml: compaction.mode cannot be 'sometimes'; allowed: auto" in said.err


def test_times_at_the_edges_of_the_calendar_keep_no_command_from_its_work(door: FrontDoor) -> None:
    folder = door.keep(history().turn("hello there", "Done").entries, "20260101-000000-aaaaaa")
    events = folder / "events.jsonl"
    text = re.sub(r'"created_at":"[^"]*"', '"created_at":"0001-01-01T00:00:00+14:00"', events.read_text())
    text = re.sub(r'("(?:user|assistant)","index":\d)', r'\1,"at":"9999-12-31T23:59:00-14:00"', text)
    assert text.count("9999-12-31") == 2
    events.write_text(text)
    exports = (("export", "aaaaaa", "--to", form) for form in ("html", "markdown", "openai"))
    for command in (("sessions",), ("search", "hello"), ("doctor", "aaaaaa"), *exports):
        said = door(*command)
        assert (said.code, "error in Foldline" in said.err) == (0, False), said.err


def test_a_count_beyond_all_windows_keeps_no_command_from_its_work(door: FrontDoor) -> None:
    folder = door.keep(
        history().user("hello there").assistant("Done", usage=Usage(input=7777, output=1)).entries,
        "20260101-000000-aaaaaa",
    )
    events = folder / "events.jsonl"
    events.write_text(events.read_text().replace("7777", "1" + "0" * 400))
    for command in (["sessions"], ["view", "aaaaaa"], ["history", "aaaaaa"]):
        said = door(*command)
        assert (said.code, "error in Foldline" in said.err) == (0, False), said.err
