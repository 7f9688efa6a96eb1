"""The tree of branches from the chat: what it draws, going there and back, comparing, copying, forks."""

import asyncio
import re
from pathlib import Path

import pytest

from foldline.history import data_home
from foldline.history.catalog import forks_of
from foldline.protocol import DeveloperMessage, Revert, operations
from foldline.tui.app import FoldlineApp
from foldline.tui.inspector.compare import CompareScreen
from foldline.tui.screens.tree import TreeScreen
from support.live import Live, live


def screen(running: Live) -> TreeScreen:
    app: FoldlineApp = running.app
    assert isinstance(app.screen, TreeScreen)
    return app.screen


async def opened(running: Live) -> TreeScreen:
    await running.enter("/tree")
    await running.until(lambda: isinstance(running.app.screen, TreeScreen))
    await running.at_rest()
    return screen(running)


async def edited(running: Live, instead: str) -> None:
    """The newest prompt, edited in place and sent again."""
    await running.press("tab", "[", "e")
    await running.until(lambda: bool(running.editor_text))
    running.app.chat.prompt.editor.put(instead)
    await running.press("enter")
    await running.at_rest()


def said(running: Live) -> list[str]:
    return [item.message.text for item in running.agent.session.projection.view if not item.is_preamble]


async def go(running: Live) -> None:
    await running.until(lambda: screen(running).outcome is not None)
    screen(running).clock = lambda: 100.0
    await running.press("enter")
    screen(running).clock = lambda: 102.0
    await running.press("ctrl+s")
    await running.until(lambda: not isinstance(running.app.screen, TreeScreen))
    await running.at_rest()


async def test_an_edited_prompt_leaves_a_branch_that_one_entry_brings_back(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        await running.ask("first")
        await running.ask("second")
        await edited(running, "other")
        assert said(running) == ["first", "one", "other", "three"]
        await opened(running)
        assert "├─❯ second" in running.text and "❯ other" in running.text and "now" in running.text
        await running.press("up")
        await running.until(lambda: screen(running).outcome is not None)
        assert "2 items leave the view, 1 prompt among them, 2 items come back" in running.text
        await go(running)
        assert said(running) == ["first", "one", "second", "two"]
        session = running.agent.session
        assert isinstance(session.projection.entries[len(session.projection.entries) - 1], Revert)
        await running.enter("/undo")
        await running.at_rest()
        assert said(running) == ["first", "one", "other", "three"]


async def test_two_branches_are_compared_and_an_answer_is_copied_to_the_other(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        await running.ask("first")
        await running.ask("second")
        await edited(running, "other")
        await opened(running)
        await running.press("up", "d")
        await running.until(
            lambda: isinstance(running.app.screen, CompareScreen) and running.app.screen.found
        )
        assert "− " in running.text and "second" in running.text and "+ " in running.text
        await running.press("escape", "a")
        await running.at_rest()
        copied = running.agent.session.projection.view[-1].message
        assert isinstance(copied, DeveloperMessage) and copied.text.endswith("\n\ntwo")
        assert "another branch of this session" in copied.text


async def test_esc_ends_an_edit_and_nothing_goes_back(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two") as running:
        await running.ask("first")
        await running.press("tab", "[", "e")
        await running.until(lambda: running.editor_text == "first")
        assert "editing prompt 1" in running.text
        await running.press("escape")
        assert "editing prompt" not in running.text and running.editor_text == ""
        await running.ask("second")
        assert said(running) == ["first", "one", "second", "two"]


async def test_after_a_prompt_the_keys_of_the_transcript_begin_at_its_end(tmp_path: Path) -> None:
    async with live(tmp_path / "w", *["line\n" * 30] * 3) as running:
        await running.ask("first")
        await running.ask("second")
        await running.press("tab", "[", "[", "escape")
        await running.ask("third")
        await running.press("tab", "[", "e")
        await running.until(lambda: running.editor_text == "third")


async def test_a_fork_is_drawn_at_the_turn_it_begins_in(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two") as running:
        await running.ask("first")
        origin = running.app.chat
        await running.enter("/fork")
        await running.until(lambda: running.app.chat is not origin)
        await running.until(lambda: running.app.chat.runner is not None)
        copy = Path(running.app.chat.file)
        assert origin.runner is not None
        session = origin.runner.agent.session
        forks = forks_of(data_home(), session.header.id)
        assert [(index, fork.path) for index, fork in forks] == [(session.projection.last_index, copy)]
        shown = TreeScreen(
            session.projection, lambda _: asyncio.sleep(0), compare=print, copy=print, open_fork=print
        )  # type: ignore[arg-type, return-value]
        shown.show_forks(forks)
        lines = ["".join(text for text, _ in line) for line in shown.draw(60, 20)]
        assert [line for line in lines if "❯ first" in line or "├─⑂ fork: first" in line][1:]


async def test_a_branch_left_leaves_a_note_where_that_is_wanted(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        running.agent.state.branch_note = True
        await running.ask("first")
        await running.ask("second")
        await edited(running, "other")
        note = running.agent.session.projection.view[-3].message
        assert note.origin == "notice"  # type: ignore[union-attr]
        assert "asked: “second”" in note.text and "last answer: “two”" in note.text


async def test_an_edited_prompt_goes_before_those_that_wait(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        await running.ask("first")
        await running.press("tab", "[", "e")
        await running.until(lambda: running.editor_text == "first")
        assert "Enter goes back, sends" in running.text
        assert running.app.runner is not None
        running.app.runner.set_paused(True)
        running.app.runner.edit_queue((), ("waits",), paused=True)
        running.app.chat.prompt.editor.put("other")
        await running.press("enter")
        await running.at_rest()
        assert said(running) == ["other", "two", "waits", "three"]


async def test_an_edit_that_cannot_go_back_is_still_an_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = operations.Rewind(checkpoint=9_999)
    monkeypatch.setattr("foldline.context.branches.before_prompt", lambda *_: gone)
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        chat = running.app.chat
        chat.prompt.edit(running.entries[0].index, 1, "other")
        await running.press("enter")
        await running.until(lambda: running.editor_text == "other")
        assert "editing prompt 1" in running.text and said(running) == ["first", "one"]


async def test_a_long_prompt_makes_room_for_the_figures_of_its_turn(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("a prompt that goes on and on " * 8)
        await opened(running)
        assert re.search(r"❯ a prompt .*… +now +~?[\d.]+k? +\d\d:\d\d ", running.text), running.text
