"""Folder trust without a screen."""

from support.front_door import FrontDoor
from support.trusting import agree


def test_a_run_says_what_it_left_aside_and_goes_on_and_trust_agrees(door: FrontDoor) -> None:
    (door.cwd / "AGENTS.md").write_text("Be brief.\n")
    (door.cwd / ".foldline.toml").write_text("[compaction]\nsoft_ratio = 0.5\n")
    said = door("run", "hello", "-m", "offline")
    assert said.code == 0
    assert "Left aside, as nobody has agreed to them: .foldline.toml, AGENTS.md." in said.err
    assert "left aside  AGENTS.md" in door("doctor").out
    said = door("run", "hello", "-m", "offline", "--trust")
    assert (said.code, "Left aside" in said.err) == (0, False)
    assert "agreed to AGENTS.md" in door("doctor").out
    assert "Left aside" not in door("run", "hello", "-m", "offline").err


def test_config_says_what_was_left_aside_and_what_takes_a_word_back(door: FrontDoor) -> None:
    file = door.cwd / ".foldline.toml"
    file.write_text("[compaction]\nsoft_ratio = 0.5\n")
    said = door("config")
    assert "Left aside: .foldline.toml: settings: compaction.soft_ratio = 0.5. The chat asks" in said.err
    found = door("config", "--json").json
    assert (found["files"], found["left_aside"]) == ([], [str(file)])
    assert found["settings"]["compaction.soft_ratio"]["value"] == 0.75
    agree(door.cwd)
    assert "You agreed to .foldline.toml; /approvals in the chat takes that back." in door("config").err
    found = door("config", "--json").json
    assert (found["files"], found["left_aside"]) == ([str(file)], [])
    assert found["settings"]["compaction.soft_ratio"]["value"] == 0.5
