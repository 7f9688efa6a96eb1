"""The demo: a recording played by the real program, then a tour of the keyboard."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from foldline.history import read_log
from foldline.protocol import Compaction
from foldline.tui.blocks.cells import wrap
from foldline.tui.demo import DemoApp
from foldline.tui.demo.tour import LAST, RECORDING, Facts, Tour, further, look, recorded_prompts, steps
from support.chat_app import Clock, screen_text


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
    await pilot.pause()


def test_the_recording_is_a_session_of_ours_with_two_folds() -> None:
    loaded = read_log(RECORDING)
    assert not loaded.damage
    assert sum(isinstance(entry, Compaction) for entry in loaded.entries) == 2


async def test_it_plays_every_prompt_and_folds_where_the_recording_did(tmp_path: Path) -> None:
    app = DemoApp(tmp_path, pace=0)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.played)
        assert app.runner is not None
        projection = app.runner.agent.session.projection
        # A headless session compacts before the next prompt, the chat while the answer is read: at the end of
        # the last turn, too.
        recorded = sum(entry.type == "compaction" for entry in read_log(RECORDING).entries)
        assert recorded >= 2
        assert recorded <= len(projection.all_compactions) <= recorded + 1
        prompts = [entry for entry in projection.entries if entry.type == "user"]
        assert len(prompts) == len(recorded_prompts())


async def test_escape_stops_the_playing_and_leaves_the_session_to_the_reader(tmp_path: Path) -> None:
    app = DemoApp(tmp_path, pace=0.002)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.state.busy)
        await pilot.press("escape")
        await until(pilot, lambda: app.played)
        assert app.runner is not None
        await app.runner.drained()
        asked = len([entry for entry in app.runner.agent.session.entries if entry.type == "user"])
        assert asked < len(recorded_prompts())
        assert app.chat.prompt.editor.text == ""


KEYS: dict[str, tuple[str, ...]] = {
    "Nothing is gone": ("tab", "left_curly_bracket", "enter"),
    "Two sides": ("f2",),
    "Two panels, one place": ("home", "down", "g"),
    "Back in time": ("comma",),
    "And back": ("0",),
    "Your word counts": ("left_square_bracket", "p"),
    "Take it back": ("u",),
    "Before it happens": ("f2", "f3"),
    "Move the cut": ("plus", "escape"),
    "Undo a compaction": ("escape", *"/undo", "enter"),
    "Everything": ("ctrl+p",),
}
"""What a newcomer presses at each step."""


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (170, 44)])
async def test_the_whole_tour_is_walked_with_the_keys_it_names(tmp_path: Path, size: tuple[int, int]) -> None:
    clock = Clock()
    app = DemoApp(tmp_path, pace=0, clock=clock)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.played and not app.state.busy)
        for title, keys in KEYS.items():
            await until(pilot, lambda title=title: f"▸ {title} ─" in screen_text(app)[0])  # type: ignore[misc]
            await pilot.press(*keys)
            if "/" in keys:
                await until(pilot, lambda: app.state.question is not None)
                clock.now += 2.0  # a new question takes no key for its first second
                await pilot.press("enter")
        await until(pilot, lambda: app.tour is not None and app.tour.over)
        assert "The tour ends here" in screen_text(app)[0]
        await pilot.press("f9")
        await until(pilot, lambda: "The tour ends here" not in screen_text(app)[0])


def test_a_step_begins_when_the_one_before_is_done_and_what_cannot_be_done_is_left_out() -> None:
    tour, watching = Tour(steps()), Facts()
    assert look(tour, watching) is tour
    played = replace(watching, played=True, compactions=1)
    assert look(tour, played).at == 1
    without = replace(played, compactions=0)
    assert look(look(tour, without), without).at == 2, "no summary can be opened"


def test_skipped_to_the_end_it_is_over_and_stays_so() -> None:
    tour = Tour(steps())
    for _ in range(2 * len(tour.steps)):
        tour = further(tour, Facts())
    assert tour.over and tour.step is None and look(tour, Facts(played=True)) == tour


@pytest.mark.parametrize("say", [LAST, *(step.say for step in steps())])
def test_what_a_step_says_is_seen_whole_on_a_small_screen(say: str) -> None:
    assert len(wrap(say, 78)) <= 3 and len(wrap(say, 108)) <= 2


def test_the_numbers_of_the_steps_follow_each_other_whatever_is_skipped_or_cannot_be_done() -> None:
    for facts in (
        Facts(played=True),
        Facts(played=True, compactions=2),
        Facts(played=True, compactions=2, previewed=True),
    ):
        tour = Tour(steps())
        numbers = [tour.number]
        while not (tour := further(tour, facts)).over:
            numbers.append(tour.number)
        assert numbers == list(range(1, tour.count + 1))
        assert look(tour, facts) == tour
