"""What reaches the terminal: results on stdout, all else on stderr, nothing foreign that acts on it."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from foldline.context.harmless import json_with_escapes, with_signs
from foldline.context.numbers import elapsed, many
from foldline.history.meta import cells, clip_cells
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError

from .streams import flush_out, write_beside, write_out

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


PIPED_WIDTH = 120
"""Columns of a table that nobody's terminal limits."""
WIDE = 100
"""Columns of the terminal from which a table shows longer names."""

Json = dict[str, object]
"""An object as programs get it."""
Style = Literal["bold", "muted", "altered", "compacted", "alert"]
_CODES: dict[Style, str] = {"bold": "1", "muted": "90", "altered": "33", "compacted": "34", "alert": "31"}


def say(text: str = "", style: Style | None = None) -> None:
    """Write a line for people to stdout, made harmless before."""
    write_out(paint(with_signs(text), style) + "\n")


def say_heading(text: str) -> None:
    say(text, "bold")


def say_legend(text: str) -> None:
    """What the marks mean: for people at a terminal, not for what reads a pipe."""
    if sys.stdout.isatty():
        say(text, "muted")


def note(sentence: str) -> None:
    """A sentence beside the result, on stderr; where that takes none, such as on a full disk, unsaid."""
    flush_out()
    write_beside(f"foldline: {with_signs(sentence)}\n")


def say_json(value: object, *, pretty: bool = True) -> None:
    """One JSON value for programs, on stdout; on one line unless `pretty`."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if pretty else None, default=_as_json)
    write_out(json_with_escapes(text) + "\n")


def _as_json(value: object) -> str:
    """A path, or a time."""
    return value.isoformat() if isinstance(value, datetime) else os.fspath(value)  # type: ignore[call-overload]


def entries_of(count: int) -> str:
    """`1 entry`, `1,204 entries`."""
    return many(count, "entry", "entries")


# --- tables -----------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One cell of a table; `style` is shown on terminals only."""

    text: str
    style: Style | None = None


class Column(NamedTuple):
    """How a column stands. The one that `grows` gets the room that is left."""

    title: str
    right: bool = False
    grows: bool = False
    most: int = 40


Row = list[Cell | str]
Table = tuple[list[Column], list[Row]]
"""Columns and rows, as `say_table` takes them."""
T = TypeVar("T")
Field = tuple[bool, Column, Callable[[T], Cell | str]]
"""A column of a table of things: whether it is shown, how it stands, and its cell for each thing."""


def table_of(fields: Sequence[Field[T]], things: Sequence[T]) -> Table:
    """Return the columns that are shown, and a row for each thing."""
    shown = [(column, cell) for is_shown, column, cell in fields if is_shown]
    return [column for column, _ in shown], [[cell(thing) for _, cell in shown] for thing in things]


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]]) -> None:
    """A table with one line a row, its columns two cells apart, as wide as the terminal at most."""
    lines = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widest = [
        max([cells(column.title), *(cells(line[place].text) for line in lines)])
        for place, column in enumerate(columns)
    ]
    widths = [min(column.most, needed) for column, needed in zip(columns, widest, strict=True)]
    taken = sum(width + 2 for width, column in zip(widths, columns, strict=True) if not column.grows) - 2
    for place, column in enumerate(columns):
        if column.grows:
            widths[place] = min(widest[place], max(16, width() - taken - 2))
    _say_row(columns, widths, [Cell(column.title, "muted") for column in columns])
    for line in lines:
        _say_row(columns, widths, line)


def _say_row(columns: Sequence[Column], widths: Sequence[int], row: Sequence[Cell]) -> None:
    shown = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        text = _clipped(cell.text, width)
        gap = " " * (width - cells(text))
        painted = paint(text, cell.style)
        shown.append(gap + painted if column.right else painted + gap)
    write_out("  ".join(shown).rstrip() + "\n")


def _clipped(text: str, width: int) -> str:
    """On one line within so many cells; blanks at its beginning are layout and stay."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + clip_cells(text, max(1, width - indent))


def paint(text: str, style: Style | None) -> str:
    """The text in a style, on a terminal that has colours and is allowed to use them."""
    if style is None or not text or not _coloured():
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal; of a table where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def shown_folder(path: str, most: int) -> str:
    """A folder in about so many cells, cut on its left at a folder's name: its end says most."""
    shown = with_tilde(path)
    while len(shown) > most and os.sep in shown.removeprefix("…" + os.sep):
        shown = "…" + os.sep + shown.removeprefix("…" + os.sep).split(os.sep, 1)[1]
    return shown


def sized_cell(size: int) -> str:
    from foldline.agent.tools.text import sized  # the tools come along: only where a size is shown

    return sized(size) if size else ""


class Bar:
    """Counts up to `total`, with what is being done beside it. Goes away when it is done."""

    def __init__(self, total: int, *, unwatched: Callable[[str], object] | None = None) -> None:
        """Where no terminal shows it, `unwatched` is called after each tenth."""
        self._total = total
        self._unwatched = unwatched
        self._began = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
            )
            text = TextColumn("{task.description}", markup=False)
            self._bar = Progress(*columns, text, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, description: str, count: int = 1) -> None:
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, description=description)
        elif self._unwatched is not None and 0 < self._done < self._total:
            tenth = self._done * 10 // self._total
            if tenth > (self._done - count) * 10 // self._total or self._done == count:
                left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
                so_far = f"{description}: {self._done:,} of {self._total:,}"
                self._unwatched(f"{so_far}, about {elapsed(left)} to go.")


def confirmed(question: str, *, yes: bool, how: str) -> bool:
    """Whether to continue: a key pressed, or said beforehand by an option. `how` names the option.

    Raises:
        FoldlineError: nobody is there to be asked, and nothing was said beforehand.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise FoldlineError(f"{question} Nobody is there to be asked: {how} says yes beforehand.")
    sys.stderr.write(f"{with_signs(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
