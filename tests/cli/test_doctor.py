"""`foldline doctor`: one line a check, an exit code to build on, repairs only where they were asked for."""

import json
from pathlib import Path

import pytest

from foldline.agent.sandbox import Engine
from foldline.cli import doctor_checks
from foldline.history import Session
from foldline.llm.providers import PROVIDERS, Provider
from support.damaged import everything_in, kept_session
from support.front_door import FrontDoor
from support.history import history
from support.server import running_server
from support.trusting import bring


def hurt_session(door: FrontDoor) -> Path:
    events = kept_session(door.home)
    lines = events.read_bytes().split(b"\n")
    lines[4] = lines[4][:50]
    events.write_bytes(b"\n".join(lines))
    return events


def checks(report: dict[str, object]) -> dict[str, str]:
    """The mark of each check, by its name."""
    listed = report["checks"]
    assert isinstance(listed, list)
    return {check["name"]: check["mark"] for check in listed}


# --- a session ---------------------------------------------------------------------------------------


def test_a_whole_session_is_well_and_exits_0(door: FrontDoor) -> None:
    kept_session(door.home)
    said = door("doctor", "abc123")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("abc123: all is well\n✓ ok    header ")
    assert "bad" not in said.out


def test_damage_exits_1_says_what_a_repair_would_do_and_does_nothing(door: FrontDoor) -> None:
    events = hurt_session(door)
    before = everything_in(door.home)
    said = door("doctor", "abc123")
    assert said.code == 1
    assert "✗ bad   records     9 whole, " in said.out
    assert "1 damaged: line 5 is not whole JSON → `--repair` sets it right" in said.out
    assert "With `--repair`, this would be done:\n  · 1 damaged record left out (line 5)\n" in said.out
    assert everything_in(door.home) == before
    assert events.is_file()


def test_a_repair_says_what_it_did_keeps_the_file_as_it_was_and_finds_nothing_again(door: FrontDoor) -> None:
    events = hurt_session(door)
    hurt = events.read_bytes()
    said = door("doctor", events.parent, "--repair")
    assert said.code == 0
    assert "repaired:\n  · 1 damaged record left out (line 5)\n" in said.out
    assert "--repair" not in said.out
    [kept] = events.parent.glob("*before-repair*")
    assert kept.read_bytes() == hurt
    before = everything_in(door.home)
    [again] = door("doctor", "abc123", "--repair", "--json").json["reports"]
    assert again["done"] == []
    assert everything_in(door.home) == before
    assert door("view", "abc123").code == 0


def test_a_session_that_is_being_written_to_is_looked_at_and_not_repaired(door: FrontDoor) -> None:
    events = hurt_session(door)
    writer = Session.open(events)
    writer.claim()
    before = events.read_bytes()
    said = door("doctor", "abc123", "--repair")
    writer.close()
    assert said.code == 1
    assert "✗ bad   records" in said.out
    assert "nothing was done: The session 20260102-030405-abc123 is being written" in said.out
    assert events.read_bytes() == before


def test_json_holds_every_check_with_all_its_details(door: FrontDoor) -> None:
    events = hurt_session(door)
    answer = door("doctor", "abc123", "--json").json
    [report] = answer["reports"]
    assert (answer["ok"], report["ok"], report["format"], report["path"]) == (
        False,
        False,
        "foldline",
        str(events),
    )
    [records] = [check for check in report["checks"] if check["name"] == "records"]
    assert (records["mark"], records["details"]) == ("bad", ["line 5 is not whole JSON"])
    assert len(report["repairs"]) == 2


def test_one_of_several_sessions_that_is_not_there_fails_by_itself(door: FrontDoor) -> None:
    kept_session(door.home)
    said = door("doctor", "abc123", "nowhere", "--json")
    assert said.code == 1
    assert [report["ok"] for report in said.json["reports"]] == [True, False]


def test_a_session_that_lost_its_header_is_found_by_its_id_and_opens_after_the_repair(
    door: FrontDoor,
) -> None:
    events = kept_session(door.home)
    events.write_bytes(events.read_bytes().split(b"\n", 1)[1])
    assert door("history", "abc123").code == 1
    assert door("doctor", "abc123").code == 1
    assert door("doctor", "abc123", "--repair").code == 0
    assert len(door("history", "abc123", "--json").lines) == 10


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("chat.json", json.dumps([{"role": "user", "content": "hello"}]), 0),
        (
            "events.jsonl",
            '{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n',
            0,
        ),
        ("events.jsonl", "notes to myself\n" * 20, 1),
        ("events.jsonl", "", 1),
    ],
)
def test_a_file_that_is_not_ours_is_looked_at_and_never_repaired(
    door: FrontDoor, name: str, content: str, code: int
) -> None:
    file = door.cwd / name
    file.write_text(content)
    assert door("doctor", file).code == code
    assert door("doctor", file, "--repair").code == code
    assert everything_in(door.cwd) == {name: content.encode()}


# --- this installation ---------------------------------------------------------------------------------


