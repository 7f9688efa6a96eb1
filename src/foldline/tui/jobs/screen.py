"""The Jobs screen: the list is looked at a few times a second, the output read beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.containers import Vertical

from foldline.context.harmless import clean_line
from foldline.context.numbers import elapsed, many
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError, system_words
from foldline.tui.blocks.cells import Span, chop_spans, crop, cut_left, cut_right, wrap_spans
from foldline.tui.dialogs import open_help
from foldline.tui.jobs.output import OutputScreen
from foldline.tui.keys.table import ScreenKey, bindings, hint_words, key_of, name_of, table, works
from foldline.tui.prompting.completion import window_start
from foldline.tui.runner import Runner
from foldline.tui.widgets.box import BoxedScreen
from foldline.tui.widgets.lines import HEAVY, edge, sides


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands now."""

    number: int
    command: str
    ending: str = ""
    """How it ended, in a word or two; empty while it runs."""
    failed: bool = False
    since: str = ""
    """When it began, as a clock says it."""
    seconds: float = 0.0
    """How long it has run, or ran."""
    path: str = ""
    """The file with all it wrote, as people are told of it."""

    @property
    def runs(self) -> bool:
        return not self.ending


@dataclass(frozen=True, slots=True)
class JobsState:
    """The jobs, newest first, the mark among them, and the end of what the marked one wrote."""

    rows: tuple[JobRow, ...] = ()
    marked: int = 0
    """Its number."""
    tail: tuple[str, ...] = ()
    """Lines, the newest last."""
    tail_of: int = 0
    """The job that wrote them; 0 where nothing has been read yet."""
    confirming: bool = False
    """Whether ending it was asked for once."""

    @property
    def at(self) -> int:
        """The place of the mark."""
        return next((at for at, row in enumerate(self.rows) if row.number == self.marked), 0)

    @property
    def row(self) -> JobRow | None:
        """The marked one."""
        return self.rows[self.at] if self.rows else None

    def moved(self, step: int) -> "JobsState":
        if not self.rows:
            return self
        at = min(max(self.at + step, 0), len(self.rows) - 1)
        return replace(self, marked=self.rows[at].number, confirming=False)

    def refreshed(self, rows: Sequence[JobRow]) -> "JobsState":
        """The jobs as they are now. The mark stays with its job; without one, it is at the first."""
        fresh = replace(self, rows=tuple(rows))
        if fresh.row is not None and fresh.row.number != self.marked:
            fresh = replace(fresh, marked=fresh.row.number)
        ends = fresh.row is not None and fresh.row.runs
        return replace(fresh, confirming=self.confirming and ends)

    def read(self, number: int, lines: Sequence[str]) -> "JobsState":
        """The end of what a job has written by now."""
        return replace(self, tail=tuple(lines), tail_of=number)


def _has_jobs(state: JobsState) -> bool:
    return state.row is not None


def _runs(state: JobsState) -> bool:
    return state.row is not None and state.row.runs


KEYS: Final[tuple[ScreenKey[JobsState], ...]] = table(
    "jobs",
    ScreenKey(
        "open",
        ("enter",),
        "All that it wrote, to be scrolled; what comes is followed.",
        "Job",
        "whole output",
        works=_has_jobs,
    ),
    ScreenKey(
        "end",
        ("K",),
        "Ends it and all it started. Asks once more; the model is told.",
        "Job",
        "ends it",
        works=_runs,
    ),
    ScreenKey("up", ("up", "k"), "One job up.", "List", works=_has_jobs),
    ScreenKey("down", ("down", "j"), "One job down.", "List", works=_has_jobs),
    ScreenKey("first", ("home",), "To the newest job.", "List", works=_has_jobs),
    ScreenKey("last", ("end",), "To the oldest job.", "List", works=_has_jobs),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Closes; the jobs run on.", "Program", "closes"),
)


Line = list[Span]

_MOST_ROWS: Final = 8
"""Jobs shown at a time: their output needs the room."""
_NONE: Final = (
    "No job runs, and none was started since Foldline was.",
    "The agent starts one with its tool bash and background: a server, a watcher, long tests. It runs on "
    "after the turn, and ends with Foldline.",
)


