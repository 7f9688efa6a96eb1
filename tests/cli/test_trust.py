"""Folder trust without a screen."""

from foldline.agent.session.trust_question import NOT_AGREED
from foldline.cli.config import APPROVED, HOW_TO_APPROVE, NOT_APPROVED
from foldline.cli.doctor_checks import NOT_USED
from support.command_line import CommandLine
from support.trust import agree


def test_a_run_says_what_it_left_aside_and_goes_on_and_trust_agrees(
    cli: CommandLine,
) -> None:
    (cli.cwd / "AGENTS.md").write_text("Be brief.\n")
    (cli.cwd / ".foldline.toml").write_text("[compaction]\nsoft_ratio = 0.5\n")
    said = cli("run", "hello", "-m", "offline")
    assert said.code == 0
    assert f"{NOT_AGREED}: .foldline.toml, AGENTS.md." in said.err
    assert f"{NOT_USED} AGENTS.md" in " ".join(cli("doctor").out.split())
    said = cli("run", "hello", "-m", "offline", "--trust")
    assert (said.code, NOT_AGREED in said.err) == (0, False)
    assert "approved AGENTS.md" in cli("doctor").out
    assert NOT_AGREED not in cli("run", "hello", "-m", "offline").err


def test_config_says_what_was_left_aside_and_what_takes_a_word_back(
    cli: CommandLine,
) -> None:
    file = cli.cwd / ".foldline.toml"
    file.write_text("[compaction]\nsoft_ratio = 0.5\n")
    said = cli("config")
    settings = ".foldline.toml: settings: compaction.soft_ratio = 0.5"
    assert f"{NOT_APPROVED}: {settings}; {HOW_TO_APPROVE}." in said.err
    found = cli("config", "--json").json
    assert (found["files"], found["left_aside"]) == ([], [str(file)])
    assert found["settings"]["compaction.soft_ratio"]["value"] == 0.75
    agree(cli.cwd)
    assert APPROVED.format(names=".foldline.toml") in cli("config").err
    found = cli("config", "--json").json
    assert (found["files"], found["left_aside"]) == ([str(file)], [])
    assert found["settings"]["compaction.soft_ratio"]["value"] == 0.5
