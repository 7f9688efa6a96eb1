"""/jobs: what runs in the background is seen while it runs, and ended only when it is asked for twice."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size

from foldline.agent.tools.jobs import Job
from foldline.protocol import DeveloperMessage
from foldline.tui.screens.jobs import _NONE, JobsScreen, OutputScreen, rows_of
from support.agents import calling
from support.chat_app import ChatApp
from support.live import Live, live


@asynccontextmanager
async def watching(folder: Path, *commands: str, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Live]:
    """The screen over these jobs, started as the tool `bash` does."""
    calls = [calling(("bash", {"command": each, "background": True})) for each in commands]
    async with live(folder, *calls, "Started.", "Noted.", size=size) as running:
        if commands:
            await running.ask("start them")
        await running.enter("/jobs")
        await running.until(lambda: isinstance(running.app.screen, JobsScreen))
        yield running


def jobs(running: Live) -> list[Job]:
    return running.agent.state.jobs.all()


async def test_without_any_it_says_how_one_comes_about(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", size=(80, 24)) as running:
        assert _NONE[0] in running.text
        await running.press("K", "enter", "escape")
        await running.until(lambda: not isinstance(running.app.screen, JobsScreen))


async def test_a_process_that_outlives_its_job_is_shown_and_can_be_ended(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", "nohup sleep 600 >/dev/null 2>&1 &", size=(80, 24)) as running:
        await running.until(lambda: "runs on (exit 0)" in running.text)
        screen = running.app.screen
        assert isinstance(screen, JobsScreen)
        screen.clock = lambda: 100.0
        await running.press("K")
        screen.clock = lambda: 102.0
        await running.press("enter")
        # Not "runs on" alone: the call's own row behind this screen may say it, of the moment it returned.
        await running.until(lambda: "runs on (exit 0)" not in running.text)
        assert not jobs(running)[0].runs_on


async def test_jobs_of_an_earlier_run_are_shown_with_their_output(tmp_path: Path) -> None:
    async with live(tmp_path / "w", "hello") as running:
        await running.ask("hello")
        outputs = running.agent.state.spill_dir
        outputs.mkdir(exist_ok=True)
        (outputs / "job-7.txt").write_text("what it wrote\n")
        await running.enter("/jobs")
        await running.until(lambda: isinstance(running.app.screen, JobsScreen))
        assert "ended with Foldline" in running.text and "job-7.txt" in running.text
        await running.press("enter")
        await running.until(lambda: "what it wrote" in running.text)


async def test_how_it_ended_is_seen_as_soon_as_it_has(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3"
    async with watching(tmp_path / "w", script) as running:
        await running.until(lambda: "1 of 1 job running" in running.text)
        gate.touch()
        await running.until(lambda: "exit 3 ✗" in running.text)
        assert "0 of 1 job running" in running.text


async def test_it_is_ended_when_asked_for_twice_and_the_model_is_told(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", "sleep 600", "sleep 601") as running:
        newest, screen = jobs(running)[-1], running.app.screen
        assert isinstance(screen, JobsScreen)
        screen.clock = lambda: 100.0
        await running.press("K")
        assert f"Enter ends job {newest.number}" in running.text
        await running.press("down", "K", "k")
        assert newest.runs
        await running.press("K", "K", "enter")
        assert newest.runs
        screen.clock = lambda: 102.0
        await running.press("enter")
        await running.until(lambda: not newest.runs)
        assert jobs(running)[0].runs
        await running.press("escape")
        await running.ask("go on")
        told = [entry.text for entry in running.entries if isinstance(entry, DeveloperMessage)]
        assert any("stopped by the user" in text for text in told)


async def test_the_whole_output_is_scrolled_and_what_comes_is_followed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"seq 1 500; while [ ! -e {gate} ]; do sleep 0.02; done; seq 501 900; sleep 600"
    async with watching(tmp_path / "w", script) as running:
        await running.press("enter")
        await running.until(lambda: isinstance(running.app.screen, OutputScreen) and " 500 " in running.text)
        gate.touch()
        await running.until(lambda: " 900 " in running.text)
        await running.press("home")
        await running.until(lambda: "34 of 900" in running.text)
        await running.press("pagedown", "up", "end")
        await running.until(lambda: "900 of 900" in running.text)
        await running.press("f1")
        await running.until(lambda: "Help · Page of text" in running.text)
        await running.press("escape")
        await running.press("escape")
        await running.until(lambda: isinstance(running.app.screen, JobsScreen))


def test_no_character_of_a_long_or_wide_line_is_lost() -> None:
    text = "短" * 50 + "\n" + "x" * 205 + "\n\nend\n"
    rows = rows_of(text, 40)
    assert "".join(rows) == text.replace("\n", "") and len(rows) == 3 + 6 + 1 + 1


async def test_more_jobs_than_rows_in_a_small_terminal(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", *["sleep 600"] * 4, size=(40, 10)) as running:
        screen = running.app.screen
        assert isinstance(screen, JobsScreen)
        seen = [screen.row.number]
        for _ in range(4):
            assert f"▶{screen.row.number:>4}".replace(" ", "") in running.text.replace(" ", "")
            await running.press("down")
            seen.append(screen.row.number)
        assert seen == [4, 3, 2, 1, 1]


async def test_a_look_that_another_one_overtakes_leaves_nothing_that_was_never_awaited(
    recwarn: pytest.WarningsRecorder,
) -> None:
    app = ChatApp()
    async with app.run_test() as pilot:
        screen = OutputScreen("output", lambda: "a line")
        await app.push_screen(screen)
        for width in (90, 60):
            screen.on_resize(events.Resize(Size(width, 24), Size(width, 24)))
        await pilot.pause()
    gc.collect()
    assert not [warned for warned in recwarn if "never awaited" in str(warned.message)]
