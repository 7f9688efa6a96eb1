"""`foldline sessions --from AGENT`, and ids of other agents' sessions wherever one is asked for."""

from pathlib import Path

import pytest

from foldline.cli.foreign_sessions import (
    ARCHIVED_AND_FROM,
    COMPRESSED,
    HOW_TO_USE,
    NOT_FOUND,
    ONLY_ELSEWHERE,
)
from foldline.formats.homes import AGENTS, NO_SUCH_SESSION
from foldline.history import Session
from support.agent_homes import AgentHomes, claude_prompt
from support.claude_code_rows import piece, text
from support.codex_rows import prompt
from support.command_line import CommandLine
from support.opencode_store import export_document, store_in_database


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHomes:
    return AgentHomes(tmp_path / "user", monkeypatch)


def test_the_sessions_of_this_folder_are_listed_and_how_to_go_on_is_said(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.claude_code(
        {**claude_prompt("mend the clock"), "cwd": str(cli.cwd)}, name="aaaabbbb-1"
    )
    homes.claude_code(claude_prompt("elsewhere"), name="ccccdddd-2")
    listed = cli("sessions", "--from", "claude-code")
    assert listed.code == 0
    assert listed.out.splitlines()[1].startswith("aaaabbbb  ")
    assert "mend the clock" in listed.out
    assert "elsewhere" not in listed.out
    last = listed.err.splitlines()[-1]
    assert HOW_TO_USE.format(ref="claude-code:ID") in last


def test_all_lists_every_folder_and_from_all_every_agent(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.claude_code({**claude_prompt("one"), "cwd": "/work/one"})
    homes.codex(*prompt("two"))
    everywhere = cli("sessions", "--from", "claude-code", "--all").out
    assert "/work/one" in everywhere
    assert "two" not in everywhere
    rows = cli("sessions", "--from", "all", "--all").out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["codex", "claude-code"]


def test_json_is_a_list_with_the_fields_programs_rely_on(
    cli: CommandLine, homes: AgentHomes
) -> None:
    path = homes.claude_code(
        claude_prompt("one"), piece("m1", text("hi"), model="claude-x")
    )
    homes.codex(*prompt("two"))
    said_ = cli("sessions", "--from", "all", "--all", "--json")
    assert [row["agent"] for row in said_.json] == ["codex", "claude-code"]
    assert said_.err == ""
    row = said_.json[1]
    assert row.pop("updated_at").startswith("2027-01-15T")
    assert row == {
        "id": path.stem, "agent": "claude-code", "title": "one", "cwd": "/x", "path": str(path),
        "size": path.stat().st_size, "first_prompt": "one", "model": "claude-x", "note": "",
    }  # fmt: skip


def test_limit_lists_the_newest_only(cli: CommandLine, homes: AgentHomes) -> None:
    for name in ("one", "two", "three"):
        homes.claude_code(claude_prompt(name))
    found = cli(
        "sessions", "--from", "claude-code", "--all", "--limit", "2", "--json"
    ).json
    assert [row["title"] for row in found] == ["three", "two"]


def test_an_unknown_agent_is_wrong_usage_and_the_known_ones_are_named(
    cli: CommandLine, homes: AgentHomes
) -> None:
    said_ = cli("sessions", "--from", "cline")
    assert (said_.code, said_.out) == (2, "")
    assert "'cline'" in said_.err
    assert (
        "claude-code, codex, pi, kimi-cli, klaude-code, opencode, gemini-cli, qwen-code, copilot, "
        "mistral-vibe, or all" in said_.err
    )


def test_the_help_names_every_agent(
    cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli("sessions", "--help")
    shown = capsys.readouterr().out.replace("\n", " ")
    assert [agent for agent in AGENTS if agent not in shown] == []


def test_archived_is_for_our_own_sessions(cli: CommandLine, homes: AgentHomes) -> None:
    said_ = cli("sessions", "--from", "codex", "--archived")
    assert (said_.code, said_.out) == (2, "")
    assert ARCHIVED_AND_FROM in said_.err


def test_without_sessions_it_is_said_where_they_were_looked_for(
    cli: CommandLine, homes: AgentHomes
) -> None:
    said_ = cli("sessions", "--from", "codex")
    assert (said_.code, said_.out) == (0, "")
    folders = "~/.codex/sessions or ~/.codex/archived_sessions"
    assert NOT_FOUND.format(agents="Codex", folders=folders) in said_.err
    assert cli("sessions", "--from", "codex", "--json").json == []


def test_without_sessions_in_this_folder_it_is_said_that_others_have_some(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.codex(*prompt("two"))
    assert (
        ONLY_ELSEWHERE.format(agents="Codex") in cli("sessions", "--from", "codex").err
    )


def test_a_session_of_opencodes_database_is_listed_and_opened_by_its_id(
    cli: CommandLine, homes: AgentHomes
) -> None:
    said_ = cli("sessions", "--from", "opencode")
    folders = "~/.local/share/opencode"
    assert NOT_FOUND.format(agents="opencode", folders=folders) in said_.err
    path = homes.home / ".local/share/opencode/opencode.db"
    store_in_database(path, export_document()).close()
    listed = cli("sessions", "--from", "opencode", "--all")
    assert "The clock" in listed.out
    shown = cli("view", "opencode:ses_1", "--json").json
    assert [message["role"] for message in shown["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert cli("view", path / "ses_1", "--json").json["messages"] == shown["messages"]
    assert cli("import", "opencode:ses_1").code == 0
    assert cli("doctor", path, path / "ses_1", "opencode:ses_1").code == 0


def test_sessions_that_codex_has_compressed_are_named_with_what_to_do(
    cli: CommandLine, homes: AgentHomes
) -> None:
    there = homes.codex(*prompt("two"))
    homes.write(f".codex/sessions/2026/01/02/{there.name}.zst", b"the same, compressed")
    assert "ompressed" not in cli("sessions", "--from", "codex", "--all").err
    homes.write(".codex/archived_sessions/rollout-b.jsonl.zst", b"another")
    said_ = cli("sessions", "--from", "codex", "--all")
    assert "two" in said_.out
    example = "~/.codex/archived_sessions/rollout-b.jsonl.zst"
    count = "1 compressed session"
    sentence = COMPRESSED.format(sessions=count, agent="Codex", example=example)
    assert sentence in said_.err


def test_a_foreign_file_is_a_row_with_what_is_wrong(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.write(".claude/projects/-x/odd.jsonl", b"\x89PNG\r\n")
    homes.claude_code(claude_prompt("fine"))
    said_ = cli("sessions", "--from", "claude-code", "--all")
    assert said_.code == 0
    assert "its file has no Claude Code records" in said_.out
    assert "fine" in said_.out


def test_nothing_foreign_acts_on_the_terminal(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.claude_code(
        {**claude_prompt("\x1b]0;evil\x07hello\u202e"), "cwd": "/x\x1b[31m"},
        name="a\x1b[31m",
    )
    said_ = cli("sessions", "--from", "claude-code", "--all")
    assert "hello" in said_.out
    assert not set("\x1b\x07\u202e") & set(said_.out + said_.err)


def test_ids_are_as_long_as_it_takes_to_tell_them_apart(
    cli: CommandLine, homes: AgentHomes
) -> None:
    homes.claude_code(claude_prompt("one"), name="aaaabbbb-1111")
    homes.claude_code(claude_prompt("two"), name="aaaabbbb-1222")
    rows = cli("sessions", "--from", "claude-code", "--all").out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["aaaabbbb-12", "aaaabbbb-11"]


def test_what_is_listed_can_be_looked_at_and_imported_by_its_id(
    cli: CommandLine, homes: AgentHomes
) -> None:
    path = homes.claude_code(
        {**claude_prompt("mend the clock"), "cwd": str(cli.cwd)}, name="aaaabbbb-1"
    )
    before = path.read_bytes()
    assert "mend the clock" in cli("view", "claude-code:aaaa").out
    made = cli("import", "claude-code:aaaa", "--json").json
    assert (made["format"], made["cwd"]) == ("claude-code", str(cli.cwd))
    assert (
        "mend the clock"
        in Session.open(Path(made["path"])).projection.view[0].message.text
    )
    assert path.read_bytes() == before


def test_an_id_that_names_nothing_says_how_to_list(
    cli: CommandLine, homes: AgentHomes
) -> None:
    said_ = cli("import", "codex:zzz")
    assert (said_.code, said_.err.count("\n")) == (1, 1)
    assert NO_SUCH_SESSION.format(ref="codex:zzz", agent="codex") in said_.err


def test_a_session_of_kimi_is_imported_into_the_folder_it_is_listed_with(
    cli: CommandLine, homes: AgentHomes, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    homes.kimi(
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "mend it"},
        cwd=str(project),
    )
    assert cli("sessions", "--from", "kimi-cli", "--all", "--json").json[0][
        "cwd"
    ] == str(project)
    assert cli("import", "kimi-cli:k1", "--json").json["cwd"] == str(project)
