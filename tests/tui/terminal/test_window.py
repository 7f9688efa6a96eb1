"""The window's title, when the reader is called back, and the loop that the app runs in."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from foldline.frontend.state import (
    ChatState,
    Idle,
    Question,
    RunningTool,
    Stepping,
    Waiting,
)
from foldline.tui.terminal.app import TerminalApp, needs_user, title_words

IDLE = ChatState(workdir="shop-api", title="Idempotent\x1b]2;orders\x07")
BUSY = ChatState(workdir="shop-api", activity=Stepping(1.0))
ASKED = ChatState(
    workdir="shop-api",
    activity=Stepping(1.0),
    questions=(Question("c1", "bash", "ls", None, 1.0),),
)


def test_the_title_says_what_is_done_and_nothing_that_acts() -> None:
    assert title_words(BUSY) == "shop-api · request in flight"
    assert title_words(ASKED) == "? shop-api · waits for you"
    assert title_words(ChatState()) == "Foldline"
    assert title_words(IDLE).isprintable() and title_words(IDLE).startswith(
        "Idempotent"
    )
    called = replace(
        BUSY, activity=RunningTool(1.0, "c1", "x\x1b\\\x1b]52;c;eA==\x07" * 9_999, "")
    )
    assert title_words(called).isprintable() and len(title_words(called)) < 130


@pytest.mark.parametrize(
    ("before", "now", "calls"),
    [
        (IDLE, BUSY, False),
        (BUSY, BUSY, False),
        (BUSY, ASKED, True),
        (ASKED, ASKED, False),
        (BUSY, ChatState(activity=Idle()), True),
        (BUSY, ChatState(waiting=Waiting(queued=("next",))), False),
        (IDLE, IDLE, False),
    ],
)
def test_the_reader_is_called_when_something_waits_for_them(
    before: ChatState, now: ChatState, calls: bool
) -> None:
    assert needs_user(before, now) == calls


async def test_tasks_begin_in_turn_on_every_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Textual does from Python 3.12 on, on any: there, no chat came to the screen."""

    def eager(
        loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any
    ) -> "asyncio.Task[Any]":
        return asyncio.Task(coroutine, loop=loop, **how)

    found: list[object] = []

    async def look(pilot: Pilot[None]) -> None:
        found.append(asyncio.get_running_loop().get_task_factory())
        pilot.app.exit()

    monkeypatch.setattr(asyncio, "eager_task_factory", eager, raising=False)
    await TerminalApp[None]().run_async(headless=True, auto_pilot=look)
    assert found == [None]
