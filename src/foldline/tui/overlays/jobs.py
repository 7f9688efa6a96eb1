"""The list of background jobs, in which jobs can be stopped and their output be read."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foldline.files import read_regular
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError, system_words
from foldline.text.harmless import escaped_line
from foldline.text.numbers import elapsed
from foldline.tui.lists.page import TextScreen
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.overlays.dialogs import REFRESH_SECONDS, confirmed
from foldline.tui.session_window import AgentRunner, SessionWindow

if TYPE_CHECKING:
    from foldline.agent.tools.jobs import BackgroundJob

TITLE: Final = "Background jobs"
NO_JOBS: Final = (
    "No background jobs yet. The agent starts jobs with the background option of the bash tool: servers, "
    "watchers, long tests. They keep running after the turn, and stop when Foldline exits."
)
END_JOB: Final = "Stop job {number} and its child processes?"
STOP: Final = "Stop"
OUTPUT_OF: Final = "Output of job {number}"
UNREADABLE_OUTPUT: Final = "The output in {path} cannot be read: {error}."
LAST_PART: Final = "… The whole output is in {path}.\n"
EARLIER_RUN: Final = "(from an earlier run)"
ENDED_EARLIER: Final = "ended with Foldline"
_STOPPED = "stopped by the user"
"""The reason given to the model when a job is stopped in this list."""
_SHOWN: Final = 200_000
"""Maximum number of characters of an output that are shown, from its end."""


def open_jobs(chat: SessionWindow, runner: AgentRunner) -> None:
    """List the jobs, newest first. Outputs of earlier runs of Foldline are included."""
    from foldline.agent.tools.jobs import earlier_outputs

    jobs = runner.agent.state.tools.jobs
    earlier = earlier_outputs(
        runner.agent.state.tools.spill_dir, [job.number for job in jobs.all()]
    )

    def items() -> list[PickerItem]:
        rows = [(job.number, _item(job)) for job in jobs.all()]
        rows += [
            (number, _earlier_item(number, path)) for number, path in earlier.items()
        ]
        return [item for _, item in sorted(rows, key=lambda row: -row[0])]

    async def show(number: int) -> str:
        job = jobs.numbered(number)
        path = earlier[number] if job is None else job.output.path
        read = job.output.text if job is not None else _reader(path)
        try:
            text = await asyncio.to_thread(read)
        except OSError as error:
            raise FoldlineError(
                UNREADABLE_OUTPUT,
                path=with_tilde(str(path)),
                error=system_words(error),
            ) from None
        if len(text) > _SHOWN:
            text = LAST_PART.format(path=with_tilde(str(path))) + text[-_SHOWN:]
        title = OUTPUT_OF.format(number=number)
        chat.push_screen(TextScreen(title, text, at_end=True))
        return ""

    async def stop(number: int) -> str:
        job = jobs.numbered(number)
        if job is None or not (job.is_running or job.has_leftovers):
            return ""
        if await confirmed(chat, END_JOB.format(number=number), STOP, job.command):
            await jobs.stop(job, _STOPPED)
        return ""

    picker = Picker(
        TITLE,
        items(),
        on_take=lambda number: chat.report(show(int(number)), "output"),
        on_remove=lambda number: chat.report(stop(int(number)), "stop"),
        take_word="output",
        remove_word="stop",
        empty=NO_JOBS,
    )
    chat.push_screen(picker)
    picker.set_interval(REFRESH_SECONDS, lambda: picker.offer(items()))


def _reader(path: Path) -> Callable[[], str]:
    return lambda: read_regular(path).decode("utf-8", "replace")


def _earlier_item(number: int, path: Path) -> PickerItem:
    """Return the item of a job from an earlier run, of which only the output was kept."""
    return PickerItem(
        str(number),
        f"{number:>3} {EARLIER_RUN}",
        ENDED_EARLIER,
        detail=with_tilde(str(path)),
    )


def _item(job: "BackgroundJob") -> PickerItem:
    state = "running" if job.is_running else job.end
    if job.has_leftovers:
        state = f"still runs ({job.end})"
    elif not job.is_running and (job.status or job.why) and job.why != _STOPPED:
        state += " ✗"
    return PickerItem(
        str(job.number),
        f"{job.number:>3} {escaped_line(job.command)}",
        state,
        elapsed(job.seconds),
        with_tilde(str(job.output.path)),
    )
