"""Nothing wakes the program where nothing happens, and what was closed is gone."""

import gc
import weakref
from pathlib import Path

import pytest
from textual.timer import Timer
from textual.widget import Widget

from foldline.tui.blocks.view import BlockView
from support.live import Live, live


def awake(running: Live) -> list[Timer]:
    """Timers that run."""
    app = running.app
    nodes = [
        app,
        *app.screen_stack,
        *(node for screen in app.screen_stack for node in screen.walk_children()),
    ]
    timers = [timer for node in nodes for timer in node._timers]
    return [
        timer
        for timer in timers
        if timer._active.is_set() and timer._task and not timer._task.done()
    ]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("size", "keys"), [((120, 36), ()), ((200, 60), ("f2",))], ids=["chat", "docked"]
)
async def test_no_timer_runs_where_nothing_happens(
    size: tuple[int, int], keys: tuple[str, ...], tmp_path: Path
) -> None:
    async with live(tmp_path / "shop", "An answer.", size=size) as running:
        await running.ask("A prompt.")
        await running.press(*keys)
        await running.pilot.pause()
        running.app.chat.prompt.editor.focus()
        await running.until(
            lambda: not [timer for timer in awake(running) if timer._repeat != 0]
        )
        assert not running.app.animator._animations
        turning = running.app.chat.set_interval(1, lambda: None)
        assert awake(running) == [turning], "what would be seen"


@pytest.mark.slow
async def test_a_closed_inspector_leaves_nothing_behind(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", "An answer.") as running:
        await running.ask("A prompt.")
        views: list[weakref.ref[Widget]] = []
        for _ in range(2):
            await running.press("f2")
            await running.until(lambda: running.app.screen is not running.app.chat)
            views += map(weakref.ref, running.app.screen.query(BlockView))
            await running.press("escape")
            await running.until(lambda: running.app.screen is running.app.chat)
        kept = running.app.theme_changed_signal._subscriptions.keys()
        assert views and all(view() not in kept for view in views)
        assert all(view is None or not view.count for view in (ref() for ref in views))
        gc.collect()
        assert not any(ref() for ref in views[: len(views) // 2]), (
            "of the first not even the widgets"
        )
