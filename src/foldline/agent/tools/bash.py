"""The `bash` and `jobs` tools, for commands in the foreground and in the background."""

import asyncio
import codecs
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from foldline.agent.permissions.approvals import WRITES
from foldline.agent.permissions.confinement import SandboxReport
from foldline.agent.settings.api_keys import Mask
from foldline.programs import shell
from foldline.protocol import FoldlineError, Rule
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many
from foldline.text.shorten import clip
from foldline.view.tokens import estimate_tokens

from .bans import why_banned
from .base import (
    Arguments,
    BaseTool,
    RuleSet,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    fitted,
    named,
)
from .jobs import KEPT_END, KEPT_START, BackgroundJob, earlier_outputs, gap, output_path
from .known_commands import leading_words
from .paths import command_inside
from .process import ending, environment, spawn, still_running
from .shell_syntax import Word, read
from .text import FullText, clipped, line_count, lines_from, printed, with_notes

_SHOWN_EVERY = 1 / 30
"""Minimum time between two screen updates of a command's output, in seconds."""
_SHOWN_AT_ONCE = 16_000
"""Maximum number of characters per screen update.

If there are more, only the newest are shown.
"""
_START_SECONDS = 0.4
"""Time to wait after starting a job, in seconds.

Most failures happen within this time.
"""
_TIMEOUT = 120
"""Default timeout for a command, in seconds."""
_LONGEST_RULE = 2_000
"""Maximum length, in characters, of a command for which "always" is offered.

The user could not read a longer one in full.
"""
_LINES = 100
"""Number of lines of a job's output that are shown by default."""
TIMED_OUT = (
    "[timed out after {seconds:g} s: the command and everything it started were ended]"
)
BANNED = "Not run: this agent's file bans `{ban}`, and {why}."
NO_JOBS = "No background jobs yet."
NO_NUMBER = "`{action}` needs the number of a job: pass it as `job`."
NO_JOB = "There is no job {number}. {hint}"
CLOSED = "ended when Foldline was closed"
EARLIER_JOB = "Job {number} {closed}. Its output is in {path}."


class BashArguments(Arguments):
    command: str = Field(min_length=1, description="The command.")
    timeout: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="Seconds until it is ended; by default 120, and no limit in the background.",
    )
    background: bool = Field(
        False, description="Return at once and leave the command running; see `jobs`."
    )


