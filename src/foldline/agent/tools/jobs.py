"""Background jobs: commands that keep running after the call and the turn, until the agent is closed."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from foldline.agent.permissions.confinement import CommandSandbox
from foldline.agent.settings.api_keys import Mask
from foldline.data import Environ
from foldline.files import create_private, make_private, read_regular
from foldline.protocol import FoldlineError, system_words
from foldline.text.numbers import many, sized

from .process import LeftBehind, end_all, ending, spawn, still_running
from .text import printed

GAP = "\n[… {size} of output were not kept …]\n"
NOT_KEPT = "the output is not recorded from here on: {reason}"
TIMED_OUT = "timed out after {seconds:g} s"
NOT_STARTED = "could not be started: {reason}"
STOPPED = "stopped"
CLOSED = "Foldline was closed"
TOO_MANY_JOBS = "{jobs} are already running: stop one with `jobs` first."
KEPT_START = 16 * 1024 * 1024
"""Number of bytes that are kept from the start of an output."""
KEPT_END = 1024 * 1024
"""Minimum number of bytes that are kept from the end of a longer output."""
_LONGEST_LINE = 64 * 1024
"""Maximum number of bytes of an unfinished line, such as a progress bar, that are held back until it ends."""
_MOST_JOBS = 16
"""Maximum number of jobs that run at the same time. Starting another one fails."""


def gap(left_out: int) -> str:
    """Return the line that replaces `left_out` omitted bytes."""
    return GAP.format(size=sized(left_out))


class JobOutput:
    """Writes a job's output to a file.

    Only the start and the end of a long output are kept.
    """

    def __init__(self, number: int, path: Path, file: BinaryIO, mask: Mask) -> None:
        self.number = number
        self.path = path
        self.trouble = ""
        """Error that ended the recording, such as a full disk. Empty if there was none."""
        self._file = file
        self._mask = mask
        """Removes API keys from the complete output before it is returned.

        In streamed output, a terminal sequence may split a key, so that it is not recognised there.
        """
        self._mask_stream = mask.stream()
        self._line = b""
        """The current line, which has not ended yet."""
        self._written = 0
        """Bytes written to the part that keeps the start."""
        self._end = bytearray()
        self._left_out = 0
        self._lock = threading.Lock()
        """Protects the file.

        A job can be closed while a thread is still writing its last chunk.
        """

    @classmethod
    def new(cls, folder: Path, mask: Mask) -> "JobOutput":
        """Create the output of the next job, in a file that only its owner may read.

        Raises:
            OSError: the file cannot be created.
        """
        make_private(folder)
        number = max((_number(path) for path in folder.glob("job-*.txt")), default=0)
        while True:
            number += 1
            path = output_path(number, folder)
            try:
                handle = create_private(path)
            except FileExistsError:
                continue
            return cls(number, path, os.fdopen(handle, "wb", buffering=0), mask)

    async def take(self, chunk: bytes) -> bool:
        """Record a chunk.

        Always returns True, because the program must not block on its output.
        """
        await asyncio.to_thread(self._add, chunk)
        return True

    def text(self) -> str:
        """Return the recorded output.

        Blocking: do not call it on the event loop.
        """
        with self._lock:
            text = read_regular(self.path).decode("utf-8", "replace")
            text += self._printed(self._line)
            return f"{text}\n[{self.trouble}]" if self.trouble else text

    def close(self) -> None:
        """Write the unfinished line and close the file."""
        with self._lock:
            self._write(self._line + self._mask_stream.rest())
            self._line = b""
            self._file.close()

    def _printed(self, output: bytes) -> str:
        return self._mask(printed(output))

    def _add(self, chunk: bytes) -> None:
        with self._lock:
            output = self._line + self._mask_stream.feed(chunk)
            line_start = output.rfind(b"\n") + 1
            if len(output) - line_start > _LONGEST_LINE:
                line_start = len(output)
            self._line = output[line_start:]
            self._write(output[:line_start])

    def _write(self, output: bytes) -> None:
        if not output or self.trouble or self._file.closed:
            return
        text = self._printed(output).encode()
        try:
            room = KEPT_START - self._written
            if room:
                self._written += self._file.write(text[:room])
            self._write_end(text[room:])
        except OSError as error:
            self.trouble = NOT_KEPT.format(reason=error.strerror or error)

    def _write_end(self, text: bytes) -> None:
        self._end += text
        if len(self._end) <= 2 * KEPT_END:
            self._file.write(text)
            return
        self._left_out += len(self._end) - KEPT_END
        del self._end[:-KEPT_END]
        self._file.seek(KEPT_START)
        self._file.write(gap(self._left_out).encode() + self._end)
        self._file.truncate()


def output_path(number: int, folder: Path) -> Path:
    """Return the path of the file with a job's output."""
    return folder / f"job-{number}.txt"


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("job-")
    return int(digits) if digits.isdecimal() else 0


def earlier_outputs(folder: Path, current: Collection[int]) -> dict[int, Path]:
    """Return the output files of jobs from earlier runs of the program, by job number.

    Args:
        current: numbers of the jobs of this run, which are left out.
    """
    outputs = {_number(path): path for path in folder.glob("job-*.txt")}
    return {
        number: outputs[number] for number in sorted(outputs.keys() - {0, *current})
    }


