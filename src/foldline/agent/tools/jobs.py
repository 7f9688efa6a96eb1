"""The tool `jobs`: what runs in the background. `bash` with `background` starts it."""

import asyncio
from typing import Literal

from pydantic import Field

from foldline.context.numbers import many
from foldline.context.tokens import estimate_tokens

from .background import Job
from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import Whole, clipped, fitted, with_notes
from .failure import ToolFailure
from .keeping import file_of
from .paths import named
from .text import line_count, lines_from, one_line

_LINES = 100
"""Lines shown of the end of an output."""


class JobsArguments(Arguments):
    action: Literal["list", "output", "wait", "stop"] = Field(
        "list",
        description="output: its newest lines; wait: the same, once it has ended.",
    )
    job: int | None = Field(None, description="Its number.")
    seconds: float = Field(60, gt=0, le=600, description="To wait at most.")
    lines: int = Field(_LINES, ge=1, le=10_000, description="How many to show.")


class JobsTool(BaseTool[JobsArguments]):
    name = "jobs"
    description = "Commands that bash runs in the background, until Foldline ends."
    level = "read"

    def __init__(self) -> None:
        super().__init__(JobsArguments)

    def headline(self, arguments: JobsArguments) -> str:
        number = "" if arguments.job is None else f" {arguments.job}"
        return f"{arguments.action}{number}"

    async def act(self, arguments: JobsArguments, context: ToolContext) -> ToolOutcome:
        if arguments.action == "list":
            return await _listed(context)
        job = _asked(arguments, context)
        if arguments.action == "stop":
            await context.jobs.stop(job)
        elif arguments.action == "wait":
            await job.wait(arguments.seconds)
        job.told = not job.runs
        text = await asyncio.to_thread(newest, job, context, arguments.lines)
        return ToolOutcome(text, brief=f"job {job.number} {job.state}", full_output=str(job.kept.path))


async def _listed(context: ToolContext) -> ToolOutcome:
    jobs = context.jobs.all()
    if not jobs:
        return ToolOutcome("No job was started since Foldline was.", brief="no jobs")
    lines = [f"{job.number}  {_state(job)}  {_in_short(job.command)}" for job in jobs]
    for job in jobs:
        job.told = not job.runs
    running = sum(job.runs for job in jobs)
    text, full = await fitted("\n".join(lines), context, JobsTool.name)
    return ToolOutcome(text, brief=f"{running} of {many(len(jobs), 'job')} running", full_output=full)


def _asked(arguments: JobsArguments, context: ToolContext) -> Job:
    """The job the call is about.

    Raises:
        ToolFailure: there is none with this number.
    """
    if arguments.job is None:
        raise ToolFailure(f"Which job is to be {_DONE[arguments.action]}? Give its number as `job`.")
    found = context.jobs.numbered(arguments.job)
    if found is not None:
        return found
    path = file_of(arguments.job, context.spill_dir)
    if path.exists():
        raise ToolFailure(
            f"Job {arguments.job} ended when Foldline was closed. What it wrote until then is in "
            f"{named(path, context)}.",
            brief="ended",
        )
    numbers = ", ".join(str(job.number) for job in context.jobs.all())
    there = f"There are: {numbers}." if numbers else "None was started since Foldline was."
    raise ToolFailure(f"There is no job {arguments.job}. {there}", brief="no such job ✗")


_DONE = {"output": "shown", "wait": "waited for", "stop": "stopped"}


def newest(job: Job, context: ToolContext, lines: int = _LINES) -> str:
    """How a job stands and the newest lines it has written. Reads its file: call it off the event loop."""
    text = job.kept.text()
    total = line_count(text)
    first = max(1, total - lines + 1)
    note = f"[job {job.number} {_state(job)}; its output: {named(job.kept.path, context)}]"
    if total == 0:
        note = f"[job {job.number} {_state(job)}; no output yet]" if job.runs else f"{note[:-1]}, empty]"
    elif first > 1:
        note = f"{note[:-1]}, lines {first}–{total} shown]"
    room = context.max_tokens - estimate_tokens(note)
    whole = Whole(named(job.kept.path, context), first)
    return with_notes(clipped(lines_from(text, first, None), room, whole), note)


def _state(job: Job) -> str:
    return f"{job.state} ({_duration(job.seconds)})"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _in_short(command: str) -> str:
    line = one_line(command)
    return line if len(line) <= 120 else line[:119] + "…"
