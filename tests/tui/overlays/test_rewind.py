"""Going back from the chat: the list, what it would do, the prompt in the editor again, and the way back."""

from pathlib import Path
from typing import Any

import pytest
from textual.keys import _character_to_key

from foldline.agent.session.rewind import REMOVED
from foldline.tui.chat.escape_actions import ESC_REWINDS
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.rewind import (
    BOTH,
    BY_OTHERS,
    CONTEXT,
    FILES,
    NO_POINTS,
    QUESTION,
    STAY,
    STEPS,
    TITLE,
)
from support.agents import Hang, tool_reply
from support.chat_app import Clock
from support.live import Live, live

pytestmark = pytest.mark.slow

WRITE: tuple[str, dict[str, Any]] = ("write", {"path": "b.txt", "content": "two\n"})


QUESTIONED = QUESTION.partition("{")[0]


async def opened(running: Live) -> None:
    await running.enter("/rewind")
    await running.until(lambda: TITLE in running.text)


async def asked(running: Live) -> Picker:
    """The question how to go back to the selected point."""
    await running.press("enter")
    await running.until(lambda: QUESTIONED in running.text and STAY in running.text)
    assert isinstance(running.app.screen, Picker)
    return running.app.screen


async def gone_back(running: Live, answer: str) -> None:
    (await asked(running)).select(answer)
    await running.press("enter")
    await running.until(lambda: running.app.screen is running.app.chat)
    await running.at_rest()


@pytest.mark.quick
async def test_the_context_goes_back_and_the_prompt_is_in_the_editor_again(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one", "two") as running:
        await running.ask("first")
        await running.ask("second")
        await opened(running)
        assert "❯ second" in running.text and "❯ first" in running.text
        await gone_back(running, "context")
        assert running.editor_text == "second"
        assert "context back to before “second”" in running.text
        assert running.agent.session.projection.view[-1].message.text == "one"


@pytest.mark.quick
async def test_files_go_back_with_it_and_undo_brings_both_again(tmp_path: Path) -> None:
    async with live(tmp_path / "w", tool_reply(WRITE), "done") as running:
        await running.ask("write it")
        written = tmp_path / "w" / "b.txt"
        await opened(running)
        await asked(running)
        assert "b.txt  removed again" in running.text and BOTH in running.text
        await running.press("escape")
        await running.until(lambda: TITLE in running.text)
        await gone_back(running, "both")
        assert not written.exists()
        assert REMOVED.format(paths="b.txt") in running.text
        running.app.chat.prompt.editor.put("")
        await running.enter("/undo")
        await running.until(written.exists)
        await running.at_rest()
        assert running.agent.session.projection.view[-1].message.text == "done"


async def test_a_file_of_somebody_else_is_shown_and_kept(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", tool_reply(WRITE), "done") as running:
        await running.ask("write it")
        written = tmp_path / "w" / "b.txt"
        written.write_text("mine\n")
        await opened(running)
        await asked(running)
        assert f"! kept: {BY_OTHERS}" in running.text and CONTEXT in running.text
        assert BOTH not in running.text and FILES not in running.text
        await running.press("enter")
        await running.until(lambda: TITLE in running.text)
        assert written.read_text() == "mine\n"


async def test_a_step_within_a_turn_is_chosen_in_a_list_of_its_own(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", tool_reply(WRITE), "done") as running:
        await running.ask("write it")
        await opened(running)
        assert "after" not in running.text
        (await asked(running)).select("steps")
        await running.press("enter")
        await running.until(lambda: "▶  after" in running.text)
        await gone_back(running, "context")
        view = running.agent.session.projection.view
        assert view[-1].message.type == "tool_result" and STEPS not in running.text


@pytest.mark.quick
async def test_without_points_it_says_so(tmp_path: Path) -> None:
    async with live(tmp_path / "w") as running:
        running.app.chat.run_command("rewind")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert NO_POINTS in running.text


@pytest.mark.quick
async def test_esc_twice_on_an_empty_prompt_opens_it_and_esc_leaves_everything_as_it_was(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        count = len(running.entries)
        await running.press("escape")
        assert ESC_REWINDS in running.text
        await running.press("escape")
        await running.until(lambda: TITLE in running.text)
        await running.press("escape")
        assert running.app.screen is running.app.chat and len(running.entries) == count


@pytest.mark.parametrize(
    "typed",
    ["before you go on, check b.txt", "fix it: quickly\r", "coop\ry", "on the web\r"],
)
async def test_what_is_typed_behind_esc_esc_changes_nothing(
    tmp_path: Path, typed: str
) -> None:
    async with live(tmp_path / "w", tool_reply(WRITE), "done") as running:
        await running.ask("write it")
        running.app.chat.run_command("rewind")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        count = len(running.entries)
        for sign in typed:
            await running.press({"\r": "enter"}.get(sign) or _character_to_key(sign))
        assert len(running.entries) == count and (tmp_path / "w" / "b.txt").exists()
        while running.app.screen is not running.app.chat:
            await running.press("escape")
            await running.pilot.pause()
        assert running.editor_text == ""


async def test_a_second_esc_that_comes_late_is_a_first_one(tmp_path: Path) -> None:
    clock = Clock()
    async with live(tmp_path / "w", "one", clock=clock) as running:
        await running.ask("first")
        await running.press("escape")
        clock.now += 1.5
        await running.press("escape")
        assert running.app.screen is running.app.chat


async def test_a_prompt_that_comes_back_acts_no_more_on_the_terminal(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path / "w", "one"
    ) as running:  # it may be that of an imported session
        await running.ask("mend \x1b[2J the \u202elogin")
        await opened(running)
        await gone_back(running, "context")
        assert running.editor_text == "mend ␛ the �login"


async def test_a_prompt_that_is_being_written_is_not_lost_to_the_one_that_comes_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        await running.type("half a thought")
        running.app.chat.run_command("rewind")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await gone_back(running, "context")
        assert running.editor_text == "half a thought"


async def test_it_stops_a_turn_that_runs(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", Hang("half")) as running:
        await running.ask("first")
        await running.enter("second")
        await running.until(running.llm.silent.is_set)
        await opened(running)
        await gone_back(running, "context")
        assert not running.agent.executor.busy
        assert running.agent.session.projection.view[-1].message.text == "one"
