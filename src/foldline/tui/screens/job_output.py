"""All that a job wrote, to be scrolled: read and cut into lines in a thread, drawn a screen at a time."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType

from foldline.context.harmless import clean_line
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import chop_spans, cut_right
from foldline.tui.keys.table import ScreenKey, bindings, name_of, names_of, table
from foldline.tui.lists.box import Line, boxed, filled
from foldline.tui.lists.screen import HELP, PageScreen, moves

KEYS: Final = table(
    "output",
    *moves("line", far="A screen"),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Back to the jobs; this one runs on."),
    title="Output of a job",
)

EVERY: Final = 0.5
"""Seconds between two looks for more."""


def rows_of(text: str, width: int) -> tuple[str, ...]:
    """The lines of an output, cut every `width` cells: nothing of them is left out."""
    rows: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if len(line) <= width and line.isascii() and line.isprintable():
            rows.append(line)
        else:
            pieces = chop_spans([(clean_line(line), "")], width)
            rows += ["".join(piece for piece, _ in spans) for spans in pieces]
    return tuple(rows)


class OutputScreen(PageScreen[str]):
    """`read` gives all of it, again and again; it is called in a thread. `at` is the row at the top; who
    sees the last row follows what comes."""

    DEFAULT_CSS: ClassVar[str] = "OutputScreen > ListBox { width: 100%; height: 100%; }"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, title: str, read: Callable[[], str], *, every: float = EVERY) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._read = read
        self._every = every
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
            await asyncio.sleep(self._every)

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
            return None if (text, width) == before else (text, rows_of(text, width))

        fresh = await asyncio.to_thread(rows)
        if fresh is not None:
            self._cut, self.rows = (fresh[0], width), fresh[1]
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
        scroll = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-up')} {name_of(KEYS, 'page-down')}"
        keys = f"{name_of(KEYS, 'close')} close · {scroll} scroll · {name_of(KEYS, 'last')} follow"
        return boxed(width, title, count, filled(lines, room), ((keys, "muted"),))
