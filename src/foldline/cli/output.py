"""Terminal output: results on stdout and notes on stderr.

Control characters in printed text are replaced.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.text.harmless import json_with_escapes, with_signs
from foldline.text.numbers import many
from foldline.text.shorten import cells, clip_cells

from .streams import flush_out, write_error, write_out

if TYPE_CHECKING:
    from rich.progress import Progress

_DAMAGED_TITLE = 24
"""Maximum width of a damaged session's title, in cells.

The rest of the space is used for describing the damage.
"""
PIPED_WIDTH = 120
"""Width of tables, in columns, if stdout is not a terminal."""
WIDE = 100
"""Minimum terminal width, in columns, at which tables show longer names."""
NOT_A_TERMINAL = "Foldline cannot ask without a terminal: use {option}."
SESSION_ENDED = "session {ref}: run `{command}` to continue it."
COPIED = "Run `foldline -r {ref}` to continue it in {folder}. {original} is unchanged."

Json = dict[str, object]
"""An object in `--json` output."""
Style = Literal["bold", "muted", "altered", "compacted", "alert"]
_CODES: dict[Style, str] = {
    "bold": "1",
    "muted": "90",
    "altered": "33",
    "compacted": "34",
    "alert": "31",
}


def say(text: str = "", style: Style | None = None) -> None:
    """Print a line. Control characters are replaced."""
    write_out(paint(with_signs(text), style) + "\n")


def say_heading(text: str) -> None:
    say(text, "bold")


def say_legend(text: str) -> None:
    """Print a table's legend if stdout is a terminal."""
    if sys.stdout.isatty():
        say(text, "muted")


def note(sentence: str) -> None:
    """Print a sentence on stderr."""
    flush_out()
    write_error(f"foldline: {with_signs(sentence)}\n")


def note_session(ref: str, command: str) -> None:
    """Print a session's id, and the command that continues the session."""
    note(SESSION_ENDED.format(ref=ref, command=command))


def say_json(value: object, *, pretty: bool = True) -> None:
    """Print a JSON value on one line or, with `pretty`, indented."""
    text = json.dumps(
        value, ensure_ascii=False, indent=2 if pretty else None, default=_as_json
    )
    write_out(json_with_escapes(text) + "\n")


def _as_json(value: datetime | Path) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def entries_of(count: int) -> str:
    """Format a number of entries, for example `1 entry` or `1,204 entries`."""
    return many(count, "entry", "entries")


# --- tables -----------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A table cell. `style` applies only on terminals."""

    text: str
    style: Style | None = None


class Column(NamedTuple):
    """A table column. Columns with `grows` share the remaining width."""

    title: str
    right: bool = False
    grows: bool = False
    most: int = 40
    """Maximum width, in cells. Longer text is cut off."""


Row = list[Cell | str]
Table = tuple[list[Column], list[Row]]
"""A table's columns and rows, which are the arguments of `say_table`."""


def without_empty_columns(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    """Leave out the columns in which no row has text."""
    shown = [
        number
        for number in range(len(columns))
        if any(_as_cell(row[number]).text for row in rows)
    ]
    return (
        [columns[number] for number in shown],
        [[row[number] for number in shown] for row in rows],
    )


def _as_cell(cell: Cell | str) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]]) -> None:
    """Print a table that is at most as wide as the terminal."""
    lines = [list(map(_as_cell, row)) for row in rows]
    titles = [Cell(column.title, "muted") for column in columns]
    full_widths = [
        max(cells(cell.text) for cell in column)
        for column in zip(titles, *lines, strict=True)
    ]
    widths = [
        min(column.most, full)
        for column, full in zip(columns, full_widths, strict=True)
    ]
    fixed = sum(
        width + 2
        for width, column in zip(widths, columns, strict=True)
        if not column.grows
    )
    for number, column in enumerate(columns):
        if column.grows:
            widths[number] = min(full_widths[number], max(16, width() - fixed))
    for line in (titles, *lines):
        _say_row(columns, widths, line)


def _say_row(
    columns: Sequence[Column], widths: Sequence[int], row: Sequence[Cell]
) -> None:
    shown = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        text = _clipped(cell.text, width)
        gap = " " * (width - cells(text))
        painted = paint(text, cell.style)
        shown.append(gap + painted if column.right else painted + gap)
    write_out("  ".join(shown).rstrip() + "\n")


def _clipped(text: str, width: int) -> str:
    """Shorten text to one line of `width` cells. The indentation is kept."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + clip_cells(text, max(1, width - indent))


def paint(text: str, style: Style | None) -> str:
    """Return styled text if stdout is a terminal with colours.

    Otherwise, returns the text unchanged.
    """
    if style is None or not text or not _has_colours():
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _has_colours() -> bool:
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def width() -> int:
    """Return the terminal's width in columns.

    Without a terminal, returns `PIPED_WIDTH`.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def shown_folder(path: str, most: int) -> str:
    """Shorten a path to about `most` cells by dropping its first folders."""
    ellipsis = "…" + os.sep
    shown = with_tilde(path)
    while len(shown) > most and os.sep in shown.removeprefix(ellipsis):
        shown = ellipsis + shown.removeprefix(ellipsis).split(os.sep, 1)[1]
    return shown


def title_cell(title: str, damage: str, untitled: str) -> Cell:
    """Return a cell with a session's title and damage."""
    if not damage:
        return Cell(title or untitled)
    title = clip_cells(title, _DAMAGED_TITLE)
    return Cell(f"{title}: {damage}" if title else damage, "alert")


def progress_bar(total: int) -> "Progress":
    """Return a progress bar on stderr, which disappears when it is finished.

    It shows nothing if stderr is not a terminal.
    """
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.BarColumn(bar_width=30),
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    bar.add_task("", total=total)
    return bar


def step(bar: "Progress", description: str, count: int = 1) -> None:
    """Advance a progress bar and change its description."""
    bar.update(bar.task_ids[0], advance=count, description=description)


def confirmed(question: str, *, yes: bool, option: str) -> bool:
    """Ask for confirmation in the terminal.

    With `yes`, return True without asking.

    Args:
        option: the error message's suggestion, such as the option that sets `yes`.

    Raises:
        FoldlineError: stdin is not a terminal.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise FoldlineError(f"{question} {NOT_A_TERMINAL.format(option=option)}")
    sys.stderr.write(f"{with_signs(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
