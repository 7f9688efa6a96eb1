"""The tools `bash` and `jobs`: a command, its output as it comes, and never a process left behind."""

import asyncio
import codecs
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from foldline.context.digest import clip
from foldline.context.numbers import many
from foldline.context.tokens import estimate_tokens
from foldline.programs import shell
from foldline.protocol import FoldlineError, Rule

from ..api_keys import Mask
from ..approvals import WRITES
from .bans import why_banned
from .base import Arguments, BaseTool, RuleSet, ToolContext, ToolFailure, ToolOutcome, fitted, named
from .jobs import KEPT_END, KEPT_START, Job, earlier_outputs, file_of, gap
from .known_commands import leading_words
from .paths import command_inside
from .process import ending, environment, spawn, still_running
from .shell_syntax import Word, read
from .text import FullText, clipped, line_count, lines_from, one_line, printed, with_notes

_SHOWN_EVERY = 1 / 30
"""Seconds between two pieces for the screen."""
_SHOWN_AT_ONCE = 16_000
"""Characters of a piece for the screen; of a faster program only the newest are shown."""
_AT_ONCE = 0.4
"""Seconds a job is looked at after its start: what fails, mostly fails at once."""
_SECONDS = 120
"""Seconds after which a command is ended, where nothing else is asked for."""
_LONGEST_RULE = 2_000
"""Characters of a command that may always run: more than that is read by nobody."""
_LINES = 100
"""Lines shown of the end of a job's output."""
_HELD = (
    "[processes in the background still held the output and were ended; "
    "to keep one, start it with background]"
)


class BashArguments(Arguments):
    command: str = Field(min_length=1, description="The command.")
    timeout: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="Seconds until it is ended; if left out 120, in the background none.",
    )
    background: bool = Field(False, description="Return at once and let it run; see `jobs`.")


class BashTool(BaseTool[BashArguments]):
    name = "bash"
    description = (
        "Run a command with bash in the working directory, without input. Start a server, or anything that "
        "runs long, with background instead of `&`."
    )
    level = "run"
    in_sandbox = True
    arguments = BashArguments
    never: Sequence[str] = ()  # what an agent's file forbids: `git push *`

    def headline(self, arguments: BashArguments) -> str:
        return arguments.command

    def stays_inside(self, arguments: BashArguments, context: ToolContext) -> bool:
        """By the paths its words name: a hint for "always" rules, no wall. The unclear counts as outside."""
        self._refuse_banned(arguments)
        # With a NUL in it, it will not run.
        return "\x00" in arguments.command or command_inside(arguments.command, context.cwd)

    def rules_of(self, arguments: BashArguments, cwd: Path | None) -> tuple[RuleSet, ...]:
        """One for each simple command, by its leading words, where these say what it does, and one for the
        files that are written; else, or besides, this very command line. To go where one is needs none."""
        command = arguments.command
        # A reader must see all there is of it: nothing that hides, or turns the rest around.
        legible = all(char.isprintable() or char in "\n\t" for char in command)
        if len(command) > _LONGEST_RULE or not legible:
            return ()
        exact = (Rule(tool=self.name, pattern=command, exact=True),)
        reading = read(command)
        if reading is None or not reading.is_plain or not reading.commands:
            return (exact,)
        stay = (Word("cd"), Word(str(cwd)))
        leading = [leading_words(each) for each in reading.commands if each.words != stay]
        if not leading or not all(leading):
            return (exact,)
        parts = [Rule(tool=self.name, pattern=words, part=True) for words in dict.fromkeys(leading)]
        return (*parts, *([WRITES] if reading.writes else [])), exact

    def older_rules(self, arguments: dict[str, Any]) -> tuple[Rule, ...]:
        """A command by itself: to older versions there was no other that had leading words."""
        command = arguments.get("command")
        reading = read(command) if isinstance(command, str) else None
        leading = leading_words(reading.commands[0]) if reading is not None and reading.is_bare else ""
        return (Rule(tool=self.name, pattern=leading),) if leading else ()

    def diff(self, arguments: BashArguments, context: ToolContext) -> str | None:
        self._refuse_banned(arguments)
        return None

    def _refuse_banned(self, arguments: BashArguments) -> None:
        """
        Raises:
            ToolFailure: the agent's file bans the command.
        """
        for ban in self.never:
            if why := why_banned(ban, arguments.command):
                raise ToolFailure(f"Not run: this agent's file bans `{ban}`, and {why}.", "forbidden ✗")

    async def act(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        await asyncio.to_thread(self._refuse_banned, arguments)
        argv = [shell(), "-c", arguments.command]
        if arguments.background:
            return await _in_background(argv, arguments, context)
        seconds = arguments.timeout or _SECONDS
        output = Output(context.output, context.mask)
        timed_out = held = False
        status: int | None = None
        try:
            async with spawn(argv, context.cwd, environment(), context.jobs.left, context.box) as child:
                try:
                    async with asyncio.timeout(seconds):
                        status = await child.follow(output.take)
                except TimeoutError:
                    timed_out = True
                else:
                    held = status is None
                    status = child.status
        finally:
            output.close()
        text = await asyncio.to_thread(output.text)
        remaining = await context.jobs.left.running(child.pid)
        if timed_out:
            brief = "timed out ✗"
            note = f"[timed out after {seconds:g} s: the command and all it started were ended]"
        else:
            brief, note = ending_words(status or 0, bool(text))
        is_error = timed_out or bool(status)
        box = context.box
        seen = None
        if box is not None:
            seen = await asyncio.to_thread(box.seen, text, failed=bool(status), is_asked=True)
        left = f"[{still_running(remaining)}]" if remaining else ""
        notes = [note, _HELD if held else "", left, seen.words if seen else ""]
        text, full = await fitted(text, context, self.name, *notes)
        outcome = ToolOutcome(text, is_error, brief, full_output=full)
        return replace(outcome, refused=seen.refused, made=seen.made) if seen else outcome


async def _in_background(argv: list[str], arguments: BashArguments, context: ToolContext) -> ToolOutcome:
    command, folder = arguments.command, context.spill_dir
    try:
        job = context.jobs.start(
            argv, command, context.cwd, environment(), folder, arguments.timeout, context.mask, context.box
        )
    except FoldlineError as error:
        raise ToolFailure(str(error)) from None
    await job.wait(_AT_ONCE)
    return await _state_of(job, context, is_error=bool(job.status or job.why))


class Output:
    """Collects a program's output, and passes it on to the screen at a pace a reader's screen can take."""

    def __init__(self, show: Callable[[str], None], mask: Mask) -> None:
        self._show = show
        self._masked = mask.stream()
        self._start = bytearray()
        self._end = bytearray()
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, chunk: bytes) -> bool:
        self._keep(self._masked.feed(chunk))
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
            self._timer = asyncio.get_running_loop().call_later(_SHOWN_EVERY, self._flush)

    def close(self) -> None:
        """Pass on what is still waiting."""
        self._keep(self._masked.rest())
        if self._timer is not None:
            self._timer.cancel()
        self._pending += self._decoder.decode(b"", final=True)
        self._flush()

    def text(self) -> str:
        """All that was kept, as a terminal would have left it."""
        if not self._left_out:
            return printed(bytes(self._start + self._end))
        return printed(bytes(self._start)) + gap(self._left_out) + printed(bytes(self._end))

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            self._show(self._pending)
            self._pending = ""


