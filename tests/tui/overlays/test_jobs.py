"""/jobs: what runs in the background is listed, and stopped only after a confirmation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foldline.agent.tools.jobs import BackgroundJob
from foldline.protocol import DeveloperMessage
from foldline.tui.lists.page import TextScreen, wrapped
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.jobs import END_JOB, ENDED_EARLIER, NO_JOBS
from support.agents import tool_reply
from support.live import Live, live


@asynccontextmanager
async def watching(
    folder: Path, *commands: str, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[Live]:
    """The list of these jobs, started as the tool `bash` does."""
    calls = [
        tool_reply(("bash", {"command": each, "background": True})) for each in commands
    ]
    async with live(folder, *calls, "Started.", "Noted.", size=size) as running:
        if commands:
            await running.ask("start them")
        await running.enter("/jobs")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        yield running


def jobs(running: Live) -> list[BackgroundJob]:
    return running.agent.state.tools.jobs.all()


async def test_without_any_it_says_how_one_comes_about(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", size=(80, 24)) as running:
        assert NO_JOBS[:30] in running.text
        await running.press("delete", "enter", "escape")
        await running.until(lambda: not isinstance(running.app.screen, Picker))


@pytest.mark.slow
async def test_a_process_that_outlives_its_job_is_shown_and_can_be_ended(
    tmp_path: Path,
) -> None:
    async with watching(
        tmp_path / "w", "nohup sleep 600 >/dev/null 2>&1 &", size=(80, 24)
    ) as running:
        await running.until(lambda: "still runs (exit 0)" in running.text)
        await running.press("delete")
        await running.until(lambda: END_JOB.format(number=1) in running.text)
        await running.press("down", "enter")
        # Not "still runs" alone: the call's own row behind this screen may say it, of the moment it returned.
        await running.until(lambda: "still runs (exit 0)" not in running.text)
        assert not jobs(running)[0].has_leftovers


async def test_jobs_of_an_earlier_run_are_shown_with_their_output(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "hello") as running:
        await running.ask("hello")
        outputs = running.agent.state.tools.spill_dir
        outputs.mkdir(exist_ok=True)
        (outputs / "job-7.txt").write_text("what it wrote\n")
        await running.enter("/jobs")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert ENDED_EARLIER in running.text
        await running.press("enter")
        await running.until(lambda: "what it wrote" in running.text)


@pytest.mark.slow
async def test_how_it_ended_is_seen_as_soon_as_it_has(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3"
    async with watching(tmp_path / "w", script) as running:
        await running.until(lambda: "running" in running.text)
        gate.touch()
        await running.until(lambda: "exit 3 ✗" in running.text)


async def test_it_is_stopped_after_a_confirmation_and_the_model_learns_of_it(
    tmp_path: Path,
) -> None:
    async with watching(tmp_path / "w", "sleep 600", "sleep 601") as running:
        newest, question = jobs(running)[-1], END_JOB.format(number=2)
        await running.press("delete")
        await running.until(lambda: question in running.text)
        await running.press("enter")
        await running.until(lambda: question not in running.text)
        assert newest.is_running, "the first answer is no"
        await running.press("delete")
        await running.until(lambda: question in running.text)
        await running.press("down", "enter")
        await running.until(lambda: not newest.is_running)
        assert jobs(running)[0].is_running
        await running.press("escape")
        await running.ask("go on")
        told = [
            entry.text
            for entry in running.entries
            if isinstance(entry, DeveloperMessage)
        ]
        assert any("stopped by the user" in text for text in told)


@pytest.mark.slow
async def test_the_output_opens_at_its_end_and_scrolls(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", "seq 1 500; sleep 600") as running:
        await running.until(lambda: "500" in jobs(running)[0].output.text())
        await running.press("enter")
        await running.until(
            lambda: (
                isinstance(running.app.screen, TextScreen) and " 500 " in running.text
            )
        )
        await running.press("home")
        await running.until(lambda: " 1 " in running.text)
        assert "more lines ▼" in running.text
        await running.press("pagedown", "up", "end")
        await running.until(lambda: " 500 " in running.text)
        await running.press("f1")
        await running.until(lambda: "Help · Page of text" in running.text)
        await running.press("escape", "escape")
        await running.until(lambda: isinstance(running.app.screen, Picker))


@pytest.mark.slow
async def test_no_character_of_a_long_or_wide_line_is_lost() -> None:
    text = "短" * 50 + "\n" + "x" * 205 + "\n\nend\n"
    rows = wrapped(text, 40)
    joined = "".join(piece for row in rows for piece, _ in row)
    assert joined == text.replace("\n", "") and len(rows) == 3 + 6 + 1 + 1


@pytest.mark.slow
async def test_more_jobs_than_rows_in_a_small_terminal(tmp_path: Path) -> None:
    async with watching(tmp_path / "w", *["sleep 600"] * 4, size=(40, 10)) as running:
        screen = running.app.screen
        assert isinstance(screen, Picker)
        seen = [screen.marked]
        for _ in range(4):
            assert f"▶  {screen.marked} sleep" in running.text
            await running.press("down")
            seen.append(screen.marked)
        assert seen == ["4", "3", "2", "1", "4"]