class BashTool(BaseTool[BashArguments]):
    name = "bash"
    description = (
        "Run a command with bash in the working directory, without input. Start servers and other long "
        "commands with background instead of `&`."
    )
    level = "run"
    in_sandbox = True
    arguments = BashArguments
    never: Sequence[str] = ()
    """Commands that the agent's file bans, such as `git push *`."""

    def headline(self, arguments: BashArguments) -> str:
        return arguments.command

    def stays_inside(self, arguments: BashArguments, context: ToolContext) -> bool:
        """Return whether all paths in the command are inside the working folder.

        This is a hint for approvals, not a security barrier.
        """
        self._refuse_banned(arguments)
        # A command with a NUL cannot run.
        return "\x00" in arguments.command or command_inside(
            arguments.command, context.cwd
        )

    def rules_of(
        self, arguments: BashArguments, cwd: Path | None
    ) -> tuple[RuleSet, ...]:
        """Return rule sets for a command line.

        If possible, the first set has a rule for the leading words of each simple command, and one for
        writing files. The last set is a rule for the exact command line. `cd` to the working folder needs no
        rule.
        """
        command = arguments.command
        # The user must see the whole command, without hidden or reordering characters.
        legible = all(char.isprintable() or char in "\n\t" for char in command)
        if len(command) > _LONGEST_RULE or not legible:
            return ()
        exact = (Rule(tool=self.name, pattern=command, exact=True),)
        reading = read(command)
        if reading is None or not reading.is_plain or not reading.commands:
            return (exact,)
        stay = (Word("cd"), Word(str(cwd)))
        leading = [
            leading_words(simple) for simple in reading.commands if simple.words != stay
        ]
        if not leading or not all(leading):
            return (exact,)
        rules = [
            Rule(tool=self.name, pattern=words, part=True)
            for words in dict.fromkeys(leading)
        ]
        if reading.writes:
            rules.append(WRITES)
        return tuple(rules), exact

    def diff(self, arguments: BashArguments, context: ToolContext) -> str | None:
        self._refuse_banned(arguments)
        return None

    def _refuse_banned(self, arguments: BashArguments) -> None:
        """Check the command against the bans in the agent's file.

        Raises:
            ToolFailure: the command is banned.
        """
        for ban in self.never:
            if why := why_banned(ban, arguments.command):
                raise ToolFailure(BANNED, "forbidden ✗", ban=ban, why=why)

    async def act(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        await asyncio.to_thread(self._refuse_banned, arguments)
        if arguments.background:
            return await _in_background(arguments, context)
        seconds = arguments.timeout or _TIMEOUT
        output = Output(context.output, context.mask)
        end = await run_command(arguments.command, context, output, seconds)
        text = await asyncio.to_thread(output.text)
        if end.timed_out:
            brief = "timed out ✗"
            note = TIMED_OUT.format(seconds=seconds)
        else:
            brief, note = ending_words(end.status, bool(text))
        notes = [note]
        if end.is_held:
            notes.append(
                "[background processes that kept the output open were ended; to keep "
                "such a process, start it with `background`]"
            )
        if end.remaining:
            notes.append(f"[{still_running(end.remaining)}]")
        is_error = end.timed_out or bool(end.status)
        report = SandboxReport()
        if context.box is not None:
            report = await asyncio.to_thread(
                context.box.report, text, failed=bool(end.status), is_asked=True
            )
        text, full = await fitted(text, context, self.name, *notes, report.words)
        return ToolOutcome(
            text,
            is_error,
            brief,
            full_output=full,
            refused=report.blocked,
            made=report.created,
        )


async def _in_background(arguments: BashArguments, context: ToolContext) -> ToolOutcome:
    argv = [shell(), "-c", arguments.command]
    try:
        job = context.jobs.start(
            argv,
            arguments.command,
            context.cwd,
            environment(),
            context.spill_dir,
            arguments.timeout,
            context.mask,
            context.box,
        )
    except FoldlineError as error:
        raise ToolFailure(str(error)) from None
    await job.wait(_START_SECONDS)
    return await _state_of(job, context, is_error=bool(job.status or job.why))


class CommandEnd(NamedTuple):
    """How a command ended."""

    status: int
    timed_out: bool
    is_held: bool
    """Whether processes that kept the output open were ended."""
    remaining: Sequence[int]
    """PIDs of processes that the command left running."""


async def run_command(
    command: str, context: ToolContext, output: "Output", seconds: float | None = None
) -> CommandEnd:
    """Run a command until it ends or times out.

    Raises:
        OSError: the command could not be started.
    """
    timed_out = False
    is_held = False
    leftovers = context.jobs.left
    argv = [shell(), "-c", command]
    try:
        async with spawn(
            argv, context.cwd, environment(), leftovers, context.box
        ) as child:
            try:
                async with asyncio.timeout(seconds):
                    is_held = await child.follow(output.take) is None
            except TimeoutError:
                timed_out = True
            status = child.status or 0
    finally:
        output.close()
    return CommandEnd(status, timed_out, is_held, await leftovers.running(child.pid))


class Output:
    """Collects a program's output, and shows it at a limited rate."""

    def __init__(self, show: Callable[[str], None], mask: Mask) -> None:
        self._show = show
        self._mask_stream = mask.stream()
        self._start = bytearray()
        self._end = bytearray()
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, chunk: bytes) -> bool:
        self._keep(self._mask_stream.feed(chunk))
        return True

    def _keep(self, chunk: bytes) -> None:
        room = KEPT_START - len(self._start)
        self._start += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * KEPT_END:
            self._left_out += len(self._end) - KEPT_END
            del self._end[:-KEPT_END]
        self._pending = (self._pending + self._decoder.decode(chunk))[-_SHOWN_AT_ONCE:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                _SHOWN_EVERY, self._flush
            )

    def close(self) -> None:
        """Show the output that has not been shown yet."""
        self._keep(self._mask_stream.rest())
        if self._timer is not None:
            self._timer.cancel()
        self._pending += self._decoder.decode(b"", final=True)
        self._flush()

    def text(self) -> str:
        """Return the output as a terminal would show it.

        If it is too long, the middle is left out.
        """
        if not self._left_out:
            return printed(bytes(self._start + self._end))
        start = printed(bytes(self._start))
        return start + gap(self._left_out) + printed(bytes(self._end))

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            self._show(self._pending)
            self._pending = ""


def ending_words(status: int, has_output: bool) -> tuple[str, str]:
    """Return a program's outcome in a few words, and a note to append to its output."""
    words = ending(status)
    if status < 0:
        return f"{words} ✗", f"[ended by {words}]"
    if status > 0:
        return f"{words} ✗", f"[{words}]"
    return words, "" if has_output else f"[no output, {words}]"


# --- jobs -------------------------------------------------------------------------------------------


