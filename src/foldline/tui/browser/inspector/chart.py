"""Draws the timeline chart: bars of block characters above an axis that marks compactions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from foldline.text import numbers
from foldline.tui.look.cells import Span

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
COMPACTION: Final = "▼"
SHOWN: Final = "▲"
MARKED: Final = "△"
SUBAGENT: Final = "═"
_WHOLE_THOUSANDS: Final = 20_000
"""Minimum top value of a scale, in tokens, at which its labels are in whole thousands."""
_MAX_COLUMNS: Final = 6
"""Maximum width of a bar, in columns. Reached only in short histories."""
_NEARLY_FULL: Final = 1.5
"""Maximum ratio of the window to the largest request at which the scale shows the full window."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """Distributes `slots` requests over `width` columns.

    All requests get the same number of columns. If there are more requests than columns, a column shows
    several requests.
    """

    slots: int
    width: int

    @property
    def columns_per_request(self) -> int:
        return min(max(self.width // self.slots, 1), _MAX_COLUMNS)

    @property
    def columns(self) -> int:
        """Number of columns that the bars take up."""
        return min(self.slots * self.columns_per_request, self.width)

    def requests_at(self, column: int) -> tuple[int, int]:
        """Return the requests shown in a column, as a half-open range: (first, last + 1)."""
        if self.slots > self.width:
            return column * self.slots // self.width, (
                column + 1
            ) * self.slots // self.width
        request = column // self.columns_per_request
        return request, request + 1

    def column(self, slot: int) -> int:
        """Return the last column that shows a request."""
        if self.slots > self.width:
            return ((slot + 1) * self.width - 1) // self.slots
        return (slot + 1) * self.columns_per_request - 1


def heights(sizes: Sequence[int], latest: int, layout: ColumnLayout) -> list[int]:
    """Return the size of the largest request in each column, in tokens.

    Args:
        latest: the size of the next request.
    """
    all_sizes = [*sizes, latest]
    ranges = map(layout.requests_at, range(layout.columns))
    return [max(all_sizes[start:stop]) for start, stop in ranges]


def top_of(largest: int, window: int) -> int:
    """Return the top of the scale, in tokens.

    This is the window if the largest request almost fills it, otherwise the size of that request.
    """
    if 0 < largest <= window <= largest * _NEARLY_FULL:
        return window
    return max(largest, 1)


def glyph(size: int, top: int, row: int, rows: int) -> str:
    """Return the block character of a bar in a row, where row 0 is the lowest.

    A size above 0 gets at least the smallest block.
    """
    if size <= 0:
        return BLOCKS[0]
    eighths = max(int(size * rows * 8 / top + 0.5), 1)
    return BLOCKS[max(min(eighths - row * 8, 8), 0)]


def labels(top: int, rows: int) -> list[str]:
    """Return the labels of the rows, from top to bottom, and of the axis.

    All labels have the same width.
    """
    names = [_label(top * row // rows, top) for row in range(rows, 0, -1)]
    width = max(4, *(cell_len(name) for name in names))
    return [f"{name:>{width}}" for name in (*names, "0")]


def _label(tokens: int, top: int) -> str:
    if _WHOLE_THOUSANDS <= top < 1_000_000:
        return numbers.short_tokens((tokens + 500) // 1000 * 1000)
    return numbers.short_tokens(tokens)


def bar_row(
    sizes: Sequence[int], top: int, row: int, rows: int, shown: int, columns: int = 1
) -> list[Span]:
    """Return one row of the chart, highlighting the displayed request's bar.

    Args:
        shown: the last column of that bar.
        columns: the width of the bar.
    """
    line = "".join(glyph(size, top, row, rows) for size in sizes)
    stop = shown + 1
    first = stop - columns
    return [
        (line[:first], "muted"),
        (line[first:stop], "accent"),
        (line[stop:], "muted"),
    ]


def axis(
    columns: int,
    compactions: Iterable[tuple[int, int]],
    shown: int,
    marked: int | None,
    subagents: Iterable[range] = (),
) -> list[Span]:
    """Return the axis, with symbols for compactions, requests and subagents.

    `▼` marks the last request before each compaction. The index of the compaction is added if there is room.

    Args:
        compactions: (index, column) of each compaction, in order.
        shown: column of the request that is displayed.
        marked: column of the marked request.
        subagents: ranges of columns during which subagents ran.
    """
    cells = ["─"] * columns
    for span in subagents:
        cells[span.start : span.stop] = SUBAGENT * len(span)
    compactions = list(compactions)
    signs = {column: COMPACTION for _, column in compactions}
    if marked is not None:
        signs[marked] = MARKED
    signs[shown] = SHOWN
    free = 0  # first column still free for a number
    for index, column in compactions:
        name = str(index)
        start = column - len(name) - 1
        if start >= free and signs.keys().isdisjoint(range(start, column)):
            cells[start : start + len(name)] = name
        free = column + 1
    for column, sign in signs.items():
        cells[column] = sign
    return [(cell, _axis_style(cell)) for cell in cells]


def _axis_style(cell: str) -> str:
    if cell.isdigit():
        return "compacted"
    return _AXIS_STYLES.get(cell, "muted")


_AXIS_STYLES: Final = {
    COMPACTION: "compacted bold",
    SHOWN: "accent bold",
    MARKED: "accent",
    SUBAGENT: "live",
}
