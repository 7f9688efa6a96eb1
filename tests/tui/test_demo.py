import asyncio
from pathlib import Path

from foldline.history import read_log
from foldline.protocol import Compaction
from foldline.tui.demo import DemoApp
from foldline.tui.demo.recording import RECORDING, recorded_prompts


async def toured(app: DemoApp) -> None:
    async with asyncio.timeout(60):
        while not app.toured:
            await asyncio.sleep(0.02)


def test_the_recording_is_a_session_of_ours_with_two_folds() -> None:
    loaded = read_log(RECORDING)
    assert not loaded.damage
    assert sum(isinstance(entry, Compaction) for entry in loaded.entries) == 2


async def test_the_tour_plays_every_prompt_and_folds_where_the_recording_did(tmp_path: Path) -> None:
    app = DemoApp(tmp_path, pace=0)
    async with app.run_test(size=(120, 36)):
        await toured(app)
        assert app.runner is not None
        projection = app.runner.agent.session.projection
        # What a headless session folds before the next prompt, the chat folds while the answer is read: at
        # the end of the last turn, too.
        recorded = sum(entry.type == "compaction" for entry in read_log(RECORDING).entries)
        assert recorded >= 2
        assert recorded <= len(projection.folds) <= recorded + 1
        prompts = [entry for entry in projection.entries if entry.type == "user"]
        assert len(prompts) == len(recorded_prompts())


async def test_escape_stops_the_tour_and_leaves_the_session_to_the_reader(tmp_path: Path) -> None:
    app = DemoApp(tmp_path, pace=0.002)
    async with app.run_test(size=(120, 36)) as pilot:
        async with asyncio.timeout(30):
            while not app.state.busy:
                await asyncio.sleep(0.01)
        await pilot.press("escape")
        await toured(app)
        assert app.runner is not None
        await app.runner.drained()
        asked = len([entry for entry in app.runner.agent.session.entries if entry.type == "user"])
        assert asked < len(recorded_prompts())
