"""Commands in the background: they outlive the call, the turn and Esc. None outlives the agent."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from foldline.context.numbers import many
from foldline.files import create_private, make_private, read_regular
from foldline.protocol import FoldlineError, system_words

from ..api_keys import Mask
from .process import LeftBehind, end_all, ending, spawn, still_running
from .text import printed, sized

if TYPE_CHECKING:
    from ..sandbox import Sandbox

KEPT_START = 16 * 1024 * 1024
"""Bytes of an output kept from its start."""
KEPT_END = 1024 * 1024
"""Bytes kept, at least, from the end of one longer than that."""
_LONGEST_LINE = 64 * 1024
"""Bytes of an unfinished line that are held back until it ends: a progress bar is one line."""
_MOST_JOBS = 16
"""Jobs that run at a time."""


def gap(left_out: int) -> str:
    """The line in place of so many bytes."""
    return f"\n[… {sized(left_out)} of output were not kept …]\n"


class JobOutput:
    """The output of a job in a file that holds its start, what was left out, and its end, at any moment."""

    def __init__(self, number: int, path: Path, file: BinaryIO, mask: Mask) -> None:
        self.number = number
        self.path = path
        self.trouble = ""
        """Why nothing more is kept: the disk is full."""
        self._file = file
        self._mask, self._masked = mask, mask.stream()
        """Of whole texts, where a terminal sequence may have stood within a key; of what comes in pieces."""
        self._held = b""
        """The line that has not ended yet."""
        self._written = 0
        """Bytes of the start."""
        self._end = bytearray()
        self._left_out = 0
        self._lock = threading.Lock()
        """A job that is stopped is closed here while a thread may still be at its last piece."""

    @classmethod
    def new(cls, folder: Path, mask: Mask) -> "JobOutput":
        """A new one, with the next number and a file that only its owner may read.

        Raises:
            OSError: the file cannot be made.
        """
        make_private(folder)
        number = max((_number(path) for path in folder.glob("job-*.txt")), default=0)
        while True:
            number += 1
            path = file_of(number, folder)
            try:
                handle = create_private(path)
            except FileExistsError:
                continue
            return cls(number, path, os.fdopen(handle, "wb", buffering=0), mask)

    async def take(self, chunk: bytes) -> bool:
        """Always wants more: a program that writes must not stop because nobody keeps it."""
        await asyncio.to_thread(self._take, chunk)
        return True

    def text(self) -> str:
        """What is kept so far, the unfinished line included. Reads the file: call it off the event loop."""
        with self._lock:
            return self._shown(read_regular(self.path))

    def close(self) -> None:
        """Write what is held back."""
        with self._lock:
            held, self._held = self._held + self._masked.rest(), b""
            self._keep(held)
            self._file.close()

    def _shown(self, kept: bytes) -> str:
        trouble = f"\n[{self.trouble}]" if self.trouble else ""
        return kept.decode("utf-8", "replace") + self._printed(self._held) + trouble

    def _printed(self, output: bytes) -> str:
        return self._mask(printed(output))

    def _take(self, chunk: bytes) -> None:
        with self._lock:
            lines, line_end, rest = (self._held + self._masked.feed(chunk)).rpartition(b"\n")
            self._held = rest if len(rest) <= _LONGEST_LINE else b""
            self._keep(lines + line_end if self._held or not rest else lines + line_end + rest)

    def _keep(self, output: bytes) -> None:
        if not output or self.trouble or self._file.closed:
            return
        text = self._printed(output).encode()
        try:
            room = KEPT_START - self._written
            self._written += self._file.write(text[:room]) if room else 0
            self._keep_end(text[room:])
        except OSError as error:
            self.trouble = f"the output is not kept from here on: {error.strerror or error}"

    def _keep_end(self, text: bytes) -> None:
        self._end += text
        if len(self._end) <= 2 * KEPT_END:
            self._file.write(text)
            return
        self._left_out += len(self._end) - KEPT_END
        del self._end[:-KEPT_END]
        self._file.seek(KEPT_START)
        self._file.write(gap(self._left_out).encode() + self._end)
        self._file.truncate()


def file_of(number: int, folder: Path) -> Path:
    """Where the output of a job is."""
    return folder / f"job-{number}.txt"


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("job-")
    return int(digits) if digits.isdecimal() else 0


def earlier_outputs(folder: Path, known: Collection[int]) -> dict[int, Path]:
    """By number, the outputs of jobs that are not `known`: they ended with the program that ran them."""
    numbered = {_number(path): path for path in folder.glob("job-*.txt")}
    return {number: numbered[number] for number in sorted(numbered.keys() - {0, *known})}


@dataclass(eq=False)
class Job:
    """A command in the background."""

    number: int
    """Unique in the session: the file of its output is named after it."""
    command: str
    kept: JobOutput
    left: LeftBehind
    """Where the processes are that it leaves running."""
    group: int = 0
    """The number of its process group, once it was started."""
    remaining: Sequence[int] = ()
    """Numbers of the processes that still ran when it ended."""
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    status: int | None = None
    """Its exit status; negative: the signal that ended it. None while it runs, and where it was stopped."""
    why: str = ""
    """Why it was ended, where it did not end by itself."""
    seen: str = ""
    """What it made that acts by itself, once it has ended."""
    reported: bool = False
    """Whether the model knows that it has ended."""
    task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return self.ended is None

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def state(self) -> str:
        """Its state in words: `runs`, `ended: exit 0`, `ended: stopped`."""
        return "runs" if self.runs else f"ended: {self.end}"

    @property
    def end(self) -> str:
        """How it ended, in a word or two."""
        return self.why or ending(self.status)

    @property
    def runs_on(self) -> bool:
        """Whether it has ended and a process of it still runs."""
        return bool(self.remaining and self.left.families(self.group))

    @property
    def leftover(self) -> str:
        """What of it runs on after its end, in words; empty if nothing does."""
        return still_running(self.remaining) if self.runs_on else ""

    async def wait(self, seconds: float) -> None:
        """Wait until it ends, at most so long."""
        if self.task is not None:
            await asyncio.wait({self.task}, timeout=seconds)


class Jobs:
    """The jobs of one agent, those that have ended included."""

    def __init__(self, on_end: Callable[[Job], None] = lambda job: None) -> None:
        self.on_end = on_end
        """Called with each job that ends, but for those that end with the agent."""
        self.left = LeftBehind()
        """What commands that have ended left running."""
        self._jobs: dict[int, Job] = {}
        self._closing = False

    def all(self) -> list[Job]:
        return list(self._jobs.values())

    def numbered(self, number: int) -> Job | None:
        return self._jobs.get(number)

    def start(
        self,
        argv: Sequence[str],
        command: str,
        cwd: Path,
        environment: Mapping[str, str],
        folder: Path,
        seconds: float | None,
        mask: Mask,
        box: "Sandbox | None" = None,
    ) -> Job:
        """Start a command; its output goes to a new file in `folder`, without keys. It is ended after
        `seconds`.

        Raises:
            FoldlineError: too many run already.
            OSError: its file cannot be made.
        """
        running = sum(job.runs for job in self._jobs.values())
        if running >= _MOST_JOBS:
            raise FoldlineError(f"{many(running, 'job')} run already: stop one with `jobs` first.")
        kept = JobOutput.new(folder, mask)
        job = self._jobs[kept.number] = Job(kept.number, command, kept, self.left)

        async def run() -> None:
            try:
                running = spawn(argv, cwd, environment, self.left, box)
                async with asyncio.timeout(seconds), running as child:
                    job.group = child.pid
                    # As long as anybody holds the output: a script that starts a server and ends is that
                    # server.
                    await child.follow(kept.take, drain=None)
                    job.status = child.status
                job.remaining = await self.left.running(job.group)
            except TimeoutError:
                job.why = f"timed out after {seconds:g} s"
            except OSError as error:
                job.why = f"could not be started: {system_words(error)}"
            finally:
                if box is not None:
                    job.seen = (await asyncio.to_thread(box.seen, "", failed=False)).words

        job.task = asyncio.create_task(run())
        job.task.add_done_callback(lambda _: self._ended(job))  # also where it was stopped before it began
        return job

    async def stop(self, job: Job, why: str = "stopped") -> None:
        """End a job and all it started, also what runs on after its end."""
        for family in self.left.families(job.group):
            await asyncio.to_thread(end_all, family)
        if job.task is None or not job.runs:
            return
        job.why = job.why or why
        job.task.cancel()
        await asyncio.wait({job.task})

    async def aclose(self) -> None:
        """End all that run, and what commands left running."""
        self._closing = True
        stops = (self.stop(job, "Foldline was closed") for job in self._jobs.values())
        await asyncio.gather(*stops, asyncio.to_thread(self.left.end))

    def news(self) -> list[Job]:
        """Jobs whose end the model does not know of."""
        return [job for job in self._jobs.values() if not job.runs and not job.reported]

    def _ended(self, job: Job) -> None:
        job.ended = time.monotonic()
        job.kept.close()
        if not self._closing:
            self.on_end(job)
