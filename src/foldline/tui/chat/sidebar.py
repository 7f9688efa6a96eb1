"""The side list of files, pins and compactions.

Also draws a legend of the gutter symbols.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from textual import events

from foldline.frontend.state import CompactionRow, FileRow, PinRow, SidebarData
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.tui.look.cells import (
    Span,
    change_spans,
    crop,
    cut_left,
    cut_right,
    width_of,
)
from foldline.tui.look.fates import GUTTER_SIGNS
from foldline.tui.look.lines import LinesWidget, filled
from foldline.tui.look.links import to_file
from foldline.tui.messages import EntryWanted

WIDTH = 33
"""Width of the side list in cells, including the rule at its left."""

RowT = TypeVar("RowT")
Line = list[Span]


class SidebarSection(NamedTuple):
    """A section of the side list."""

    title: str
    total: int
    """Total number of rows."""
    available: int
    """Number of rows that can be drawn, which may be fewer than `total`."""
    row: Callable[[int], Line]
    """Draws the row with this index."""


def sidebar(data: SidebarData, width: int, height: int) -> list[Line]:
    """Draw exactly `height` lines.

    If there is too little room, the longest sections are shortened first, then the legend is left out.
    """
    inner = width - 2
    legend: list[Line] = [
        [("The model still has", "muted")],
        [
            GUTTER_SIGNS["whole"],
            (" whole  ", "muted"),
            GUTTER_SIGNS["part"],
            (" part  ", "muted"),
            GUTTER_SIGNS["name"],
            (" the name", "muted"),
        ],
    ]
    sections: list[SidebarSection] = [
        _section(
            "Modified",
            data.modified,
            data.older_modified,
            lambda file: _file(file, inner),
        ),
        _section("Read", data.read, data.older_read, lambda file: _file(file, inner)),
        _section(
            "Pinned", data.pinned, 0, lambda pin: _entry(pin.index, _pin(pin, inner))
        ),
        _section(
            "Compactions",
            data.compactions[::-1],
            0,
            lambda row: _entry(row.index, _compaction(row, inner)),
        ),
    ]
    shown = [
        section
        for section in sections
        if section.total or section.title in ("Modified", "Read")
    ]
    body = _fitted(shown, inner, height - len(legend) - 1)
    if height < len(body) + len(legend) + 1:
        legend = []
    lines = filled(body, height - len(legend)) + legend
    return [crop([("│ ", "muted"), *line], width) for line in lines]


def _section(
    title: str, rows: Sequence[RowT], older: int, line: Callable[[RowT], Line]
) -> SidebarSection:
    return SidebarSection(
        title, len(rows) + older, len(rows), lambda at: line(rows[at])
    )


def _fitted(sections: list[SidebarSection], inner: int, height: int) -> list[Line]:
    """Draw all sections, shortening the longest until all fit.

    No section is shortened to fewer than three rows. Only the visible rows are drawn, because a long session
    has thousands of files.
    """
    most_rows = max(height, 3)
    rooms = [min(section.available, most_rows) for section in sections]
    # Each section has a title, and there is a blank line between two sections.
    free = height - 2 * len(rooms) + 1
    while sum(rooms) > free:
        largest = max(rooms)
        if largest <= 3:
            break
        rooms[rooms.index(largest)] -= 1
    lines: list[Line] = []
    for section, room in zip(sections, rooms, strict=True):
        if lines:
            lines.append([])
        lines.append(
            _spread([(section.title, "bold")], [(str(section.total), "muted")], inner)
        )
        if room == section.total:
            lines += map(section.row, range(room))
        else:
            lines += map(section.row, range(room - 1))
            lines.append([(f"  … {section.total - room + 1} more", "muted")])
    return lines


def _spread(start: Line, end: Sequence[Span], inner: int) -> Line:
    """Put spans at the left and right of a line.

    The last cell stays blank.
    """
    gap = inner - width_of(start) - width_of(end) - 1
    return [*start, (" " * max(gap, 1), ""), *end]


def _entry(index: int, line: Line) -> Line:
    """Return a line that is a link to an entry."""
    return [(text, f"{style} entry:{index}") for text, style in line]


def _file(file: FileRow, inner: int) -> Line:
    change = change_spans(file.added, file.removed)
    room = inner - 3
    if change:
        room -= width_of(change) + 2
    path = cut_left(clean_line(file.path), room)
    style = "muted" if file.presence == "none" else "text"
    line: Line = [
        GUTTER_SIGNS[file.presence],
        (" ", ""),
        (path, to_file(file.path, style)),
    ]
    return _spread(line, change, inner) if change else line


def _pin(pin: PinRow, inner: int) -> Line:
    weight = numbers.tokens(pin.tokens)
    number = str(pin.index)
    room = inner - len(number) - len(weight) - 6
    text = cut_right(clean_line(pin.text), room)
    line: Line = [GUTTER_SIGNS["whole"], (f" {number} ", "muted"), (text, "text")]
    return _spread(line, [(weight, "muted")], inner)


def _compaction(row: CompactionRow, inner: int) -> Line:
    time = row.at
    style = "text"
    sign = GUTTER_SIGNS["name" if row.written else "part"]
    if row.undone:
        time = "undone"
        style = "muted"
        sign = GUTTER_SIGNS["none"]
    return _spread(
        [sign, (f" {row.index}  ", "muted"), (row.sizes, style)],
        [(time, "muted")],
        inner,
    )


class Sidebar(LinesWidget):
    """The widget for the side list.

    It is shown if the chat has at least 100 columns.
    """

    DEFAULT_CSS: ClassVar[str] = f"Sidebar {{ width: {WIDTH}; height: 1fr; }}"

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self._data = SidebarData()

    def show(self, data: SidebarData) -> None:
        if (
            data is not self._data
        ):  # called for every entry, although few entries change the data
            self._data = data
            self.update()

    def on_resize(self) -> None:
        self.update()

    def on_click(self, event: events.Click) -> None:
        index = event.style.meta.get("entry")
        if index is not None and self.text_selection is None:
            self.post_message(EntryWanted(int(index)))

    def lines(self, width: int) -> list[list[Span]]:
        return sidebar(self._data, width, self.size.height)
