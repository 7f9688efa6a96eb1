"""Commands and skills that lie on disk, without a screen: `run`, `--plain`, `doctor`."""

import io
from pathlib import Path

import pytest

from support.agent_homes import AgentHomes
from support.claude_code_rows import user
from support.codex_rows import META, prompt
from support.front_door import FrontDoor
from support.homes import hooks, put, usual_home, usual_project

NOBODY = "/fix-issue was left aside, as nobody has agreed to it"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    usual_home(tmp_path / "user")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_run_takes_a_command_of_the_users(door: FrontDoor, home: Path) -> None:
    (door.cwd / "notes.txt").write_text("remember the milk\n")
    put(home / ".codex/prompts/show.md", "read $1\n\nNothing else.")
    said = door("run", "/show notes.txt", "-m", "offline")
    assert said.code == 0 and "read notes.txt · 1 line" in said.err


def test_run_leaves_those_of_a_project_aside_unless_it_is_trusted(door: FrontDoor) -> None:
    usual_project(door.cwd)
    said = door("run", "/fix-issue 12", "-m", "offline")
    assert said.code == 1 and NOBODY in said.err
    assert ".claude/commands/fix-issue.md" in said.err
    assert door("run", "/fix-issue 12", "-m", "offline", "--trust").code == 0


def test_doctor_says_what_there_is_from_where_and_what_was_left_aside_and_why(
    door: FrontDoor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_project(door.cwd)
    put(home / ".claude/skills/odd/SKILL.md", "no head")
    put(home / ".claude/projects/y/1.jsonl", "")
    homes = AgentHomes(home, monkeypatch)
    homes.claude_code({**user("Mend the retry"), "cwd": str(door.cwd)})
    homes.codex(*prompt("Look around"), meta={**META, "payload": {**META["payload"], "cwd": str(door.cwd)}})
    put(
        door.cwd / ".mcp.json", '{"mcpServers": {"figma": {"command": "figma"}, "maps": {"command": "maps"}}}'
    )
    rows = [line.split("  ", 2) for line in door("doctor").out.splitlines()]
    found = {" ".join(row[-2:]).strip() for row in rows}
    said = "\n".join(found)
    for there in (
        "skill       pdf-forms, ~/.claude/skills/pdf-forms/SKILL.md",
        "skill       release-notes, ~/.agents/skills/release-notes/SKILL.md",
        "command     review, ~/.claude/commands/review.md",
        "command     frontend:component, ~/.claude/commands/frontend/component.md",
        "agent       reviewer, ~/.claude/agents/reviewer.md",
        "MCP         1 server of other agents in ~/.claude.json: tickets; `[mcp.NAME]` in config.toml",
        "MCP         1 server of other agents in ~/.codex/config.toml: docs;",
        "MCP         2 servers of other agents in .mcp.json: figma, maps;",
        "sessions    1 session of claude-code in this folder",
        "sessions    1 session of codex in this folder",
        "left aside  ~/.claude/skills/odd/SKILL.md was left aside: it does not begin with front matter",
        "left aside  .claude/commands/compact.md was left aside: /compact is a command of Foldline's own",
        "left aside  .claude/commands/fix-issue.md: 1 line of a command: “Fix issue #$1,",
        "left aside  CLAUDE.md: 1 line of instructions to the model: “Run make test.”",
    ):
        assert " ".join(there.split()) in " ".join(said.split()), there


@pytest.mark.parametrize(
    "odd",
    ["[]", "7", '{"mcpServers": 7, "projects": []}', '{"mcpServers": {"a": 1}, "projects": {', "[" * 99_999],
)
def test_doctor_reads_over_files_of_other_agents_that_are_not_as_expected(
    door: FrontDoor, home: Path, odd: str
) -> None:
    put(home / ".claude.json", odd)
    put(home / ".codex/config.toml", odd)
    put(door.cwd / ".mcp.json", '{"mcpServers": {"\\u001b[2J": {}}}')
    found = door("doctor").out
    assert "server of other agents" in found and "\x1b[2J" not in found
    assert ".claude.json" not in found and ".codex/config.toml" not in found


@pytest.mark.parametrize("how", ["run", "--plain"])
def test_hooks_run_without_a_screen_and_those_of_a_project_once_it_is_trusted(
    door: FrontDoor, home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    hooks(
        home / ".claude/settings.json", UserPromptSubmit="echo one >> heard", SessionEnd="echo end >> heard"
    )
    hooks(door.cwd / ".claude/settings.json", UserPromptSubmit="echo two >> heard")
    said = door(how, "hello", "-m", "offline")
    assert said.code == 0 and ".claude/settings.json" in said.err + said.out
    assert (door.cwd / "heard").read_text().split() == ["one", "end"]
    assert door("run", "hello", "-m", "offline", "--trust").code == 0
    (door.cwd / "heard").unlink()
    assert door(how, "hello", "-m", "offline").code == 0
    assert sorted((door.cwd / "heard").read_text().split()) == ["end", "one", "two"]
