"""Subagents in the chat: what is seen of three at once, and the keys that act on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from foldline.history import Session
from foldline.protocol.events import TaskStarted, ToolStarted
from foldline.tui.browser.inspector.follow import FollowingInspector
from foldline.tui.transcript.children import USED
from support.children import (
    DOCS,
    finished_parent,
    parent,
    progress_events,
    write_session,
)
from support.live import live
from support.scenes import Scene, scene

Compare = Callable[..., bool]


async def hear(made: Scene, pilot: Pilot[None]) -> None:
    turn = TaskStarted(task="t", operation="run_agent")
    calls = [
        ToolStarted(call_id=each.call_id, name="task", title=each.title)
        for each in progress_events()
    ]
    for event in (turn, *calls, *progress_events()):
        made.app.chat.presenter.on_event(event)
    await made.until(pilot, lambda: made.app.chat.presenter.settled)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 36), (200, 60)])
def test_three_at_work(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int]
) -> None:
    story: Any = parent()
    made = scene(tmp_path / "shop-api", story, play=hear)
    assert snap_compare(made.app, terminal_size=size, run_before=made)


async def test_enter_on_one_opens_its_session_and_esc_leads_back(
    tmp_path: Path,
) -> None:
    session = Session.open(write_session(tmp_path, finished_parent()))
    async with live(tmp_path / "shop", session=session) as chat:
        await chat.until(lambda: f"2 steps · 2.9k{USED}" in chat.text)
        started = session.projection.subagents[2]
        assert started.child == DOCS
        transcript = chat.app.chat.presenter.shown.transcript  # type: ignore[union-attr]
        await chat.press("tab")
        chat.app.chat.transcript.cursor_to(transcript.calls.of_child(started))
        await chat.press("enter")
        await chat.until(lambda: isinstance(chat.app.screen, FollowingInspector))
        await chat.until(lambda: "You look things up." in chat.text)
        await chat.press("escape")
        await chat.until(lambda: chat.app.screen is chat.app.chat)
