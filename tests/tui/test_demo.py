"""The demo: a recording played through the chat."""

import asyncio
from pathlib import Path

import pytest

from foldline.history import read_log
from foldline.protocol import Compaction
from foldline.tui.app.app import FoldlineApp
from foldline.tui.demo.replay import RECORDING, recorded_prompts, replaying_agent


def played(folder: Path, pace: float) -> FoldlineApp:
    return FoldlineApp(
        lambda: replaying_agent(folder, folder / "home", pace),
        root=folder,
        prompts=recorded_prompts(),
    )


def test_the_recording_is_a_session_of_ours_with_two_compactions() -> None:
    loaded = read_log(RECORDING)
    assert not loaded.damage
    assert sum(isinstance(entry, Compaction) for entry in loaded.entries) == 2


@pytest.mark.slow
async def test_it_plays_every_prompt_and_compacts_where_the_recording_did(
    tmp_path: Path,
) -> None:
    app = played(tmp_path, pace=0)
    async with app.run_test(size=(120, 36)) as pilot, asyncio.timeout(60):
        while app.runner is None:
            await asyncio.sleep(0.01)
        await app.runner.drained()
        await pilot.pause()
        projection = app.runner.agent.session.projection
        # A headless session compacts before the next prompt, the chat while the answer is read: at the end of
        # the last turn, too.
        recorded = sum(
            entry.type == "compaction" for entry in read_log(RECORDING).entries
        )
        assert recorded <= len(projection.all_compactions) <= recorded + 1
        prompts = [entry.text for entry in projection.entries if entry.type == "user"]
        assert prompts == recorded_prompts()


async def test_escape_pauses_it_and_leaves_the_session_to_the_user(
    tmp_path: Path,
) -> None:
    app = played(tmp_path, pace=0.002)
    async with app.run_test(size=(120, 36)) as pilot, asyncio.timeout(60):
        while not app.state.busy:
            await asyncio.sleep(0.01)
        await pilot.press("escape")
        while app.state.busy:
            await asyncio.sleep(0.01)
        assert app.runner is not None
        asked = [
            entry for entry in app.runner.agent.session.entries if entry.type == "user"
        ]
        assert len(asked) < len(recorded_prompts()) and app.state.waiting.count
