"""All that a program wrote, to be scrolled: read and cut into lines in a thread, drawn a screen at a time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from foldline.context.harmless import clean_line
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Span, chop_spans, cut_right
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import ScreenKey, bindings, name_of, names_of, table
from foldline.tui.widgets.lines import HEAVY, edge, sides
from foldline.tui.widgets.status import StatusLine

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "output",
    ScreenKey("up", ("up", "k"), "One line up.", "Output"),
    ScreenKey("down", ("down", "j"), "One line down.", "Output"),
    ScreenKey("page-up", ("pageup",), "A screen up.", "Output"),
    ScreenKey("page-down", ("pagedown",), "A screen down.", "Output"),
    ScreenKey("first", ("home",), "To the first line.", "Output"),
    ScreenKey("last", ("end",), "To the last line; what comes is followed.", "Output"),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program"),
    ScreenKey("close", ("escape", "q"), "Back to the jobs; this one runs on.", "Program"),
    title="Output of a job",
)


EVERY: Final = 0.5
"""Seconds between two looks for more."""


@dataclass(frozen=True, slots=True)
class _Text:
    """What was read, and its rows at one width."""

    text: str = ""
    width: int = 0
    rows: tuple[str, ...] = ()


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


class _Page(StatusLine, can_focus=True):
    DEFAULT_CSS: ClassVar[str] = "_Page { height: 1fr; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = clean_line(title)
        self.read = _Text()
        self.top = 0
        self.follows = True

    @property
    def room(self) -> int:
        return max(self.size.height - 2, 1)

    @property
    def last_top(self) -> int:
        return max(len(self.read.rows) - self.room, 0)

    def to(self, top: int) -> None:
        """Show the rows from this one on. Who sees the last one follows what comes."""
        self.top = min(max(top, 0), self.last_top)
        self.follows = self.top == self.last_top
        self.update()

    def take(self, read: _Text) -> None:
        self.read = read
        self.top = self.last_top if self.follows else min(self.top, self.last_top)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        rows = self.read.rows[self.top : self.top + self.room]
        inside: list[list[Span]] = [[(" ", ""), (row, "text")] for row in rows]
        inside += [[]] * (self.room - len(inside))
        count = f"{self.top + len(rows):,} of {len(self.read.rows):,}" if self.read.rows else ""
        title = ((cut_right(self._title, max(width - 26, 8)), "text bold"),)
        keys = ((_keys(), "muted"),)
        return self.with_message(
            [
                edge(HEAVY, True, title, ((count, "muted"),), width),
                *(sides(HEAVY, line, width) for line in inside),
                edge(HEAVY, False, keys, (), width),
            ],
            width,
        )


def _keys() -> str:
    scrolls = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-up')} {name_of(KEYS, 'page-down')}"
    return f"{name_of(KEYS, 'close')} closes · {scrolls} scroll · {name_of(KEYS, 'last')} follows"


class OutputScreen(ModalScreen[None]):
    """`read` gives all of it, again and again; it is called in a thread."""

    DEFAULT_CSS: ClassVar[str] = """
    OutputScreen { background: transparent; }
    OutputScreen > Vertical { width: 100%; height: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "output")

    def __init__(self, title: str, read: Callable[[], str], *, every: float = EVERY) -> None:
        super().__init__()
        self._read = read
        self._every = every
        self._page = _Page(title)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._page

    def on_mount(self) -> None:
        self._page.focus()
        self.run_worker(self._follow(), group="follow")

    def on_resize(self) -> None:
        self.call_after_refresh(self._look)

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._page.tell(words)

    async def _follow(self) -> None:
        while True:
            await self._take()
            await asyncio.sleep(self._every)

    def _look(self) -> None:
        self.run_worker(self._take(), group="look", exclusive=True)

    async def _take(self) -> None:
        """Read it, and cut it into rows where it, or the width, is new."""
        width = max(self._page.size.width - 4, 4)
        if width == 4:
            return
        before = self._page.read

        def rows() -> _Text | None:
            try:
                text = self._read()
            except FoldlineError as failure:
                text = str(failure)
            same = (text, width) == (before.text, before.width)
            return None if same else _Text(text, width, rows_of(text, width))

        fresh = await asyncio.to_thread(rows)
        if fresh is not None:
            self._page.take(fresh)
        self._page.update()

    def action_output(self, command: str) -> None:
        """What a key of the table does."""
        page = self._page
        match command:
            case "up" | "down":
                page.to(page.top + (-1 if command == "up" else 1))
            case "page-up" | "page-down":
                step = max(page.room - 1, 1)
                page.to(page.top + (-step if command == "page-up" else step))
            case "first":
                page.to(0)
            case "last":
                page.to(page.last_top)
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)
