"""The chart of the timeline: columns of block glyphs, compactions on the axis. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from foldline.context import numbers
from foldline.tui.blocks.cells import Span

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
COMPACTION, SHOWN, MARKED, SUBAGENT = "▼", "▲", "△", "═"
_WHOLE: Final = 20_000
"""Tokens from which on the axis is labelled in whole thousands."""


_MOST_EACH: Final = 6
"""Columns that one request has at most: a few of them are bars, not walls."""
_NEARLY: Final = 1.5


@dataclass(frozen=True, slots=True)
class Spread:
    """How `slots` requests share `width` columns: as many each, or, where there are more of them, evenly."""

    slots: int
    width: int

    @property
    def each(self) -> int:
        """Columns of one request."""
        return min(max(self.width // self.slots, 1), _MOST_EACH)

    @property
    def columns(self) -> int:
        """How many columns are used."""
        return min(self.slots * self.each, self.width)

    def share(self, column: int) -> tuple[int, int]:
        """The requests a column stands for: from the first up to, not including, the second."""
        if self.slots <= self.width:
            return column // self.each, column // self.each + 1
        return column * self.slots // self.width, (column + 1) * self.slots // self.width

    def column(self, slot: int) -> int:
        """The column that stands for a request: the last of its own."""
        if self.slots <= self.width:
            return (slot + 1) * self.each - 1
        return ((slot + 1) * self.width - 1) // self.slots


def heights(sizes: Sequence[int], latest: int, spread: Spread) -> list[int]:
    """The size of each column: its largest request, in tokens. `latest` is the next request."""
    every = [*sizes, latest]
    return [max(every[start:stop]) for start, stop in map(spread.share, range(spread.columns))]


def top_of(largest: int, window: int) -> int:
    """Where the scale ends: at the largest request, or at the window where that is nearly full."""
    return window if 0 < largest <= window <= largest * _NEARLY else max(largest, 1)


def glyph(size: int, top: int, row: int, rows: int) -> str:
    """The block of a column in a row, counted from the lowest. Something is never drawn as nothing."""
    eighths = max(int(size * rows * 8 / top + 0.5), 1) if size > 0 else 0
    return BLOCKS[max(min(eighths - row * 8, 8), 0)]


def labels(top: int, rows: int) -> list[str]:
    """What stands left of each row, from the highest, and of the axis; all as wide."""
    names = [_label(top * row // rows, top) for row in range(rows, 0, -1)]
    width = max(4, *(cell_len(name) for name in names))
    return [f"{name:>{width}}" for name in (*names, "0")]


def _label(tokens: int, top: int) -> str:
    if _WHOLE <= top < 1_000_000:
        return numbers.short_tokens((tokens + 500) // 1000 * 1000)
    return numbers.short_tokens(tokens)


def bar_row(sizes: Sequence[int], top: int, row: int, rows: int, shown: int, each: int = 1) -> list[Span]:
    """A row of the chart; the `each` columns of the shown request, up to `shown`, stand out."""
    line = "".join(glyph(size, top, row, rows) for size in sizes)
    first, stop = shown + 1 - each, shown + 1
    return [(line[:first], "muted"), (line[first:stop], "accent"), (line[stop:], "muted")]


def axis(
    columns: int,
    compactions: Iterable[tuple[int, int]],
    shown: int,
    marked: int | None,
    subagents: Iterable[range] = (),
) -> list[Span]:
    """The axis: `▼` under the last request before each compaction, its index before it where there is room,
    `═` where subagents ran.

    `compactions` are (index, column) in order; `shown` and `marked` are columns, `subagents` ranges of them.
    """
    cells = ["─"] * columns
    for span in subagents:
        cells[span.start : span.stop] = SUBAGENT * len(span)
    marks: dict[int, str] = {}
    free = 0  # nothing is written left of this column
    found = list(compactions)
    taken = {column for _, column in found} | {shown} | ({marked} if marked is not None else set())
    for index, column in found:
        name = str(index)
        start = column - len(name) - 1
        if start >= free and not taken & set(range(start, column)):
            cells[start : start + len(name)] = name
        marks[column] = COMPACTION
        free = column + 1
    if marked is not None:
        marks[marked] = MARKED
    marks[shown] = SHOWN
    for column, sign in marks.items():
        cells[column] = sign
    styles = {COMPACTION: "folded bold", SHOWN: "accent bold", MARKED: "accent", SUBAGENT: "live"}
    return [(cell, styles.get(cell, "folded" if cell.isdigit() else "muted")) for cell in cells]
