"""`foldline doctor`: one line a check, an exit code to build on, repairs only where they were asked for."""

import json
from pathlib import Path

import pytest

from foldline.agent.permissions.sandbox_engine import Engine
from foldline.cli import doctor_checks
from foldline.cli.doctor import NO_PROBLEMS, POSSIBLE_REPAIR
from foldline.cli.doctor_checks import (
    CANNOT_OPEN,
    PARTLY_DELETED,
    UNFINISHED,
    UNKNOWN_VARIABLE,
)
from foldline.history import Session
from foldline.history.doctor import NOT_JSON, RECORDS_REPAIR
from foldline.history.repair import DELETED
from foldline.llm.catalog import NEEDS_KEY
from foldline.llm.providers import PROVIDERS, Provider
from support.command_line import CommandLine
from support.damage import everything_in, write_session
from support.history import history
from support.sentences import says
from support.server import running_server
from support.trust import bring


def hurt_session(cli: CommandLine) -> Path:
    events = write_session(cli.home)
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


def test_a_whole_session_is_well_and_exits_0(cli: CommandLine) -> None:
    write_session(cli.home)
    said = cli("doctor", "abc123")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"abc123: {NO_PROBLEMS}\n✓ ok    header ")
    assert "bad" not in said.out


def test_damage_exits_1_says_what_a_repair_would_do_and_does_nothing(
    cli: CommandLine,
) -> None:
    events = hurt_session(cli)
    before = everything_in(cli.home)
    said = cli("doctor", "abc123")
    assert said.code == 1
    assert "✗ bad   records     9 intact, " in said.out
    assert f"1 damaged: line 5 {NOT_JSON} → {RECORDS_REPAIR}" in said.out
    assert (
        f"{POSSIBLE_REPAIR}\n  · 1 damaged record (line 5) was left out\n" in said.out
    )
    assert everything_in(cli.home) == before
    assert events.is_file()


def test_a_repair_says_what_it_did_keeps_the_file_as_it_was_and_finds_nothing_again(
    cli: CommandLine,
) -> None:
    events = hurt_session(cli)
    hurt = events.read_bytes()
    said = cli("doctor", events.parent, "--repair")
    assert said.code == 0
    assert "repaired:\n  · 1 damaged record (line 5) was left out\n" in said.out
    assert "--repair" not in said.out
    [kept] = events.parent.glob("*before-repair*")
    assert kept.read_bytes() == hurt
    before = everything_in(cli.home)
    [again] = cli("doctor", "abc123", "--repair", "--json").json["reports"]
    assert again["done"] == []
    assert everything_in(cli.home) == before
    assert cli("view", "abc123").code == 0


def test_a_session_that_is_being_written_to_is_looked_at_and_not_repaired(
    cli: CommandLine,
) -> None:
    events = hurt_session(cli)
    writer = Session.open(events)
    writer.claim()
    before = events.read_bytes()
    said = cli("doctor", "abc123", "--repair")
    writer.close()
    assert said.code == 1
    assert "✗ bad   records" in said.out
    assert (
        "nothing was done: The session 20260102-030405-abc123 is being written"
        in said.out
    )
    assert events.read_bytes() == before


def test_json_holds_every_check_with_all_its_details(cli: CommandLine) -> None:
    events = hurt_session(cli)
    answer = cli("doctor", "abc123", "--json").json
    [report] = answer["reports"]
    assert (answer["ok"], report["ok"], report["format"], report["path"]) == (
        False,
        False,
        "foldline",
        str(events),
    )
    [records] = [check for check in report["checks"] if check["name"] == "records"]
    assert (records["mark"], records["details"]) == (
        "bad",
        [f"line 5 {NOT_JSON}"],
    )
    assert len(report["repairs"]) == 2


def test_one_of_several_sessions_that_is_not_there_fails_by_itself(
    cli: CommandLine,
) -> None:
    write_session(cli.home)
    said = cli("doctor", "abc123", "nowhere", "--json")
    assert said.code == 1
    assert [report["ok"] for report in said.json["reports"]] == [True, False]


def test_a_session_that_lost_its_header_is_found_by_its_id_and_opens_after_the_repair(
    cli: CommandLine,
) -> None:
    events = write_session(cli.home)
    events.write_bytes(events.read_bytes().split(b"\n", 1)[1])
    assert cli("history", "abc123").code == 1
    assert cli("doctor", "abc123").code == 1
    assert cli("doctor", "abc123", "--repair").code == 0
    assert len(cli("history", "abc123", "--json").lines) == 10


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
    cli: CommandLine, name: str, content: str, code: int
) -> None:
    file = cli.cwd / name
    file.write_text(content)
    assert cli("doctor", file).code == code
    assert cli("doctor", file, "--repair").code == code
    assert everything_in(cli.cwd) == {name: content.encode()}


# --- this installation ---------------------------------------------------------------------------------


def test_without_a_source_the_installation_is_looked_at_and_nothing_is_made(
    cli: CommandLine,
) -> None:
    said = cli("doctor", "--json")
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
    assert not cli.home.exists()


