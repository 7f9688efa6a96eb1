"""The tree of branches from the chat: what it draws, going there and back, comparing, copying, forks."""

from pathlib import Path

from foldline.protocol import Revert
from foldline.tui.app import FoldlineApp
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
        assert "├─ ❯ second" in running.text and "❯ other" in running.text and "now" in running.text
        await running.press("up")
        await go(running)
        assert said(running) == ["first", "one", "second", "two"]
        session = running.agent.session
        assert isinstance(session.projection.entries[len(session.projection.entries) - 1], Revert)
        await running.enter("/undo")
        await running.at_rest()
        assert said(running) == ["first", "one", "other", "three"]
