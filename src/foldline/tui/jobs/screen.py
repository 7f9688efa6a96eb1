"""The Jobs screen: the list is looked at a few times a second, the output read beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Protocol

from textual import events
from textual.binding import BindingType
from textual.containers import Vertical

from foldline.protocol import FoldlineError
from foldline.tui.help import open_help
from foldline.tui.jobs.keys import KEYS
from foldline.tui.jobs.output import OutputScreen
from foldline.tui.jobs.rows import screen_lines
from foldline.tui.jobs.state import JobRow, JobsState
from foldline.tui.keys.table import bindings, key_of, works
from foldline.tui.widgets.box import BoxedScreen

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