def test_without_a_source_the_installation_is_looked_at_and_nothing_is_made(door: FrontDoor) -> None:
    said = door("doctor", "--json")
    assert said.code == 0
    [report] = said.json["reports"]
    found = checks(report)
    assert {
        "foldline",
        "libraries",
        "terminal",
        "git",
        "settings",
        "variables",
        "model",
        "data",
    } <= found.keys()
    assert "bad" not in found.values()
    assert not door.home.exists()


@pytest.mark.parametrize("provider", [each for each in PROVIDERS.values() if each.key_env])
def test_a_key_is_named_and_never_shown(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    monkeypatch.setenv("FOLDLINE_PROVIDER", provider.name)
    monkeypatch.setenv(provider.key_env, "sk-very-secret-0123456789")
    said = door("doctor")
    assert (
        f"{provider.title} at {provider.base_url}, named by FOLDLINE_PROVIDER, key from {provider.key_env}"
        in said.out
    )
    assert "very-secret" not in said.out + said.err


def test_a_provider_whose_key_is_missing_is_one_bad_line(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_PROVIDER", "groq")
    [line] = [line for line in door("doctor").out.splitlines() if line.startswith("✗ bad")]
    assert "Groq needs a key: set GROQ_API_KEY" in line


def test_a_misspelt_variable_is_named_with_what_was_meant(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_MODLE", "kimi-k2")
    monkeypatch.setenv("FOLDLINE_CONTEXT_WINDOW", "32k")
    said = door("doctor")
    assert said.code == 0
    [line] = [line for line in said.out.splitlines() if "means nothing to Foldline" in line]
    assert "FOLDLINE_MODLE" in line and "did you mean FOLDLINE_MODEL?" in line


def test_a_wrong_setting_is_one_bad_line_with_its_file(door: FrontDoor) -> None:
    bring(door.cwd / ".foldline.toml", "[compaction]\nmode = 'never'\n")
    said = door("doctor")
    assert said.code == 1
    [line] = [line for line in said.out.splitlines() if line.startswith("✗ bad")]
    assert "settings" in line
    assert ".foldline.toml" in line


def test_a_model_is_asked_only_where_that_is_wished(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(model="some-model") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("FOLDLINE_MODEL", "some-model")
        [report] = door("doctor", "--json").json["reports"]
        assert (checks(report)["model"], len(server.requests())) == ("ok", 0)
        [report] = door("doctor", "--network", "--json").json["reports"]
        assert (checks(report)["model"], len(server.requests())) == ("ok", 1)
    said = door("doctor", "--network")
    assert said.code == 1
    assert "✗ bad   model" in said.out


def test_sessions_that_are_hurt_or_left_untidy_are_named_and_tidied_up_on_request(door: FrontDoor) -> None:
    kept_session(door.home, session_id="20260102-030405-whole1")
    hurt_session(door)
    lost = kept_session(door.home, session_id="20260102-030405-lost11")
    lost.write_bytes(b"\0" * 300)
    (lost.parent / ".foldline-99.tmp").touch()
    said = door("doctor")
    assert said.code == 1
    assert "✗ bad   sessions   of 3 sessions, not to be opened: lost11 → `foldline doctor lost11`" in said.out
    assert "! warn  sessions   of 3 sessions, with damage: abc123" in said.out
    assert "never finished: lost11" in said.out
    assert "lost11: .foldline-99.tmp thrown away" in door("doctor", "--repair").out
    assert "never finished" not in door("doctor").out
    assert lost.read_bytes() == b"\0" * 300


def test_a_deletion_that_was_cut_short_is_finished_on_request(door: FrontDoor) -> None:
    folder = kept_session(door.home).parent
    left = folder.rename(folder.with_name(f".{folder.name}.deleted"))
    assert "deleted in part: 20260102-030405-abc123" in door("doctor").out
    assert left.exists()
    door("doctor", "--repair")
    assert not left.exists()


def test_a_data_folder_that_cannot_be_written_to_is_bad(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (door.cwd / "file").write_text("in the way")
    monkeypatch.setenv("FOLDLINE_HOME", str(door.cwd / "file" / "home"))
    said = door("doctor")
    assert said.code == 1
    assert "cannot be written to" in said.out


def test_nothing_foreign_acts_on_the_terminal(door: FrontDoor) -> None:
    events = door.keep(history().user("hi").entries, session_id="20260102-030405-esc111") / "events.jsonl"
    with events.open("ab") as file:
        file.write(b'{"type":"\\u001b[2J","index":9}\n')
    said = door("doctor", "esc111")
    assert "\x1b" not in said.out
    assert "1 ␛[2J" in said.out


def test_the_sandbox_is_named_or_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "engine_here", lambda: Engine("bubblewrap"))
    assert [each.mark for each in doctor_checks._tools() if each.name == "sandbox"] == ["ok"]
    monkeypatch.setattr(doctor_checks, "engine_here", lambda: Engine("", "bubblewrap is not installed."))
    (found,) = (each for each in doctor_checks._tools() if each.name == "sandbox")
    assert (found.mark, found.found, found.advice) == ("warn", "none", "bubblewrap is not installed.")
