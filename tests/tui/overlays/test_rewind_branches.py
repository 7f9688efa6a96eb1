"""Branches on the Rewind screen: going to one and back, and the edited prompts that leave them."""

from pathlib import Path

import pytest

from foldline.protocol import Revert, operations
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.rewind import START, TITLE, branch_ends
from foldline.tui.prompting.queue import REWINDS
from support.history import history
from support.live import Live, live

pytestmark = pytest.mark.slow


async def opened(running: Live) -> None:
    await running.enter("/rewind")
    await running.until(lambda: TITLE in running.text)


async def edited(running: Live, instead: str) -> None:
    """The newest prompt, edited in place and sent again."""
    await running.press("tab", "[", "e")
    await running.until(lambda: bool(running.editor_text))
    running.app.chat.prompt.editor.put(instead)
    await running.press("enter")
    await running.at_rest()


def said(running: Live) -> list[str]:
    return [
        item.message.text
        for item in running.agent.session.projection.view
        if not item.is_preamble
    ]


async def mark(running: Live, label: str) -> None:
    """Move the mark down to the end of a branch."""
    while f"▶end of ⑂ {label}" not in running.text:
        await running.press("down")


async def go(running: Live) -> None:
    listed = running.app.screen
    await running.press("enter")
    await running.until(lambda: running.app.screen is not listed)
    await running.until(lambda: isinstance(running.app.screen, Picker))
    question = running.app.screen
    assert isinstance(question, Picker)
    question.select("context")
    await running.press("enter")
    await running.until(lambda: running.app.screen is running.app.chat)
    await running.at_rest()


@pytest.mark.quick
async def test_an_edited_prompt_leaves_a_branch_that_one_entry_brings_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        await running.ask("first")
        await running.ask("second")
        await edited(running, "other")
        assert said(running) == ["first", "one", "other", "three"]
        await opened(running)
        await mark(running, "second")
        assert "⑂ second" in running.text and "❯ other" in running.text
        await running.press("enter")
        await running.until(
            lambda: (
                "2 items removed, 1 of them a prompt, 2 items restored" in running.text
            )
        )
        await running.press("escape")
        await running.until(lambda: TITLE in running.text)
        await go(running)
        assert said(running) == ["first", "one", "second", "two"]
        assert isinstance(running.entries[-1], Revert)
        await opened(running)
        await mark(running, "other")
        await running.press("escape")
        await running.enter("/undo")
        await running.at_rest()
        assert said(running) == ["first", "one", "other", "three"]


async def test_after_a_rewind_the_end_of_what_was_left_is_listed(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one", "two") as running:
        await running.ask("first")
        await running.ask("second")
        await opened(running)
        await go(running)
        assert said(running) == ["first", "one"]
        running.app.chat.prompt.editor.put("")
        await opened(running)
        await mark(running, "second")
        await go(running)
        assert said(running) == ["first", "one", "second", "two"]
        assert running.editor_text == ""


@pytest.mark.quick
def test_without_checkpoints_the_end_of_every_other_turn_is_listed() -> None:
    story = history().system("s")
    for prompt in ("first", "second", "third"):
        story.user(prompt).assistant("done")
    ends = branch_ends(story.projection(), every_turn=True)
    assert [end.label for end in ends] == [START, "first", "second"]
    assert not list(branch_ends(story.projection(), every_turn=False))


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


async def test_after_a_prompt_the_keys_of_the_transcript_begin_at_its_end(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", *["line\n" * 30] * 3) as running:
        await running.ask("first")
        await running.ask("second")
        await running.press("tab", "[", "[", "escape")
        await running.ask("third")
        await running.press("tab", "[", "e")
        await running.until(lambda: running.editor_text == "third")


async def test_an_edited_prompt_goes_before_those_that_wait(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "one", "two", "three") as running:
        await running.ask("first")
        await running.press("tab", "[", "e")
        await running.until(lambda: running.editor_text == "first")
        assert f"Enter {REWINDS}" in running.text
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
    monkeypatch.setattr("foldline.past.branches.before_prompt", lambda *_: gone)
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        chat = running.app.chat
        chat.prompt.edit(running.entries[0].index, 1, "other")
        await running.press("enter")
        await running.until(lambda: running.editor_text == "other")
        assert "editing prompt 1" in running.text and said(running) == ["first", "one"]
