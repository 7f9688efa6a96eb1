"""Commands in the background: they outlive the call, the turn and Esc. None outlives the agent."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foldline.context.numbers import many
from foldline.protocol import system_words

from ..api_keys import Mask
from .failure import ToolFailure
from .keeping import Keeper
from .process import ending, spawn
from .reaping import LeftBehind

_MOST = 16
"""Jobs that run at a time."""


@dataclass(eq=False)
class Job:
    """A command in the background."""

    number: int
    """Unique in the session: the file of its output is named after it."""
    command: str
    kept: Keeper
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    status: int | None = None
    """Its exit status; negative: the signal that ended it. None while it runs, and where it was stopped."""
    why: str = ""
    """Why it was ended, where it did not end by itself."""
    told: bool = False
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
        """How it stands: `runs`, `ended: exit 0`, `ended: stopped`."""
        if self.runs:
            return "runs"
        return f"ended: {self.why or ending(self.status)}"

    async def wait(self, seconds: float) -> None:
        """Until it ends, but no longer than that."""
        if self.task is not None:
            await asyncio.wait({self.task}, timeout=seconds)


class Jobs:
    """The jobs of one agent, those that have ended included."""

    def __init__(self, on_end: Callable[[Job], None] = lambda job: None) -> None:
        self.on_end = on_end
        """Hears of each job that ends, but for those that end with the agent."""
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
    ) -> Job:
        """Start a command; its output goes to a new file in `folder`, without keys. It is ended after
        `seconds`.

        Raises:
            ToolFailure: too many run already.
            OSError: its file cannot be made.
        """
        running = sum(job.runs for job in self._jobs.values())
        if running >= _MOST:
            raise ToolFailure(f"{many(running, 'job')} run already: stop one with `jobs` first.")
        kept = Keeper.new(folder, mask)
        job = self._jobs[kept.number] = Job(kept.number, command, kept)
        job.task = asyncio.create_task(_run(job, argv, cwd, environment, seconds, self.left))
        job.task.add_done_callback(lambda _: self._ended(job))  # also where it was stopped before it began
        return job

    async def stop(self, job: Job, why: str = "stopped") -> None:
        """End a job and all it started."""
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
        """What has ended and the model does not know of."""
        return [job for job in self._jobs.values() if not job.runs and not job.told]

    def _ended(self, job: Job) -> None:
        job.ended = time.monotonic()
        job.kept.close()
        if not self._closing:
            self.on_end(job)


async def _run(
    job: Job,
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float | None,
    left: LeftBehind,
) -> None:
    try:
        async with asyncio.timeout(seconds), spawn(argv, cwd, environment, left) as child:
            # As long as anybody holds the output: a script that starts a server and ends is that server.
            await child.follow(job.kept.take, drain=None)
            job.status = child.status
    except TimeoutError:
        job.why = f"timed out after {seconds:g} s"
    except OSError as error:
        job.why = f"could not be started: {system_words(error)}"