def screen_lines(state: JobsState, width: int, height: int) -> list[Line]:
    """Exactly `height` lines of `width` cells."""
    rows = max(min(len(state.rows), _MOST_ROWS, height // 3), 1)
    room = max(height - rows - 3, 1)
    running = sum(row.runs for row in state.rows)
    count = ((f"{running} of {many(len(state.rows), 'job')} running", "muted"),) if state.rows else ()
    return [
        edge(HEAVY, True, (("Jobs in the background", "text bold"),), count, width),
        *(sides(HEAVY, line, width) for line in _list(state, width - 2, rows)),
        _rule(state, width),
        *(sides(HEAVY, line, width) for line in _output(state, width - 2, room)),
        _foot(state, width),
    ]


def _list(state: JobsState, width: int, rows: int) -> list[Line]:
    if not state.rows:
        return [[]]
    first = window_start(state.at, len(state.rows), rows)
    shown = state.rows[first : first + rows]
    return [_job_row(row, row.number == state.marked, width) for row in shown]


def _job_row(row: JobRow, marked: bool, width: int) -> Line:
    """` ▶  3 exit 1 ✗      14:02  3:12  pytest -q`, exactly as wide."""
    state = "runs" if row.runs else f"{row.ending} ✗" if row.failed else row.ending
    style = "accent" if row.runs else "alert" if row.failed else "muted"
    name = cut_right(state, 19)
    before = f"{row.since}{elapsed(row.seconds):>8}  " if width >= 68 else ""
    room = max(width - 26 - cell_len(before), 4)
    command = cut_right(clean_line(row.command), room)
    return crop(
        [
            (" ", ""),
            ("▶" if marked else " ", "accent"),
            (f"{row.number:>3} ", "muted"),
            (name + " " * (20 - cell_len(name)), style),
            (before, "muted"),
            (command, "text reverse" if marked else "text"),
        ],
        width,
    )


def _rule(state: JobsState, width: int) -> Line:
    row = state.row
    title = f"output of {row.number}" if row is not None else ""
    path = clean_line(row.path) if row is not None else ""
    named: Line = [("─ ", "accent"), (title, "text bold"), (" ", "")] if title else []
    used = 2 + sum(cell_len(text) for text, _ in named)
    path = cut_left(path, max(width - used - 8, 0)) if path and width - used > 20 else ""
    tail: Line = [(" ", ""), (path, "muted"), (" ", ""), ("─", "accent")] if path else []
    fill = width - used - sum(cell_len(text) for text, _ in tail)
    return [("┠", "accent"), *named, ("─" * max(fill, 0), "accent"), *tail, ("┨", "accent")]


def _output(state: JobsState, width: int, room: int) -> list[Line]:
    """The newest lines, the last of them at the bottom once there are enough."""
    row = state.row
    if row is None:
        said = [line for each in _NONE for line in (*wrap_spans([(each, "muted")], width - 4), [])]
        lines: list[Line] = [[("  ", ""), *line] for line in said]
        return (lines + [[]] * room)[:room]
    if state.tail_of != row.number:
        lines = [[]]  # Read in a moment: nothing is said that would be gone again at once.
    elif not any(line.strip() for line in state.tail):
        lines = [[(" it has written nothing" + (" yet" if row.runs else ""), "muted")]]
    else:
        lines = [line for text in state.tail[-room:] for line in output_lines(text, width)][-room:]
    return (lines + [[]] * room)[:room]


def output_lines(text: str, width: int) -> list[Line]:
    """A line of output as rows: nothing of it is left out."""
    return [[(" ", ""), *line] for line in chop_spans([(clean_line(text), "text")], max(width - 2, 4))]


def _foot(state: JobsState, width: int) -> Line:
    row = state.row
    if state.confirming and row is not None:
        sure = f"! {name_of(KEYS, 'end')} again ends job {row.number} and all it started; any other key: no"
        return edge(HEAVY, False, ((sure, "alert"),), (), width)
    spans: Line = []
    for key, word in hint_words(KEYS, state):
        spans += [(" · ", "muted")] if spans else []
        spans += [(key, "accent"), (f" {word}", "text")]
    return edge(HEAVY, False, tuple(spans), (), width)


EVERY: Final = 0.25
"""Seconds between two looks at what the jobs do."""
TAIL: Final = 16_384
"""Bytes of an output whose lines are shown: more than a screen of them."""
_HEIGHT: Final = 30
_EMPTY: Final = 10
"""Rows it takes while there is nothing to show."""
_STEPS: Final = {"up": -1, "down": 1, "first": -1_000_000, "last": 1_000_000}


class Work(Protocol):
    """The jobs, as the screen asks for them."""

    def rows(self) -> Sequence[JobRow]:
        """All of them as they stand now, the newest first."""
        ...

    def tail(self, number: int, size: int) -> str:
        """The end of what a job wrote, about so many bytes. Called in a thread.

        Raises:
            FoldlineError: it cannot be read.
        """
        ...

    def output(self, number: int) -> Callable[[], str]:
        """Reads all that a job wrote, and is called in a thread."""
        ...

    def end(self, number: int) -> Awaitable[None]:
        """End a job and all it started."""
        ...


class JobsScreen(BoxedScreen[None, JobsState]):
    """Closing it ends nothing."""

    DEFAULT_CSS: ClassVar[str] = "JobsScreen > Vertical { width: 104; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "jobs")

    def __init__(self, work: Work, *, every: float = EVERY) -> None:
        super().__init__(JobsState().refreshed(work.rows()), screen_lines)
        self._work = work
        self._every = every
        self._reading = False
        self._read_at_end = 0
        """The job whose output was read after it had ended."""

    def on_mount(self) -> None:
        self.query_one(Vertical).styles.height = _HEIGHT if self.state.rows else _EMPTY
        self._box.focus()
        self.look()
        self.set_interval(self._every, self.look)

    def look(self) -> None:
        """Show the jobs as they are now, and read what the marked one has written since."""
        rows = self._work.rows()
        if rows and not self.state.rows:
            self.query_one(Vertical).styles.height = _HEIGHT
        self._show(self.state.refreshed(rows))
        row = self.state.row
        if row is not None and not self._reading and self._read_at_end != row.number:
            self._reading = True
            self.run_worker(self._tail(row), group="tail")

    async def _tail(self, row: JobRow) -> None:
        """One reading at a time. A job that had ended before it was read has no more to say."""
        try:
            text = await asyncio.to_thread(self._work.tail, row.number, TAIL)
        except FoldlineError as failure:
            text = str(failure)
        finally:
            self._reading = False
        if row.number == self.state.marked:
            self._read_at_end = 0 if row.runs else row.number
            self._show(self.state.read(row.number, text.removesuffix("\n").split("\n")))
        else:
            self.look()

    def _show(self, state: JobsState) -> None:
        self._box.show(state)

    def on_key(self, event: events.Key) -> None:
        """Only the key that asked for it confirms that a job is to be ended."""
        if self.state.confirming and event.key not in key_of(KEYS, "end").pressed:
            self._show(replace(self.state, confirming=False))
            event.stop()
            event.prevent_default()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.state)

    def action_jobs(self, command: str) -> None:
        """What a key of the table does."""
        state, row = self.state, self.state.row
        if not works(KEYS, command, state):
            return
        match command:
            case "open" if row is not None:
                title = f"Output of job {row.number}: {row.command}"
                self.app.push_screen(OutputScreen(title, self._work.output(row.number)))
            case "end" if row is not None:
                if state.confirming:
                    self.run_worker(self._end(row.number), group=f"end-{row.number}", exclusive=True)
                self._show(replace(state, confirming=not state.confirming))
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)
            case _:
                self._show(state.moved(_STEPS[command]))
                self.look()

    async def _end(self, number: int) -> None:
        await self._work.end(number)
        self.look()


_STOPPED = "stopped by the user"
"""Why a job ended that was ended here: in the words the model is told it in."""

if TYPE_CHECKING:
    from foldline.agent.tools.background import Job, Jobs
    from foldline.tui.app import FoldlineApp


def job_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    def show(runner: Runner, _: str) -> None:

        app.push_screen(JobsScreen(AgentJobs(runner.agent.state.jobs)))

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
                f"Its output in {with_tilde(str(job.kept.path))} cannot be read: {system_words(error)}."
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
        path=with_tilde(str(job.kept.path)),
    )
