"""/approvals: the modes, and the rules in force with their origin, which one key takes back."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent.permissions.approvals import RULES_IGNORED, Policy, ProjectRule
from foldline.agent.permissions.sandbox_engine import Engine
from foldline.agent.project.trust import agreed_bytes
from foldline.past.approval_words import mode_words
from foldline.protocol import Approval, Rule
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.permissions import ALLOW_ALL
from support.agents import Hang, tool_reply
from support.live import Live, live, session_in
from support.trust import bring

STATUS, EDIT = Rule(tool="bash", pattern="git status"), Rule(tool="edit")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "w-home"))


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return ("bash", {"command": command})


async def opened(running: Live) -> Picker:
    await running.enter("/approvals")
    await running.until(lambda: isinstance(running.app.screen, Picker))
    screen = running.app.screen
    assert isinstance(screen, Picker)
    return screen


async def test_rules_are_listed_with_their_origin_and_one_key_takes_them_back(
    tmp_path: Path,
) -> None:
    session = session_in(tmp_path / "w")
    await session.append(
        Approval(rule=STATUS), Approval(rule=EDIT), Approval(rule=EDIT, granted=False)
    )
    async with live(tmp_path / "w", session=session, approvals="ask") as running:
        running.agent.state.permissions.project.grant(
            ProjectRule(rule=EDIT, session="20260314-120000-abcd")
        )
        screen = await opened(running)
        assert (
            "session  bash: git status …" in running.text
            and "entry 0, 2026-03-14" in running.text
        )
        assert "project  edit" in running.text and "abcd" in running.text
        screen.select("project edit")
        await running.press("delete")
        await running.until(lambda: "project  edit" not in running.text)
        assert not running.agent.state.permissions.project.rules_and_fault()[0]
        screen.select("session bash: git status …, alone")
        await running.press("delete")
        await running.until(lambda: running.agent.state.permissions.policy == Policy())
        assert [entry.granted for entry in running.entries[-2:]] == [False, False]  # type: ignore[attr-defined]
        await running.press("delete", "escape")
        await running.until(lambda: not isinstance(running.app.screen, Picker))


async def test_the_header_follows_the_mode_and_all_needs_a_confirmation(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path / "w", tool_reply(bash("true")), approvals="ask"
    ) as running:
        assert "edits: ask" in running.text
        screen = await opened(running)
        assert screen.marked == "ask"
        await running.press("down", "enter")
        await running.until(
            lambda: running.agent.state.permissions.policy.mode == "edits"
        )
        screen.select("all")
        await running.press("enter")
        await running.until(lambda: ALLOW_ALL in running.text)
        await running.press("enter")
        await running.until(lambda: ALLOW_ALL not in running.text)
        assert running.app.screen is screen, "the first answer is no"
        assert running.agent.state.permissions.policy.mode == "edits"
        await running.press("enter")
        await running.until(lambda: ALLOW_ALL in running.text)
        await running.press("down", "enter")
        await running.until(
            lambda: running.agent.state.permissions.policy.mode == "all"
        )
        await running.press("escape")
        await running.until(lambda: "asks: never" in running.text)
        await running.ask("go")
        assert [
            entry.mode for entry in running.entries if isinstance(entry, Approval)
        ] == ["edits", "all"]
        assert f"mode all: {mode_words('all')}" in running.text


@pytest.mark.slow
async def test_typed_letters_only_filter(tmp_path: Path) -> None:
    async with live(tmp_path / "w", approvals="ask") as running:
        await opened(running)
        await running.press(*"plan")
        await running.until(lambda: "1 of 1" in running.text)
        assert running.agent.state.permissions.policy.mode == "ask"
        await running.press("enter")
        await running.until(
            lambda: running.agent.state.permissions.policy.mode == "plan"
        )


@pytest.mark.slow
async def test_while_a_turn_runs_the_mode_changes_and_a_new_rule_appears(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path / "w", tool_reply(bash("true")), Hang("…"), approvals="ask"
    ) as running:
        await running.enter("go")
        await running.until(lambda: running.app.state.question)
        running.app._clock.now += 2  # type: ignore[attr-defined]
        await running.press("alt+a")
        await running.until(lambda: running.agent.state.permissions.policy.always)
        await opened(running)
        assert "bash: true …" in running.text
        await running.press("down", "enter")
        await running.until(
            lambda: running.agent.state.permissions.policy.mode == "edits"
        )
        assert running.agent.executor.busy
        await running.press("escape", "escape")
        await running.at_rest()


@pytest.mark.slow
async def test_in_a_mode_with_a_sandbox_it_is_said_what_this_kernel_does_not_hold(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", approvals="sandboxed") as running:
        running.agent.state.permissions.sandbox.engine = Engine(
            "bubblewrap", "Named pipes can be read."
        )
        await opened(running)
        assert "Named pipes can be read." in running.text
        await running.press("up", "up", "enter")
        await running.until(
            lambda: running.agent.state.permissions.policy.mode == "ask"
        )
        await running.until(lambda: "Named pipes can be read." not in running.text)
        await running.press("escape")


@pytest.mark.slow
async def test_a_damaged_file_of_the_project_is_told(tmp_path: Path) -> None:
    async with live(tmp_path / "w", approvals="ask") as running:
        project = running.agent.state.permissions.project
        project.grant(ProjectRule(rule=EDIT))
        project.path.write_text("{")
        await opened(running)
        assert RULES_IGNORED.partition("{")[0] in running.text
        assert "damaged" in running.text
        await running.press("escape")


@pytest.mark.slow
async def test_the_word_on_a_file_of_the_folder_is_taken_back_with_the_same_key(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", approvals="ask") as running:
        bring(tmp_path / "w" / "AGENTS.md", "Run make test.\n")
        screen = await opened(running)
        assert "file     AGENTS.md: 1 line of instructions" in running.text
        assert "agreed to" in running.text
        screen.select(str(tmp_path / "w" / "AGENTS.md"))
        await running.press("delete")
        await running.until(lambda: agreed_bytes(tmp_path / "w" / "AGENTS.md") is None)
        await running.press("escape")