@pytest.mark.parametrize(
    "provider", [each for each in PROVIDERS.values() if each.key_env]
)
def test_a_key_is_named_and_never_shown(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, provider: Provider
) -> None:
    monkeypatch.setenv("FOLDLINE_PROVIDER", provider.name)
    monkeypatch.setenv(provider.key_env, "sk-very-secret-0123456789")
    said = cli("doctor")
    assert (
        f"{provider.title} at {provider.base_url}, set by FOLDLINE_PROVIDER, key from {provider.key_env}"
        in said.out
    )
    assert "very-secret" not in said.out + said.err


def test_a_provider_whose_key_is_missing_is_one_bad_line(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_PROVIDER", "groq")
    [line] = [
        line for line in cli("doctor").out.splitlines() if line.startswith("✗ bad")
    ]
    assert says(line, NEEDS_KEY, provider="Groq", name="GROQ_API_KEY")


def test_a_misspelt_variable_is_named_with_what_was_meant(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_MODLE", "kimi-k2")
    monkeypatch.setenv("FOLDLINE_CONTEXT_WINDOW", "32k")
    said = cli("doctor")
    assert said.code == 0
    [line] = [line for line in said.out.splitlines() if UNKNOWN_VARIABLE in line]
    assert "FOLDLINE_MODLE" in line and "did you mean FOLDLINE_MODEL?" in line


def test_a_wrong_setting_is_one_bad_line_with_its_file(cli: CommandLine) -> None:
    bring(cli.cwd / ".foldline.toml", "[compaction]\nmode = 'never'\n")
    said = cli("doctor")
    assert said.code == 1
    [line] = [line for line in said.out.splitlines() if line.startswith("✗ bad")]
    assert "settings" in line
    assert ".foldline.toml" in line


def test_a_model_is_asked_only_where_that_is_wished(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(model="some-model") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("FOLDLINE_MODEL", "some-model")
        [report] = cli("doctor", "--json").json["reports"]
        assert (checks(report)["model"], len(server.requests())) == ("ok", 0)
        [report] = cli("doctor", "--network", "--json").json["reports"]
        assert (checks(report)["model"], len(server.requests())) == ("ok", 1)
    said = cli("doctor", "--network")
    assert said.code == 1
    assert "✗ bad   model" in said.out


def test_sessions_that_are_hurt_or_left_untidy_are_named_and_tidied_up_on_request(
    cli: CommandLine,
) -> None:
    write_session(cli.home, session_id="20260102-030405-whole1")
    hurt_session(cli)
    lost = write_session(cli.home, session_id="20260102-030405-lost11")
    lost.write_bytes(b"\0" * 300)
    (lost.parent / ".foldline-99.tmp").touch()
    said = cli("doctor")
    assert said.code == 1
    assert f"1 of 3 sessions {CANNOT_OPEN}: lost11" in said.out
    assert "`foldline doctor lost11`" in said.out
    assert "1 of 3 sessions damaged: abc123" in said.out
    assert f"{UNFINISHED}: lost11" in said.out
    deleted = DELETED.format(name=".foldline-99.tmp")
    assert f"lost11: {deleted}" in cli("doctor", "--repair").out
    assert UNFINISHED not in cli("doctor").out
    assert lost.read_bytes() == b"\0" * 300


def test_a_deletion_that_was_cut_short_is_finished_on_request(cli: CommandLine) -> None:
    folder = write_session(cli.home).parent
    left = folder.rename(folder.with_name(f".{folder.name}.deleted"))
    assert f"{PARTLY_DELETED}: 20260102-030405-abc123" in cli("doctor").out
    assert left.exists()
    cli("doctor", "--repair")
    assert not left.exists()


def test_a_data_folder_that_cannot_be_written_to_is_bad(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.cwd / "file").write_text("in the way")
    monkeypatch.setenv("FOLDLINE_HOME", str(cli.cwd / "file" / "home"))
    said = cli("doctor")
    assert said.code == 1
    assert "cannot be written to" in said.out


def test_nothing_foreign_acts_on_the_terminal(cli: CommandLine) -> None:
    events = (
        cli.keep(history().user("hi").entries, session_id="20260102-030405-esc111")
        / "events.jsonl"
    )
    log = events.read_bytes().replace(b'"cwd":"', b'"cwd":"\\u001b[2J', 1)
    events.write_bytes(log)
    said = cli("doctor", "esc111")
    assert "\x1b" not in said.out
    assert "␛" in said.out


def test_the_sandbox_is_named_or_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_checks, "engine_here", lambda: Engine("bubblewrap"))
    assert [each.mark for each in doctor_checks._tools() if each.name == "sandbox"] == [
        "ok"
    ]
    monkeypatch.setattr(
        doctor_checks, "engine_here", lambda: Engine("", "bubblewrap is not installed.")
    )
    (found,) = (each for each in doctor_checks._tools() if each.name == "sandbox")
    assert (found.mark, found.found, found.advice) == (
        "warn",
        "none",
        "bubblewrap is not installed.",
    )
