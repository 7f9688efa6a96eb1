"""Connects the Jobs screen to the agent: /jobs."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from foldline.history.paths import home_apart
from foldline.protocol import FoldlineError, system_words
from foldline.tui.jobs.state import JobRow
from foldline.tui.runner import Runner

_STOPPED = "stopped by the user"
"""Why a job ended that was ended here: in the words the model is told it in."""

if TYPE_CHECKING:
    from foldline.agent.tools.background import Job, Jobs
    from foldline.tui.app import FoldlineApp


def job_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    def show(runner: Runner, _: str) -> None:
        from foldline.tui.jobs.screen import JobsScreen

        app.push_screen(JobsScreen(AgentJobs(runner.agent.desk.jobs)))

    return {"jobs": show}


class AgentJobs:
    """The jobs of one agent."""

    def __init__(self, jobs: "Jobs", now: Callable[[], datetime] = datetime.now) -> None:
        self._jobs = jobs
        self._now = now

    def rows(self) -> Sequence[JobRow]:
        now = self._now()
        return [_row(job, now) for job in sorted(self._jobs.all(), key=lambda job: -job.number)]

    def tail(self, number: int, size: int) -> str:
        return self._reading(number, lambda job: job.kept.tail(size))

    def output(self, number: int) -> Callable[[], str]:
        return lambda: self._reading(number, lambda job: job.kept.text())

    async def end(self, number: int) -> None:
        job = self._jobs.numbered(number)
        if job is not None:
            await self._jobs.stop(job, _STOPPED)

    def _reading(self, number: int, read: Callable[["Job"], str]) -> str:
        job = self._jobs.numbered(number)
        if job is None:
            return ""
        try:
            return read(job)
        except OSError as error:
            raise FoldlineError(
                f"Its output in {home_apart(str(job.kept.path))} cannot be read: {system_words(error)}."
            ) from None


def _row(job: "Job", now: datetime) -> JobRow:
    from foldline.agent.tools.text import one_line

    began = now - timedelta(seconds=job.age)
    return JobRow(
        job.number,
        one_line(job.command),
        ending="" if job.runs else job.state.removeprefix("ended: "),
        failed=not job.runs and bool(job.status or job.why) and job.why != _STOPPED,
        since=f"{began:%H:%M}",
        seconds=job.seconds,
        path=home_apart(str(job.kept.path)),
    )
