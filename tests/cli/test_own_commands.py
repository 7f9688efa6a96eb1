"""Commands and skills that lie on disk, without a screen: `run`, `--plain`, `doctor`."""

import io
from pathlib import Path

import pytest

from foldline.agent.extensions.catalogue import BUILT_IN
from foldline.agent.project.discovery import NO_FRONT_MATTER
from foldline.cli.doctor_checks import NOT_USED
from support.agent_homes import AgentHomes
from support.claude_code_rows import user
from support.codex_rows import META, prompt
from support.command_line import CommandLine
from support.homes import hooks, put, usual_home, usual_project

NOBODY = "/fix-issue was ignored, because you have not agreed to it"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    usual_home(tmp_path / "user")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "user"


def test_run_takes_a_command_of_the_users(cli: CommandLine, home: Path) -> None:
    (cli.cwd / "notes.txt").write_text("remember the milk\n")
    put(home / ".codex/prompts/show.md", "read $1\n\nNothing else.")
    said = cli("run", "/show notes.txt", "-m", "offline")
    assert said.code == 0 and "read notes.txt · 1 line" in said.err


def test_run_leaves_those_of_a_project_aside_unless_it_is_trusted(
    cli: CommandLine,
) -> None:
    usual_project(cli.cwd)
    said = cli("run", "/fix-issue 12", "-m", "offline")
    assert said.code == 1 and NOBODY in said.err
    assert ".claude/commands/fix-issue.md" in said.err
    assert cli("run", "/fix-issue 12", "-m", "offline", "--trust").code == 0


def test_doctor_says_what_there_is_from_where_and_what_was_left_aside_and_why(
    cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_project(cli.cwd)
    put(home / ".claude/skills/odd/SKILL.md", "no head")
    put(home / ".claude/projects/y/1.jsonl", "")
    homes = AgentHomes(home, monkeypatch)
    homes.claude_code({**user("Mend the retry"), "cwd": str(cli.cwd)})
    homes.codex(
        *prompt("Look around"),
        meta={**META, "payload": {**META["payload"], "cwd": str(cli.cwd)}},
    )
    rows = [line.split("  ", 2) for line in cli("doctor").out.splitlines()]
    found = {" ".join(row[-2:]).strip() for row in rows}
    said = "\n".join(found)
    for there in (
        "skill       pdf-forms, ~/.claude/skills/pdf-forms/SKILL.md",
        "skill       release-notes, ~/.agents/skills/release-notes/SKILL.md",
        "command     review, ~/.claude/commands/review.md",
        "command     frontend:component, ~/.claude/commands/frontend/component.md",
        "agent       reviewer, ~/.claude/agents/reviewer.md",
        "sessions    1 session of claude-code in this folder",
        "sessions    1 session of codex in this folder",
        f"{NOT_USED}  ~/.claude/skills/odd/SKILL.md was ignored: {NO_FRONT_MATTER}",
        f"{NOT_USED}  .claude/commands/compact.md was ignored: {BUILT_IN.format(name='compact')}",
        f"{NOT_USED}  .claude/commands/fix-issue.md: 1 line of a command: “Fix issue #$1,",
        f"{NOT_USED}  CLAUDE.md: 1 line of instructions to the model: “Run make test.”",
    ):
        assert " ".join(there.split()) in " ".join(said.split()), there


@pytest.mark.parametrize("how", ["run", "--plain"])
def test_hooks_run_without_a_screen_and_those_of_a_project_once_it_is_trusted(
    cli: CommandLine, home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    hooks(
        home / ".claude/settings.json",
        UserPromptSubmit="echo one >> heard",
        SessionEnd="echo end >> heard",
    )
    hooks(cli.cwd / ".claude/settings.json", UserPromptSubmit="echo two >> heard")
    said = cli(how, "hello", "-m", "offline")
    assert said.code == 0 and ".claude/settings.json" in said.err + said.out
    assert (cli.cwd / "heard").read_text().split() == ["one", "end"]
    assert cli("run", "hello", "-m", "offline", "--trust").code == 0
    (cli.cwd / "heard").unlink()
    assert cli(how, "hello", "-m", "offline").code == 0
    assert sorted((cli.cwd / "heard").read_text().split()) == ["end", "one", "two"]
