"""Going back from the chat: the list, what it would do, the prompt in the editor again, and the way back."""

from pathlib import Path
from typing import Any

import pytest
from textual.keys import _character_to_key

from foldline.tui.app import FoldlineApp
from foldline.tui.screens.rewind import RewindScreen
from support.agents import Hang, calling
from support.chat_app import Clock
from support.live import Live, live

WRITE: tuple[str, dict[str, Any]] = ("write", {"path": "b.txt", "content": "two\n"})


def screen(running: Live) -> RewindScreen:
    app: FoldlineApp = running.app
    assert isinstance(app.screen, RewindScreen)
    return app.screen


async def opened(running: Live) -> RewindScreen:
    await running.enter("/rewind")
    await running.until(lambda: isinstance(running.app.screen, RewindScreen) and screen(running).outcome)
    return screen(running)


async def gone_back(running: Live, key: str, confirm: str = "ctrl+s") -> None:
    screen(running).clock = lambda: 100.0
    await running.press(key)
    screen(running).clock = lambda: 102.0
    await running.press(confirm)
    await running.until(lambda: not isinstance(running.app.screen, RewindScreen))
    await running.at_rest()


async def test_the_context_goes_back_and_the_prompt_is_in_the_editor_again(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two") as running:
        await running.ask("first")
        await running.ask("second")
        await opened(running)
        assert "❯ second" in running.text and "❯ first" in running.text
        await gone_back(running, "c")
        assert running.editor_text == "second"
        assert "context back to before “second”" in running.text
        assert running.agent.session.projection.view[-1].message.text == "one"


async def test_the_size_that_was_foreseen_is_the_one_shown_afterwards(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two " * 200) as running:
        await running.ask("first")
        await running.ask("second")
        foreseen = (await opened(running)).outcome
        await gone_back(running, "c")
        assert foreseen is not None and foreseen.after.tokens == running.agent.state.size()


async def test_files_go_back_with_it_and_undo_brings_both_again(tmp_path: Path) -> None:
    async with live(tmp_path / "w", calling(WRITE), "done") as running:
        await running.ask("write it")
        written = tmp_path / "w" / "b.txt"
        await opened(running)
        assert "b.txt  is removed again" in running.text
        await gone_back(running, "b", "enter")
        assert not written.exists() and "Removed again: b.txt." in running.text
        running.app.chat.prompt.editor.put("")
        await running.enter("/undo")
        await running.until(written.exists)
        await running.at_rest()
        assert running.agent.session.projection.view[-1].message.text == "done"


async def test_a_file_of_somebody_else_is_shown_and_only_overwritten_when_asked(tmp_path: Path) -> None:
    async with live(tmp_path / "w", calling(WRITE), "done") as running:
        await running.ask("write it")
        written = tmp_path / "w" / "b.txt"
        written.write_text("mine\n")
        await opened(running)
        assert "! changed by somebody else: stays" in running.text and "b both" not in running.text
        await running.press("f")
        assert written.read_text() == "mine\n"
        await running.press("o")
        assert "is removed, /undo has it" in running.text
        await gone_back(running, "f")
        assert not written.exists()


async def test_esc_twice_on_an_empty_prompt_opens_it_and_esc_leaves_everything_as_it_was(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        count = len(running.entries)
        await running.press("escape")
        assert "Esc again: rewind" in running.text
        await running.press("escape")
        await running.until(lambda: isinstance(running.app.screen, RewindScreen))
        await running.press("escape")
        assert running.app.screen is running.app.chat and len(running.entries) == count


@pytest.mark.parametrize(
    "typed", ["before you go on, check b.txt", "fix it: quickly\r", "coop\ry", "on the web\r"]
)
async def test_what_is_typed_behind_esc_esc_changes_nothing(tmp_path: Path, typed: str) -> None:
    async with live(tmp_path / "w", calling(WRITE), "done") as running:
        await running.ask("write it")
        running.app.chat.run_command("rewind")
        await running.until(lambda: isinstance(running.app.screen, RewindScreen) and screen(running).outcome)
        shown, count = screen(running), len(running.entries)
        shown.clock = lambda: 100.0
        for sign in typed:
            await running.press({"\r": "enter"}.get(sign) or _character_to_key(sign))
        assert len(running.entries) == count and (tmp_path / "w" / "b.txt").exists()
        if shown.question is not None:
            await running.press("escape")
        assert shown.is_current and shown.question is None
        await running.press("escape")
        assert running.app.screen is running.app.chat and running.editor_text == ""


async def test_a_second_esc_that_comes_late_is_a_first_one(tmp_path: Path) -> None:
    clock = Clock()
    async with live(tmp_path / "w", "one", clock=clock) as running:
        await running.ask("first")
        await running.press("escape")
        clock.now += 1.5
        await running.press("escape")
        assert running.app.screen is running.app.chat


async def test_a_prompt_that_comes_back_acts_no_more_on_the_terminal(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one") as running:  # it may be that of an imported session
        await running.ask("mend \x1b[2J the \u202elogin")
        await opened(running)
        await gone_back(running, "c")
        assert running.editor_text == "mend ␛ the �login"


async def test_a_prompt_that_is_being_written_is_not_lost_to_the_one_that_comes_back(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        await running.type("half a thought")
        running.app.chat.run_command("rewind")
        await running.until(lambda: isinstance(running.app.screen, RewindScreen) and screen(running).outcome)
        await gone_back(running, "c")
        assert running.editor_text == "half a thought"


async def test_it_stops_a_turn_that_runs(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", Hang("half")) as running:
        await running.ask("first")
        await running.enter("second")
        await running.until(running.llm.silent.is_set)
        await opened(running)
        await gone_back(running, "c")
        assert not running.agent.executor.busy
        assert running.agent.session.projection.view[-1].message.text == "one"


async def test_its_keys_are_explained_from_the_table_they_come_from(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        await opened(running)
        await running.press("f1")
        assert "Help · Rewind" in running.text and "Puts back, too, what somebody else" in running.text