class JobsArguments(Arguments):
    action: Literal["list", "output", "wait", "stop"] = Field(
        "list",
        description="output: the newest lines; wait: the same, once the job has ended.",
    )
    job: int | None = Field(None, description="The job's number.")
    seconds: float = Field(60, gt=0, le=600, description="Maximum seconds to wait.")
    lines: int = Field(_LINES, ge=1, le=10_000, description="Number of lines to show.")


class JobsTool(BaseTool[JobsArguments]):
    name = "jobs"
    description = "List, read or stop the background commands of bash, which run until Foldline exits."
    arguments = JobsArguments

    def headline(self, arguments: JobsArguments) -> str:
        number = "" if arguments.job is None else f" {arguments.job}"
        return f"{arguments.action}{number}"

    async def act(self, arguments: JobsArguments, context: ToolContext) -> ToolOutcome:
        if arguments.action == "list":
            return await _job_list(context)
        job = _requested_job(arguments, context)
        if arguments.action == "stop":
            await context.jobs.stop(job)
        elif arguments.action == "wait":
            await job.wait(arguments.seconds)
        return await _state_of(job, context, arguments.lines)


async def _job_list(context: ToolContext) -> ToolOutcome:
    jobs = context.jobs.all()
    numbers = [job.number for job in jobs]
    earlier = await asyncio.to_thread(earlier_outputs, context.spill_dir, numbers)
    if not jobs and not earlier:
        return ToolOutcome(NO_JOBS, brief="no jobs")
    lines = [
        f"{number}  {CLOSED}; its output: {named(path, context)}"
        for number, path in earlier.items()
    ]
    lines += [
        f"{job.number}  {_state(job)}  {clip(escaped_line(job.command), 120)}"
        for job in jobs
    ]
    for job in jobs:
        job.reported = not job.is_running
    running = sum(job.is_running for job in jobs)
    text, full = await fitted("\n".join(lines), context, JobsTool.name)
    return ToolOutcome(
        text, brief=f"{running} of {many(len(lines), 'job')} running", full_output=full
    )


def _requested_job(arguments: JobsArguments, context: ToolContext) -> BackgroundJob:
    """Return the job with the number given in the call.

    Raises:
        ToolFailure: no number is given, or there is no job with this number.
    """
    if arguments.job is None:
        raise ToolFailure(NO_NUMBER, action=arguments.action)
    job = context.jobs.numbered(arguments.job)
    if job is not None:
        return job
    path = output_path(arguments.job, context.spill_dir)
    if path.exists():
        shown = named(path, context)
        raise ToolFailure(
            EARLIER_JOB, "ended", number=arguments.job, closed=CLOSED, path=shown
        )
    numbers = ", ".join(str(job.number) for job in context.jobs.all())
    hint = f"Jobs: {numbers}." if numbers else NO_JOBS
    raise ToolFailure(NO_JOB, "no such job ✗", number=arguments.job, hint=hint)


async def _state_of(
    job: BackgroundJob,
    context: ToolContext,
    lines: int = _LINES,
    *,
    is_error: bool = False,
) -> ToolOutcome:
    """Return a job's state and newest lines.

    A job that has ended is marked as reported.
    """
    job.reported = not job.is_running
    text = await asyncio.to_thread(_newest_lines, job, context, lines)
    brief = f"job {job.number} {job.state}"
    if job.has_leftovers:
        brief += ", runs on"
    return ToolOutcome(
        text, is_error=is_error, brief=brief, full_output=str(job.output.path)
    )


def _newest_lines(job: BackgroundJob, context: ToolContext, lines: int) -> str:
    text = job.output.text()
    path = named(job.output.path, context)
    total = line_count(text)
    first = max(1, total - lines + 1)
    if total == 0 and job.is_running:
        about = "no output yet"
    elif total == 0:
        about = f"its output: {path}, empty"
    elif first > 1:
        about = f"its output: {path}, lines {first}–{total} shown"
    else:
        about = f"its output: {path}"
    note = f"[job {job.number} {_state(job)}; {about}]"
    room = context.max_tokens - estimate_tokens(note)
    return with_notes(
        clipped(lines_from(text, first, None), room, FullText(path, first)), note
    )


def _state(job: BackgroundJob) -> str:
    seconds = job.seconds
    if seconds < 120:
        duration = f"{seconds:.0f} s"
    elif seconds < 7200:
        duration = f"{seconds / 60:.0f} min"
    else:
        duration = f"{seconds / 3600:.1f} h"
    state = f"{job.state} ({duration})"
    return f"{state}, {job.leftover}" if job.leftover else state
