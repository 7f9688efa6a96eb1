"""All that a job wrote, to be scrolled: read and cut into lines in a thread, drawn a screen at a time."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from textual.binding import BindingType

from foldline.context.harmless import clean_line
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import chop_spans, cut_right
from foldline.tui.keys.table import ScreenKey, bindings, name_of, names_of, table
from foldline.tui.lists.box import Line, boxed, filled
from foldline.tui.lists.screen import HELP, ListScreen

KEYS: Final = table(
    "output",
    ScreenKey["OutputScreen"]("up", ("up", "k"), "One line up.", "Output"),
    ScreenKey("down", ("down", "j"), "One line down.", "Output"),
    ScreenKey("page-up", ("pageup",), "A screen up.", "Output"),
    ScreenKey("page-down", ("pagedown",), "A screen down.", "Output"),
    ScreenKey("first", ("home",), "To the first line.", "Output"),
    ScreenKey("last", ("end",), "To the last line; new output is followed.", "Output"),
    HELP,
    ScreenKey("close", ("escape", "q"), "Back to the jobs; this one runs on.", "Program"),
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


class OutputScreen(ListScreen[None, str]):
    """`read` gives all of it, again and again; it is called in a thread. `at` is the row at the top; who
    sees the last row follows what comes."""

    DEFAULT_CSS: ClassVar[str] = "OutputScreen > _Box { width: 100%; height: 100%; }"
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

    def on_resize(self) -> None:
        self.call_after_refresh(self._look)

    @property
    def _room(self) -> int:
        return max(self.box.size.height - 2, 1)

    @property
    def _last_top(self) -> int:
        return max(len(self.rows) - self._room, 0)

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
        self.at = self._last_top if self._follows else min(self.at, self._last_top)
        self.update()

    def move(self, step: int) -> None:
        self.at = min(max(self.at + step, 0), self._last_top)
        self._follows = self.at == self._last_top
        self.update()

    def do(self, command: str) -> None:
        if command in ("page-up", "page-down"):
            step = max(self._room - 1, 1)
            self.move(-step if command == "page-up" else step)
        else:
            super().do(command)

    def draw(self, width: int, height: int) -> list[Line]:
        room = max(height - 2, 1)
        rows = self.rows[self.at : self.at + room]
        count = f"{self.at + len(rows):,} of {len(self.rows):,}" if self.rows else ""
        title = ((cut_right(self._title, max(width - 26, 8)), "text bold"),)
        lines: list[Line] = [[(" ", ""), (row, "text")] for row in rows]
        scroll = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-up')} {name_of(KEYS, 'page-down')}"
        keys = f"{name_of(KEYS, 'close')} close · {scroll} scroll · {name_of(KEYS, 'last')} follow"
        return boxed(width, title, count, filled(lines, room), ((keys, "muted"),))
