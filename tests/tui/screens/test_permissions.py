"""/approvals: the rules in force and where they came from, taken back at once; the mode, and `all` twice."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent.approvals import KeptRule, Policy
from foldline.agent.sandbox import Engine
from foldline.agent.trust import agreed_bytes
from foldline.protocol import Approval, Rule
from foldline.tui.screens.permissions import PermissionsScreen
from support.agents import Hang, calling
from support.live import Live, live, session_in
from support.trusting import bring

STATUS, EDIT = Rule(tool="bash", pattern="git status"), Rule(tool="edit")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "w-home"))


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return ("bash", {"command": command})


async def opened(running: Live) -> None:
    await running.enter("/approvals")
    await running.until(lambda: isinstance(running.app.screen, PermissionsScreen))


async def test_rules_are_listed_with_where_they_came_from_and_one_key_takes_them_back(tmp_path: Path) -> None:
    session = session_in(tmp_path / "w")
    await session.append(Approval(rule=STATUS), Approval(rule=EDIT), Approval(rule=EDIT, granted=False))
    async with live(tmp_path / "w", session=session, approvals="ask") as running:
        running.agent.state.project.grant(KeptRule(rule=EDIT, session="20260314-120000-abcd"))
        await opened(running)
        assert "session  bash: git status …" in running.text and "entry 0, 2026-03-14" in running.text
        assert "project  edit" in running.text and "abcd" in running.text
        await running.press("down", "x")
        await running.until(lambda: "project  edit" not in running.text)
        assert not running.agent.state.project.known()[0]
        await running.press("up", "x")
        await running.until(lambda: "Nothing is always allowed" in running.text)
        assert running.agent.state.policy == Policy()
        assert [entry.granted for entry in running.entries[-2:]] == [False, False]  # type: ignore[attr-defined]
        await running.press("x", "escape")
        await running.until(lambda: not isinstance(running.app.screen, PermissionsScreen))


async def test_the_header_follows_the_mode_and_all_is_asked_for_twice(tmp_path: Path) -> None:
    async with live(tmp_path / "w", calling(bash("true")), approvals="ask") as running:
        assert "edits: ask" in running.text
        await opened(running)
        await running.press("2")
        await running.until(lambda: running.agent.state.policy.mode == "edits")
        await running.press("5")
        await running.until(lambda: "Ctrl+S or Enter: yes" in running.text)
        await running.press("2")
        await running.until(lambda: "Ctrl+S or Enter: yes" not in running.text)
        await running.press("5", "escape")
        assert isinstance(running.app.screen, PermissionsScreen)
        assert running.agent.state.policy.mode == "edits"
        await running.press("5", "5", "5")  # the second one leaves the question
        await running.until(lambda: "Ctrl+S or Enter: yes" in running.text)
        assert running.agent.state.policy.mode == "edits", "55 may be typed ahead"
        await running.press("ctrl+s")
        await running.until(lambda: running.agent.state.policy.mode == "all")
        await running.press("escape")
        await running.until(lambda: "asks: never" in running.text)
        await running.ask("go")
        assert [entry.mode for entry in running.entries if isinstance(entry, Approval)] == ["edits", "all"]
        assert "mode all: everything runs without asking" in running.text


async def test_while_a_turn_runs_the_mode_changes_and_a_rule_granted_meanwhile_appears(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", calling(bash("true")), Hang("…"), approvals="ask") as running:
        await running.enter("go")
        await running.until(lambda: running.app.state.question)
        running.app._clock.now += 2  # type: ignore[attr-defined]
        await running.press("alt+a")
        await running.until(lambda: running.agent.state.policy.always)
        await opened(running)
        assert "bash: true …" in running.text
        await running.press("2")
        await running.until(lambda: running.agent.state.policy.mode == "edits")
        assert running.agent.executor.busy
        await running.press("escape", "escape")
        await running.at_rest()


async def test_in_a_mode_with_a_sandbox_it_is_said_what_this_kernel_does_not_hold(tmp_path: Path) -> None:
    async with live(tmp_path / "w", approvals="sandboxed") as running:
        running.agent.state.sandbox.engine = Engine("bubblewrap", "Named pipes can be read.")
        await opened(running)
        assert "Named pipes can be read." in running.text
        await running.press("1")
        await running.until(lambda: running.agent.state.policy.mode == "ask")
        await running.until(lambda: "Named pipes can be read." not in running.text)
        await running.press("escape")


async def test_a_damaged_file_of_the_project_is_told(tmp_path: Path) -> None:
    async with live(tmp_path / "w", approvals="ask") as running:
        project = running.agent.state.project
        project.grant(KeptRule(rule=EDIT))
        project.path.write_text("{")
        await opened(running)
        assert "does not count" in running.text and "damaged" in running.text
        await running.press("escape")


async def test_the_word_on_a_file_of_the_folder_is_taken_back_with_the_same_key(tmp_path: Path) -> None:
    async with live(tmp_path / "w", approvals="ask") as running:
        bring(tmp_path / "w" / "AGENTS.md", "Run make test.\n")
        await opened(running)
        assert "file     AGENTS.md: 1 line of instructions to the model: “Run make" in running.text
        assert "agreed to" in running.text
        await running.press("x")
        await running.until(lambda: "Nothing is always allowed" in running.text)
        assert agreed_bytes(tmp_path / "w" / "AGENTS.md") is None
        await running.press("escape")
