"""Background jobs: how they stand, what they write, and ending them.

The list is looked at a few times a second; output is read and cut into lines in a thread.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType

from foldline.context.harmless import clean_line
from foldline.context.numbers import elapsed, many
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError, system_words
from foldline.tui.blocks.cells import Span, chop_spans, crop, cut_left, cut_right, wrap_spans
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, name_of, names_of, table
from foldline.tui.lists.screen import ListScreen, PageScreen
from foldline.tui.runner import Runner
from foldline.tui.widgets.lines import Line, Rule, boxed, filled, hints_in, key_words

if TYPE_CHECKING:
    from foldline.agent.tools.jobs import Job, Jobs
    from foldline.tui.chat import ChatScreen


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
    """The file with all it wrote, as shown to people."""

    @property
    def runs(self) -> bool:
        return not self.ending


KEYS: Final = table(
    "jobs",
    "Job",
    ScreenKey[None](
        "open", ("enter",), "Shows all that it wrote; new output is followed.", hint="whole output"
    ),
    ScreenKey("end", ("K",), "Ends it and all it started. Asks once more; the model sees it.", hint="end"),
    *moves("job", far=""),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Closes; the jobs run on.", hint="close"),
)

_MOST_ROWS: Final = 8
"""Jobs shown at a time: their output needs the room."""
_WIDTH: Final = 104
_NONE: Final = (
    "No job runs, and none was started since Foldline was.",
    "The agent starts one with its tool bash and background: a server, a watcher, long tests. It runs on "
    "after the turn, and ends with Foldline.",
)
EVERY: Final = 0.25
"""Seconds between two looks at what the jobs do."""
TAIL: Final = 16_384
"""Bytes of an output whose lines are shown: more than a screen of them."""


class JobsScreen(ListScreen[None, JobRow]):
    """Closing it ends nothing."""

    DEFAULT_CSS: ClassVar[str] = f"JobsScreen > ListBox {{ width: {_WIDTH}; }}"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, jobs: "AgentJobs", *, every: float = EVERY) -> None:
        super().__init__(jobs.rows())
        self._jobs = jobs
        self._every = every
        self._reading = False
        self._read_at_end = 0
        """The job whose output was read after it had ended."""
        self._tail: tuple[int, Sequence[str]] = (0, ())
        """A job, and the last lines of what it wrote."""

    def height_wanted(self) -> int:
        return 30 if self.rows else len(_none(min(_WIDTH, self.app.size.width) - 2)) + 2

    def on_mount(self) -> None:
        self.look()
        self.set_interval(self._every, self.look)

    def look(self) -> None:
        """Show the jobs as they are now, and read what the marked one has written since."""
        rows = self._jobs.rows()
        grows = bool(rows) and not self.rows
        self.show_rows(rows, lambda one, other: one.number == other.number)
        if grows:
            self.fit()
        row = self.row
        if row is None or not row.runs:
            self.question = None
        if row is not None and not self._reading and self._read_at_end != row.number:
            self._reading = True
            self.run_worker(self._read_tail(row), group="tail")

    def moved(self) -> None:
        self.look()

    async def _read_tail(self, row: JobRow) -> None:
        """One reading at a time. A job that had ended before it was read has no more to say."""
        try:
            text = await asyncio.to_thread(self._jobs.tail, row.number, TAIL)
        except FoldlineError as failure:
            text = str(failure)
        finally:
            self._reading = False
        if self.row is not None and row.number == self.row.number:
            self._read_at_end = 0 if row.runs else row.number
            self._tail = (row.number, text.removesuffix("\n").split("\n"))
            self.update()
        else:
            self.look()

    def works_now(self, command: str) -> bool:
        match command:
            case "help" | "close":
                return True
            case "end":
                return self.row is not None and self.row.runs
            case _:
                return self.row is not None

    def act(self, command: str) -> None:
        row = self.row
        if row is None:
            return
        match command:
            case "open":
                title = f"Output of job {row.number}: {row.command}"
                self.app.push_screen(OutputScreen(title, partial(self._jobs.output, row.number)))
            case "end":
                sentence = f"Enter ends job {row.number} and all it started; any other key: no"
                self.confirm(sentence, "end", partial(self._end, row.number))

    def _end(self, number: int) -> None:
        self.run_worker(self._ended(number), group=f"end-{number}", exclusive=True)

    async def _ended(self, number: int) -> None:
        await self._jobs.end(number)
        self.look()

    def draw(self, width: int, height: int) -> list[Line]:
        rows = min(len(self.rows), _MOST_ROWS, max(height // 3, 1))
        running = sum(row.runs for row in self.rows)
        count = f"{running} of {many(len(self.rows), 'job')} running" if self.rows else ""
        body: list[Line | Rule] = [
            *self.row_lines(rows, 1, lambda row, marked: _job_line(row, marked, width - 2)),
            *self._rule(width),
            *self._output(width - 2, max(height - rows - (3 if rows else 2), 1)),
        ]
        foot = key_words(self.hints())
        if self.question is not None:
            foot = (("! ", "alert"), *hints_in(self.question.sentence, "alert"))
        return boxed(width, (("Background jobs", "text bold"),), count, body, foot)

    def _rule(self, width: int) -> Iterator[Rule]:
        if self.row is None:
            return
        title = f"output of {self.row.number}"
        room = width - len(title) - 5
        path = cut_left(clean_line(self.row.path), max(room - 8, 0)) if room > 20 else ""
        yield Rule(((title, "text bold"),), ((path, "muted"),) if path else ())

    def _output(self, width: int, room: int) -> list[Line]:
        """The newest lines, the last of them at the bottom once there are enough."""
        if self.row is None:
            return filled(_none(width), room)
        number, tail = self._tail
        if number != self.row.number:
            return filled([], room)  # Read in a moment: nothing is said that would be gone again at once.
        if not any(line.strip() for line in tail):
            words = "no output yet" if self.row.runs else "no output"
            return filled([[(f" {words}", "muted")]], room)
        return filled([line for text in tail[-room:] for line in _output_lines(text, width)][-room:], room)


def _none(width: int) -> list[Line]:
    """What is said where there is no job."""
    said = [line for each in _NONE for line in (*wrap_spans([(each, "muted")], width - 3), [])]
    return [[("  ", ""), *line] for line in said[:-1]]


def _job_line(row: JobRow, marked: bool, width: int) -> Line:
    """` ▶  3 exit 1 ✗      14:02  3:12  pytest -q`."""
    state = "runs" if row.runs else f"{row.ending} ✗" if row.failed else row.ending
    style = "accent" if row.runs else "alert" if row.failed else "muted"
    name = cut_right(state, 19)
    before = f"{row.since}{elapsed(row.seconds):>8}  " if width >= 68 else ""
    command = cut_right(clean_line(row.command), max(width - 26 - cell_len(before), 4))
    spans = [
        (" ", ""),
        ("▶" if marked else " ", "accent"),
        (f"{row.number:>3} ", "muted"),
        (name + " " * (20 - cell_len(name)), style),
        (before, "muted"),
        (command, "text"),
    ]
    return crop(spans, width)


def _output_lines(text: str, width: int) -> list[Line]:
    """A line of output as rows: nothing of it is left out."""
    return [[(" ", ""), *line] for line in chop_spans([(clean_line(text), "text")], max(width - 2, 4))]


_STOPPED = "stopped by the user"
"""Why a job ended that was ended here: in the words that the model sees."""


def open_jobs(chat: "ChatScreen", runner: Runner) -> None:
    chat.push_screen(JobsScreen(AgentJobs(runner.agent.state.jobs)))


class AgentJobs:
    """The jobs of one agent."""

    def __init__(self, jobs: "Jobs") -> None:
        self._jobs = jobs

    def rows(self) -> Sequence[JobRow]:
        """All of them as they stand now, the newest first."""
        now = datetime.now()
        return [_row(job, now) for job in sorted(self._jobs.all(), key=lambda job: -job.number)]

    def tail(self, number: int, size: int) -> str:
        """The end of what a job wrote, about so many bytes. For a thread. Raises FoldlineError."""
        return self._read(number, lambda job: job.kept.tail(size))

    def output(self, number: int) -> str:
        """All that a job wrote. For a thread. Raises FoldlineError."""
        return self._read(number, lambda job: job.kept.text())

    async def end(self, number: int) -> None:
        """End a job and all it started."""
        job = self._jobs.numbered(number)
        if job is not None:
            await self._jobs.stop(job, _STOPPED)

    def _read(self, number: int, read: Callable[["Job"], str]) -> str:
        job = self._jobs.numbered(number)
        if job is None:
            return ""
        try:
            return read(job)
        except OSError as error:
            path = with_tilde(str(job.kept.path))
            raise FoldlineError(f"Its output in {path} cannot be read: {system_words(error)}.") from None


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


OUTPUT_KEYS: Final = table(
    "output",
    *moves("line", far="A screen"),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Back to where you were; a job runs on."),
    title="Page of text",
)

OUTPUT_EVERY: Final = 0.5
"""Seconds between two looks for more output."""


def rows_of(text: str, width: int, cut: Callable[..., list[list[Span]]] = chop_spans) -> tuple[str, ...]:
    """The lines of an output, `cut` to so many cells: nothing of them is left out."""
    rows: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if len(line) <= width and line.isascii() and line.isprintable():
            rows.append(line)
        else:
            pieces = cut([(clean_line(line), "")], width)
            rows += ["".join(piece for piece, _ in spans) for spans in pieces]
    return tuple(rows)


class OutputScreen(PageScreen[str]):
    """`read` gives all of it, again and again; it is called in a thread. `at` is the row at the top; who
    sees the last row follows what comes."""

    DEFAULT_CSS: ClassVar[str] = "OutputScreen > ListBox { width: 100%; height: 100%; }"
    KEYS = OUTPUT_KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(OUTPUT_KEYS, "list")
    cut = staticmethod(chop_spans)

    def __init__(self, title: str, read: Callable[[], str]) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._read = read
        self._cut: tuple[str, int] = ("", 0)
        """What was read, and the width at which it was cut into rows."""
        self._follows = True

    def height_wanted(self) -> str:
        return "100%"

    def on_mount(self) -> None:
        self.run_worker(self._follow(), group="follow")

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._look)

    async def _follow(self) -> None:
        while True:
            await self._take()
            await asyncio.sleep(OUTPUT_EVERY)

    def _look(self) -> None:
        self.run_worker(self._take(), group="look", exclusive=True)

    async def _take(self) -> None:
        """Read it, and cut it into rows where it, or the width, is new."""
        width = max(self.box.size.width - 4, 4)
        if width == 4:
            return
        before = self._cut

        def rows() -> tuple[str, tuple[str, ...]] | None:
            try:
                text = self._read()
            except FoldlineError as failure:
                text = str(failure)
            return None if (text, width) == before else (text, rows_of(text, width, self.cut))

        fresh = await asyncio.to_thread(rows)
        if fresh is not None:
            self._cut, self.rows = (fresh[0], width), fresh[1]
            self.fit()
        self.at = self.last_top if self._follows else min(self.at, self.last_top)
        self.update()

    def move(self, step: int) -> None:
        super().move(step)
        self._follows = self.at == self.last_top

    def draw(self, width: int, height: int) -> list[Line]:
        room = max(height - 2, 1)
        rows = self.rows[self.at : self.at + room]
        count = f"{self.at + len(rows):,} of {len(self.rows):,}" if self.rows else ""
        title = ((cut_right(self._title, max(width - 26, 8)), "text bold"),)
        lines: list[Line] = [[(" ", ""), (row, "text")] for row in rows]
        key = partial(name_of, self.KEYS)
        scroll = f"{names_of(self.KEYS, 'up', 'down')} {key('page-up')} {key('page-down')}"
        keys = f"{key('close')} close · {scroll} scroll · {key('last')} follow"
        return boxed(width, title, count, filled(lines, room), hints_in(keys, "muted"))


class TextScreen(OutputScreen):
    """A page that says one thing, no higher than that, its lines broken between words."""

    DEFAULT_CSS: ClassVar[str] = f"TextScreen > ListBox {{ width: {_WIDTH}; }}"
    cut = staticmethod(wrap_spans)

    def height_wanted(self) -> str:
        return str(len(self.rows) + self.margin)
