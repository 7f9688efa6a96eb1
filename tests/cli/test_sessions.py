"""`foldline sessions` and `foldline config`."""

from pathlib import Path

from support.front_door import FrontDoor
from support.history import history


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


def test_an_unreadable_session_is_listed_with_what_is_wrong(door: FrontDoor) -> None:
    folder = door.keep(history().turn("fine", "ok").entries)
    broken = folder.with_name("20260101-000000-broken")
    broken.mkdir()
    (broken / "events.jsonl").write_text("not a session\n")
    said = door("sessions")
    assert said.code == 0
    assert "does not begin like" in said.out
    assert "fine" in said.out


def test_config_shows_each_value_and_who_set_it(door: FrontDoor) -> None:
    door.home.mkdir()
    (door.home / "config.toml").write_text('theme = "dusk"\n[compaction]\nkeep_recent_tokens = "20%"\n')
    said = door("config", "--json").json
    assert said["settings"]["theme"] == {"value": "dusk", "origin": str(door.home / "config.toml")}
    assert said["settings"]["compaction.keep_recent_tokens"]["value"] == "20%"
    assert said["settings"]["compaction.mode"] == {"value": "auto", "origin": "default"}
    assert said["files"] == [str(door.home / "config.toml")]
    assert "compaction.mode" in door("config").out


def test_config_shows_what_is_set_for_one_model(door: FrontDoor) -> None:
    (door.cwd / ".foldline.toml").write_text('[models."vendor/m-4.1:8b"]\nthreshold = "60%"\n')
    said = door("config", "--json").json["settings"]
    key = 'models."vendor/m-4.1:8b".threshold'
    assert said[key] == {"value": "60%", "origin": str(door.cwd / ".foldline.toml")}
    assert said["compaction.threshold"] == {"value": None, "origin": "default"}
    assert key in door("config").out


def test_a_bad_key_names_file_key_and_what_there_is(door: FrontDoor) -> None:
    (door.cwd / ".foldline.toml").write_text("[compaction]\nmodus = 'auto'\n")
    said = door("config")
    assert (said.code, said.out) == (1, "")
    assert ".foldline.toml" in said.err
    assert "compaction.modus" in said.err
    assert "did you mean compaction.mode?" in said.err


def test_a_bad_value_names_file_key_and_what_is_allowed(door: FrontDoor) -> None:
    (door.cwd / ".foldline.toml").write_text("[compaction]\nmode = 'sometimes'\n")
    said = door("run", "hello")
    assert said.code == 1
    assert ".foldline.toml: compaction.mode cannot be 'sometimes'; allowed: auto" in said.err
