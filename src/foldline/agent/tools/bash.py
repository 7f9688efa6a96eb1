"""The tool `bash`: a command, its output as it comes, and never a process left behind."""

import asyncio
import codecs
import shutil
from collections.abc import Callable

from pydantic import Field

from foldline.protocol import Rule

from ..api_keys import Mask
from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import fitted
from .environment import environment
from .familiar import leading_words
from .jobs import newest
from .process import ending, spawn
from .reach import command_inside
from .text import printed, sized

_KEPT = 16 * 1024 * 1024
"""Bytes of output kept from the start."""
_KEPT_END = 1024 * 1024
"""Bytes kept from the end of an output longer than that."""
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

    def __init__(self) -> None:
        super().__init__(BashArguments)

    def headline(self, arguments: BashArguments) -> str:
        return arguments.command

    def stays_inside(self, arguments: BashArguments, context: ToolContext) -> bool:
        """By the paths its words name: a hint for "always" rules, no wall. The unclear counts as outside."""
        if "\x00" in arguments.command:
            return True  # it will not run
        return command_inside(arguments.command, context.cwd)

    def kinds(self, arguments: BashArguments) -> tuple[Rule, ...]:
        """By its leading words, where these say what it does; else, or besides, this very command."""
        command, leading = arguments.command, leading_words(arguments.command)
        if len(command) > _LONGEST_RULE or not _is_legible(command):
            return ()
        exact = Rule(tool=self.name, pattern=command, exact=True)
        return (Rule(tool=self.name, pattern=leading), exact) if leading else (exact,)

    async def act(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        argv = [shutil.which("bash") or "/bin/sh", "-c", arguments.command]
        if arguments.background:
            return await _in_background(argv, arguments, context)
        seconds = arguments.timeout or _SECONDS
        output = Output(context.output, context.mask)
        timed_out = False
        status: int | None = None
        held = False
        try:
            async with spawn(argv, context.cwd, environment(), context.jobs.left) as child:
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
        if timed_out:
            brief = "timed out ✗"
            note = f"[timed out after {seconds:g} s: the command and all it started were ended]"
        else:
            brief, note = ending_words(status or 0, bool(text))
        text, full = await fitted(text, context, self.name, note, _HELD if held else "")
        return ToolOutcome(text, is_error=timed_out or bool(status), brief=brief, full_output=full)


async def _in_background(argv: list[str], arguments: BashArguments, context: ToolContext) -> ToolOutcome:
    job = context.jobs.start(
        argv,
        arguments.command,
        context.cwd,
        environment(),
        context.spill_dir,
        arguments.timeout,
        context.mask,
    )
    await job.wait(_AT_ONCE)
    job.told = not job.runs
    text = await asyncio.to_thread(newest, job, context)
    return ToolOutcome(
        text,
        is_error=bool(job.status or job.why),
        brief=f"job {job.number} {job.state}",
        full_output=str(job.kept.path),
    )


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
        room = _KEPT - len(self._start)
        self._start += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * _KEPT_END:
            self._left_out += len(self._end) - _KEPT_END
            del self._end[:-_KEPT_END]
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
        gap = f"\n[… {sized(self._left_out)} of output were not kept …]\n"
        return printed(bytes(self._start)) + gap + printed(bytes(self._end))

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            self._show(self._pending)
            self._pending = ""


_HELD = (
    "[processes in the background still held the output and were ended; "
    "to keep one, start it with background]"
)


def ending_words(status: int, has_output: bool) -> tuple[str, str]:
    """The outcome in a few words, and what the model is told after the output."""
    if status == 0:
        return "exit 0", "" if has_output else "[no output, exit 0]"
    how = ending(status)
    return f"{how} ✗", f"[ended by {how}]" if status < 0 else f"[{how}]"


def _is_legible(command: str) -> bool:
    """Whether a reader sees all there is of a command: nothing that hides, or turns the rest around."""
    return all(char.isprintable() or char in "\n\t" for char in command)
