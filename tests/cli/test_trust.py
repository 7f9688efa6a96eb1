"""Folder trust without a screen."""

from support.front_door import FrontDoor


def test_a_run_says_what_it_left_aside_and_goes_on_and_trust_agrees(door: FrontDoor) -> None:
    (door.cwd / "AGENTS.md").write_text("Be brief.\n")
    (door.cwd / ".foldline.toml").write_text("[compaction]\nsoft_ratio = 0.5\n")
    said = door("run", "hello", "-m", "offline")
    assert said.code == 0
    assert "Left aside, as nobody has agreed to them: .foldline.toml, AGENTS.md." in said.err
    assert "left aside AGENTS.md" in door("doctor").out
    said = door("run", "hello", "-m", "offline", "--trust")
    assert (said.code, "Left aside" in said.err) == (0, False)
    assert "agreed to AGENTS.md" in door("doctor").out
    assert "Left aside" not in door("run", "hello", "-m", "offline").err