def ending_words(status: int, has_output: bool) -> tuple[str, str]:
    """The outcome in a few words, and what the model reads after the output."""
    if status == 0:
        return "exit 0", "" if has_output else "[no output, exit 0]"
    how = ending(status)
    return f"{how} ✗", f"[ended by {how}]" if status < 0 else f"[{how}]"


# --- jobs -------------------------------------------------------------------------------------------


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
    arguments = JobsArguments

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
        return await _state_of(job, context, arguments.lines)


async def _listed(context: ToolContext) -> ToolOutcome:
    jobs = context.jobs.all()
    known = [job.number for job in jobs]
    earlier = await asyncio.to_thread(earlier_outputs, context.spill_dir, known)
    if not jobs and not earlier:
        return ToolOutcome(_NO_JOBS, brief="no jobs")
    lines = [f"{number}  {_CLOSED}; its output: {named(path, context)}" for number, path in earlier.items()]
    lines += [f"{job.number}  {_state(job)}  {clip(one_line(job.command), 120)}" for job in jobs]
    for job in jobs:
        job.reported = not job.runs
    running = sum(job.runs for job in jobs)
    text, full = await fitted("\n".join(lines), context, JobsTool.name)
    return ToolOutcome(text, brief=f"{running} of {many(len(lines), 'job')} running", full_output=full)


_NO_JOBS = "No background jobs yet."
_CLOSED = "ended when Foldline was closed"
_DONE = {"output": "shown", "wait": "waited for", "stop": "stopped"}


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
            f"Job {arguments.job} {_CLOSED}. What it wrote until then is in {named(path, context)}.",
            brief="ended",
        )
    numbers = ", ".join(str(job.number) for job in context.jobs.all())
    there = f"There are: {numbers}." if numbers else _NO_JOBS
    raise ToolFailure(f"There is no job {arguments.job}. {there}", brief="no such job ✗")


async def _state_of(
    job: Job, context: ToolContext, lines: int = _LINES, *, is_error: bool = False
) -> ToolOutcome:
    """How a job stands and the newest lines it has written. The model then knows whether it has ended."""
    job.reported = not job.runs
    text = await asyncio.to_thread(_newest, job, context, lines)
    brief = f"job {job.number} {job.state}{', runs on' if job.runs_on else ''}"
    return ToolOutcome(text, is_error=is_error, brief=brief, full_output=str(job.kept.path))


def _newest(job: Job, context: ToolContext, lines: int) -> str:
    text, path = job.kept.text(), named(job.kept.path, context)
    total = line_count(text)
    first = max(1, total - lines + 1)
    about = f"job {job.number} {_state(job)}"
    if total == 0:
        note = f"[{about}; no output yet]" if job.runs else f"[{about}; its output: {path}, empty]"
    else:
        note = f"[{about}; its output: {path}{f', lines {first}–{total} shown' if first > 1 else ''}]"
    room = context.max_tokens - estimate_tokens(note)
    return with_notes(clipped(lines_from(text, first, None), room, FullText(path, first)), note)


def _state(job: Job) -> str:
    seconds = job.seconds
    if seconds < 120:
        duration = f"{seconds:.0f} s"
    elif seconds < 7200:
        duration = f"{seconds / 60:.0f} min"
    else:
        duration = f"{seconds / 3600:.1f} h"
    return ", ".join(filter(None, (f"{job.state} ({duration})", job.leftover)))
