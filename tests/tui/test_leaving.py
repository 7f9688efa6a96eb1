"""Keys that come faster than screens open and close: pressed twice in a frame, they do no more than once."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from textual import events

from foldline.agent import Agent
from foldline.history import loader
from foldline.tui.app.app import FoldlineApp
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.overlays.help import HelpScreen
from support.agents import PATIENCE
from support.live import Live, live

pytestmark = pytest.mark.slow

NARROW, WIDE = (100, 30), (170, 36)


def press_at_once(running: Live, *keys: str) -> None:
    """As a terminal gives them where they were read in one go: nothing is done between them."""
    for key in keys:
        running.app.post_message(events.Key(key, key if len(key) == 1 else None))


def names(running: Live) -> list[str]:
    return [type(screen).__name__ for screen in running.app.screen_stack]


async def inspector_in_front(running: Live) -> None:
    await running.until(lambda: isinstance(running.app.screen, InspectorScreen))
    await running.until(lambda: getattr(running.app.focused, "id", "") == "history")


async def test_the_inspector_told_twice_to_close_leaves_once(tmp_path: Path) -> None:
    async with live(tmp_path, "First", "Second", size=NARROW) as running:
        await running.ask("hi")
        for _ in range(3):
            await running.press("f2")
            await inspector_in_front(running)
            press_at_once(running, "escape", "f2", "escape")
            await running.until(lambda: running.app.screen is running.app.chat)
        await running.ask("go on")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("key", ["f2", "f4"])
async def test_a_key_pressed_twice_opens_one_screen(tmp_path: Path, key: str) -> None:
    async with live(tmp_path, "First", size=NARROW) as running:
        await running.ask("hi")
        press_at_once(running, key, key, key)
        await running.until(
            lambda: running.app.screen.is_mounted and len(running.app.screen_stack) > 1
        )
        await running.pilot.pause()
        assert len(running.app.screen_stack) == 2, names(running)


async def test_maximised_twice_it_has_the_whole_screen_once(tmp_path: Path) -> None:
    async with live(tmp_path, "First", size=WIDE) as running:
        await running.ask("hi")
        await running.press("f2")
        await running.until(lambda: getattr(running.app.focused, "id", "") == "history")
        press_at_once(running, "m", "m")
        await inspector_in_front(running)
        assert len(running.app.screen_stack) == 2, names(running)


async def test_who_leaves_takes_along_what_lies_over_it(tmp_path: Path) -> None:
    async with live(tmp_path, "First", size=NARROW) as running:
        await running.ask("hi")
        await running.press("f2")
        await inspector_in_front(running)
        await running.press("f1")
        await running.until(lambda: isinstance(running.app.screen, HelpScreen))
        inspector = running.app.screen_stack[1]
        assert isinstance(inspector, LeftOnce)
        await inspector.dismiss()
        await inspector.dismiss()
        assert running.app.screen is running.app.chat


@pytest.mark.quick
async def test_what_opens_a_long_session_gives_up_when_the_program_ends(
    tmp_path: Path,
) -> None:
    """Else the end of the program waits for it: eleven seconds, with a gigabyte and no index."""
    begun, gave_up = threading.Event(), threading.Event()

    def load() -> Agent:
        begun.set()
        for _ in range(60_000):
            try:
                loader._listener.get()(0.5)
            except asyncio.CancelledError:
                gave_up.set()
                raise
            time.sleep(0.001)
        raise AssertionError("nobody told it to end")

    app = FoldlineApp(load, root=tmp_path)
    async with app.run_test():
        await asyncio.to_thread(begun.wait)
        app.exit()
    assert await asyncio.to_thread(gave_up.wait, PATIENCE)
