"""Background jobs: how they stand, what they wrote, and ending them.

The list is looked at a few times a second; output is read and cut into lines in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType

from foldline.context.harmless import clean_line
from foldline.context.numbers import elapsed, many
from foldline.files import read_regular
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError, system_words
from foldline.tui.blocks.cells import Span, chop_spans, crop, cut_left, cut_right, wrap_spans
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, name_of, names_of, table
from foldline.tui.lists.screen import ListScreen, PageScreen
from foldline.tui.runner import Runner
from foldline.tui.widgets.lines import Line, boxed, filled, hints_in, key_words

if TYPE_CHECKING:
    from foldline.agent.tools.jobs import Job
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
    runs_on: bool = False
    """Whether it has ended and a process of it still runs."""

    @property
    def runs(self) -> bool:
        return not self.ending

    @property
    def can_end(self) -> bool:
        return self.runs or self.runs_on


KEYS: Final = table(
    "jobs",
    "Job",
    ScreenKey[None]("open", ("enter",), "Shows all that it wrote; new output is followed.", hint="output"),
    ScreenKey("end", ("K",), "Ends it and all it started. Asks once more; the model sees it.", hint="end"),
    *moves("job"),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Closes; the jobs run on.", hint="close"),
)

_WIDTH: Final = 104
_NONE: Final = (
    "No background jobs yet.",
    "The agent starts one with its tool bash and background: a server, a watcher, long tests. It runs on "
    "after the turn, and ends with Foldline.",
)
EVERY: Final = 0.25
"""Seconds between two looks at what the jobs do."""


class JobsScreen(ListScreen[None, JobRow]):
    """Closing it ends nothing."""

    DEFAULT_CSS: ClassVar[str] = f"JobsScreen > ListBox {{ width: {_WIDTH}; }}"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(
        self,
        look: Callable[[], Sequence[JobRow]],
        output: Callable[[int], str],
        end: Callable[[int], Awaitable[None]],
    ) -> None:
        """`look` gives the jobs as they stand now, the newest first; `output` all that the job of a number
        wrote, in a thread, and may raise FoldlineError; `end` ends it and all it started."""
        super().__init__(look())
        self._look, self._output, self._end = look, output, end

    def height_wanted(self) -> int:
        return min(len(self.rows) + 4, 30) if self.rows else len(self._none(self.app.size.width)) + 2

    def on_mount(self) -> None:
        self.set_interval(EVERY, self.look)

    def look(self) -> None:
        """Show the jobs as they are now."""
        self.show_rows(self._look(), lambda one, other: one.number == other.number)
        self.fit()
        if self.row is None or not self.row.can_end:
            self.question = None

    def works_now(self, command: str) -> bool:
        if command in ("help", "close"):
            return True
        return self.row is not None and (command != "end" or self.row.can_end)

    def act(self, command: str) -> None:
        row = self.row
        assert row is not None, "no key works without a job"
        if command == "open":
            title = f"Output of job {row.number}: {row.command}"
            self.app.push_screen(OutputScreen(title, partial(self._output, row.number)))
        else:
            sentence = f"Enter ends job {row.number} and all it started; any other key: no"
            self.confirm(sentence, "end", lambda: self.run_worker(self._ended(row.number)))

    async def _ended(self, number: int) -> None:
        await self._end(number)
        self.look()

    def draw(self, width: int, height: int) -> list[Line]:
        running, draw = sum(row.runs for row in self.rows), partial(_job_line, width=width - 2)
        count = f"{running} of {many(len(self.rows), 'job')} running" if self.rows else ""
        body = [*self.row_lines(max(height - 4, 1), 1, draw, self._none(width)), []]
        if self.row is not None:
            path = cut_left(clean_line(self.row.path), max(width - 4, 0))
            body.append([(" ", ""), (path, "muted")])
        foot = key_words(self.hints())
        if self.question is not None:
            foot = (("! ", "alert"), *hints_in(self.question.sentence, "alert"))
        return boxed(width, (("Background jobs", "text bold"),), count, filled(body, height - 2), foot)

    def _none(self, width: int) -> list[Line]:
        """What is said where there is no job."""
        room = min(width, _WIDTH) - 5
        said = [line for each in _NONE for line in (*wrap_spans([(each, "muted")], room), [])]
        return [[("  ", ""), *line] for line in said[:-1]]


def _job_line(row: JobRow, marked: bool, *, width: int) -> Line:
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


_STOPPED = "stopped by the user"
"""Why a job ended that was ended here: in the words that the model sees."""


def open_jobs(chat: "ChatScreen", runner: Runner) -> None:
    from foldline.agent.tools.jobs import earlier_outputs

    jobs = runner.agent.state.jobs
    earlier = earlier_outputs(runner.agent.state.spill_dir, [job.number for job in jobs.all()])
    earlier_rows = [_earlier_row(number, path) for number, path in earlier.items()]

    def look() -> Sequence[JobRow]:
        now = datetime.now()
        return sorted([*earlier_rows, *(_row(job, now) for job in jobs.all())], key=lambda row: -row.number)

    def output(number: int) -> str:
        job = jobs.numbered(number)
        path = earlier[number] if job is None else job.kept.path
        try:
            return read_regular(path).decode("utf-8", "replace") if job is None else job.kept.text()
        except OSError as error:
            shown = with_tilde(str(path))
            raise FoldlineError(f"Its output in {shown} cannot be read: {system_words(error)}.") from None

    async def end(number: int) -> None:
        if (job := jobs.numbered(number)) is not None:
            await jobs.stop(job, _STOPPED)

    chat.push_screen(JobsScreen(look, output, end))


def _earlier_row(number: int, path: Path) -> JobRow:
    """A job of an earlier run of the program: only its output is kept."""
    return JobRow(number, "(of an earlier run)", ending="ended with Foldline", path=with_tilde(str(path)))


def _row(job: "Job", now: datetime) -> JobRow:
    from foldline.agent.tools.text import one_line

    ending = "" if job.runs else job.end
    if job.runs_on:
        ending = f"runs on ({job.end})"
    began = now - timedelta(seconds=job.age)
    return JobRow(
        job.number,
        one_line(job.command),
        ending=ending,
        failed=not job.runs and bool(job.status or job.why) and job.why != _STOPPED,
        since=f"{began:%H:%M}",
        seconds=job.seconds,
        path=with_tilde(str(job.kept.path)),
        runs_on=job.runs_on,
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
    GROWS: ClassVar[bool] = True
    """Whether more may come, so that the end is what is looked at."""
    cut = staticmethod(chop_spans)

    def __init__(self, title: str, read: Callable[[], str]) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._read = read
        self._cut: tuple[str, int] = ("", 0)
        """What was read, and the width at which it was cut into rows."""
        self._follows = self.GROWS

    def height_wanted(self) -> str:
        return "100%"

    def on_mount(self) -> None:
        self.run_worker(self._follow(), group="follow")

    def on_resize(self, event: events.Resize) -> None:
        # Not its coroutine, which nobody awaits where the next one cancels this before it has begun.
        self.call_after_refresh(self.run_worker, self._take, group="look", exclusive=True)

    async def _follow(self) -> None:
        while True:
            await self._take()
            await asyncio.sleep(OUTPUT_EVERY)

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
        self._follows = self.GROWS and self.at == self.last_top

    def draw(self, width: int, height: int) -> list[Line]:
        room = max(height - 2, 1)
        rows = self.rows[self.at : self.at + room]
        count = f"{self.at + len(rows):,} of {len(self.rows):,}" if self.rows else ""
        title = ((cut_right(self._title, max(width - 26, 8)), "text bold"),)
        lines: list[Line] = [[(" ", ""), (row, "text")] for row in rows]
        key = partial(name_of, self.KEYS)
        scroll = f"{names_of(self.KEYS, 'up', 'down')} {key('page-up')} {key('page-down')}"
        keys = f"{key('close')} close · {scroll} scroll" + f" · {key('last')} follow" * self.GROWS
        return boxed(width, title, count, filled(lines, room), hints_in(keys, "muted"))


class TextScreen(OutputScreen):
    """A page that says one thing, no higher than that, its lines broken between words."""

    DEFAULT_CSS: ClassVar[str] = f"TextScreen > ListBox {{ width: {_WIDTH}; }}"
    GROWS = False
    cut = staticmethod(wrap_spans)

    def height_wanted(self) -> str:
        return str(len(self.rows) + self.margin)
