"""Whatever is pressed, in whatever order: in the end nothing turns any more, and nothing is lost."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.frontend.state import Idle
from foldline.llm import LLMError
from foldline.protocol import Compaction, UserMessage
from foldline.tui.blocks.block import Key
from foldline.tui.look.status import SPINNER, next_change
from foldline.view.rules import broken
from support.agents import Hang, Play, PlayedLLM, tool_reply
from support.live import Live, live, session_in
from support.runners import FULL

CALLS = tool_reply(
    ("bash", {"command": "echo one; echo two"}), ("read", {"path": "not there"})
)
ANSWERS: dict[str, Play] = {
    "says it": "## All of it\n\n- one\n- two\n\n```python\nvalue = 1\n```\n" + FULL,
    "calls tools": CALLS,
    "hangs": Hang("half a sen"),
    "fails": LLMError("The server answered 500. Try again later."),
}
SUMMARIES: dict[str, Play] = {
    "writes it": "## Goal\n- all of it",
    "hangs over it": Hang("## Goal\n"),
    "writes nothing": "",
}
KEYS = {
    "Esc": ("escape",),
    "Ctrl+C": ("ctrl+c",),
    "Inspector, and back": ("f2", "escape"),
    "preview, and back": ("f3", "escape"),
    "tools": ("ctrl+o",),
    "up and open": ("tab", "up", "up", "enter", "escape"),
    "allow": ("alt+y",),
    "decline": ("alt+n",),
    "try again": ("alt+r",),
    "the queue": ("up", "enter", "escape"),
    "page up": ("pageup",),
    "end": ("ctrl+end",),
    "/compact": (*"/compact", "enter"),
    "/undo": (*"/undo", "enter"),
    "/clear": (*"/clear", "enter"),
}
SIZES = {"small": (80, 24), "tiny": (30, 8), "large": (160, 44)}
deeds = st.lists(
    st.sampled_from(["ask", "ask at length", *KEYS, *SIZES, "wait"]), max_size=14
)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    deeds,
    st.lists(st.sampled_from(sorted(ANSWERS)), max_size=8),
    st.lists(st.sampled_from(sorted(SUMMARIES)), max_size=4),
)
def test_after_any_sequence_the_spinner_stops_and_every_entry_is_there(
    happened: Sequence[str], answers: Sequence[str], summaries: Sequence[str]
) -> None:
    async def play(folder: Path) -> None:
        model = PlayedLLM(
            *(ANSWERS[name] for name in answers),
            window=16_384,
            summaries=tuple(SUMMARIES[name] for name in summaries),
        )
        async with live(
            folder, llm=model, session=session_in(folder), approvals="ask"
        ) as running:
            seen: list[Key] = []
            for deed in happened:
                await _do(running, deed)
                seen = _still_there(running, seen)
            await _come_to_rest(running)
            _still_there(running, seen)
            _at_rest(running)

    with tempfile.TemporaryDirectory(prefix="foldline-any-") as folder:
        asyncio.run(play(Path(folder) / "project"))


async def _do(running: Live, deed: str) -> None:
    if deed in KEYS:
        await running.press(*KEYS[deed])
    elif deed in SIZES:
        await running.pilot.resize_terminal(*SIZES[deed])
    elif deed == "wait":
        await _wait(running)
    elif running.app.screen is running.app.chat:
        running.app.chat.prompt.editor.focus()
        await running.enter(f"{deed} {FULL if deed == 'ask at length' else ''}")


async def _wait(running: Live) -> None:
    running.app.chat.clock.now += 2.0  # type: ignore[attr-defined]
    await running.pilot.pause()


def _entry_keys(running: Live) -> list[Key]:
    """Blocks that show entries; those of what streams have no place in the history yet."""
    last = running.agent.session.projection.last_index
    return [block.key for block in running.blocks if 0 <= block.key[0] <= last]


def _still_there(running: Live, seen: Sequence[Key]) -> list[Key]:
    """No entry that was shown is gone, and all are in order."""
    now = _entry_keys(running)
    assert now == sorted(now)
    assert {key[0] for key in seen} <= {key[0] for key in now}
    return now


async def _come_to_rest(running: Live) -> None:
    """Steps outwards until nothing runs: every question declined, every compaction and turn cancelled."""
    for _ in range(40):
        if running.app.screen is running.app.chat and not running.agent.executor.busy:
            break
        await _wait(running)  # a question is deaf when it has only just appeared
        await running.press("escape")
    await running.at_rest()


def _at_rest(running: Live) -> None:
    state = running.app.state
    assert (state.activity, state.compacting, state.questions, state.tools) == (
        Idle(),
        None,
        (),
        (),
    )
    assert not state.busy and not state.cancelling
    assert state.news is None or next_change(state, state.news.since + 3600) is None
    if running.app.size.height >= 18:
        assert not any(sign in running.screen[-2] for sign in SPINNER)
    assert broken(running.agent.session.projection) == []
    shown = {key[0] for key in _entry_keys(running)}
    told = {
        entry.index
        for entry in running.entries
        if isinstance(entry, UserMessage | Compaction)
    }
    assert told <= shown