@dataclass(eq=False)
class BackgroundJob:
    """A command in the background."""

    number: int
    """Number of the job, unique in the session.

    The name of its output file contains this number.
    """
    command: str
    output: JobOutput
    left: LeftBehind
    """Processes that finished commands left running."""
    group: int = 0
    """Id of the job's process group. 0 until the job has started."""
    remaining: Sequence[int] = ()
    """PIDs of processes that still run after the job has ended."""
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    status: int | None = None
    """Exit status; negative if a signal ended the job.

    None while the job runs, or if it was stopped.
    """
    why: str = ""
    """Reason why Foldline ended the job. Empty if the job ended on its own."""
    sandbox_note: str = ""
    """Warning about self-executing files that the job created. Set once the job has ended."""
    reported: bool = False
    """Whether the model has been informed that the job has ended."""
    task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.ended is None

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    @property
    def age(self) -> float:
        """Seconds since the job started."""
        return time.monotonic() - self.began

    @property
    def state(self) -> str:
        """State of the job: `runs`, or for example `ended: exit 0` or `ended: stopped`."""
        return "runs" if self.is_running else f"ended: {self.end}"

    @property
    def end(self) -> str:
        """How the job ended, for example `exit 0` or `stopped`."""
        return self.why or ending(self.status)

    @property
    def has_leftovers(self) -> bool:
        """Whether the job has ended while one of its processes is still running."""
        return bool(self.remaining and self.left.families(self.group))

    @property
    def leftover(self) -> str:
        """Note on processes that still run after the job has ended, if there are any."""
        return still_running(self.remaining) if self.has_leftovers else ""

    async def wait(self, seconds: float) -> None:
        """Wait at most `seconds` until the job ends."""
        if self.task is not None:
            await asyncio.wait({self.task}, timeout=seconds)


class Jobs:
    """The jobs of one agent, including those that have ended."""

    def __init__(
        self, on_end: Callable[[BackgroundJob], None] = lambda job: None
    ) -> None:
        self.on_end = on_end
        """Called with each job that ends, except when the agent is closed."""
        self.left = LeftBehind()
        """Processes that finished commands left running."""
        self._jobs: dict[int, BackgroundJob] = {}
        self._closing = False

    def all(self) -> list[BackgroundJob]:
        return list(self._jobs.values())

    def numbered(self, number: int) -> BackgroundJob | None:
        return self._jobs.get(number)

    def start(
        self,
        argv: Sequence[str],
        command: str,
        cwd: Path,
        environment: Environ,
        folder: Path,
        seconds: float | None,
        mask: Mask,
        box: CommandSandbox | None = None,
    ) -> BackgroundJob:
        """Start a command, and write its output to a new file in `folder`.

        Args:
            seconds: time limit of the job; None for no limit.
            mask: removes keys from the output.

        Raises:
            FoldlineError: too many jobs are running already.
            OSError: the output file cannot be created.
        """
        running = sum(job.is_running for job in self._jobs.values())
        if running >= _MOST_JOBS:
            raise FoldlineError(TOO_MANY_JOBS, jobs=many(running, "job"))
        output = JobOutput.new(folder, mask)
        job = BackgroundJob(output.number, command, output, self.left)
        self._jobs[job.number] = job

        async def run() -> None:
            try:
                process = spawn(argv, cwd, environment, self.left, box)
                async with asyncio.timeout(seconds), process as child:
                    job.group = child.pid
                    # Wait until the output is closed, because a job may start a server and exit.
                    await child.follow(output.take, drain=None)
                    job.status = child.status
                job.remaining = await self.left.running(job.group)
            except TimeoutError:
                job.why = TIMED_OUT.format(seconds=seconds)
            except OSError as error:
                job.why = NOT_STARTED.format(reason=system_words(error))
            finally:
                if box is not None:
                    report = await asyncio.to_thread(box.report, "", failed=False)
                    job.sandbox_note = report.words

        job.task = asyncio.create_task(run())
        job.task.add_done_callback(
            lambda _: self._ended(job)
        )  # even if cancelled before it begins
        return job

    async def stop(self, job: BackgroundJob, why: str = STOPPED) -> None:
        """End a job and all processes that it started.

        The processes are ended even if the job itself has ended already.
        """
        for family in self.left.families(job.group):
            await asyncio.to_thread(end_all, family)
        if job.task is None or not job.is_running:
            return
        job.why = job.why or why
        job.task.cancel()
        await asyncio.wait({job.task})

    async def aclose(self) -> None:
        """End all jobs, and the processes that commands left running."""
        self._closing = True
        stops = (self.stop(job, CLOSED) for job in self._jobs.values())
        await asyncio.gather(*stops, asyncio.to_thread(self.left.end))

    def unreported(self) -> list[BackgroundJob]:
        """Return the jobs that have ended without the model knowing."""
        return [
            job
            for job in self._jobs.values()
            if not job.is_running and not job.reported
        ]

    def _ended(self, job: BackgroundJob) -> None:
        job.ended = time.monotonic()
        job.output.close()
        if not self._closing:
            self.on_end(job)
