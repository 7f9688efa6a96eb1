"""The side list: files and how much the model still has of them, pins, compactions, the gutter explained."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from rich.cells import cell_len
from textual import events

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, change_spans, crop, cut_left, cut_right
from foldline.tui.blocks.links import to_file
from foldline.tui.fates import GUTTER_SIGNS
from foldline.tui.messages import EntryWanted
from foldline.tui.state import CompactionRow, FileRow, PinRow, SidebarData
from foldline.tui.widgets.lines import Lines

WIDTH = 33
"""Cells of the side list, its rule at the left included."""

RowT = TypeVar("RowT")
Line = list[Span]
Section = tuple[str, int, int, Callable[[int], Line]]
"""Title, number of all rows and of those that are listed, and how to draw one of these."""


def sidebar(data: SidebarData, width: int, height: int) -> list[Line]:
    """Exactly `height` lines. Long sections are shortened, with a count, before the legend goes."""
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
    sections: list[Section] = [
        _section("Modified", data.modified, data.older_modified, lambda file: _file(file, inner)),
        _section("Read", data.read, data.older_read, lambda file: _file(file, inner)),
        _section("Pinned", data.pinned, 0, lambda pin: _entry(pin.index, _pin(pin, inner))),
        _section(
            "Compactions", data.compactions[::-1], 0, lambda row: _entry(row.index, _compaction(row, inner))
        ),
    ]
    shown = [section for section in sections if section[1] or section[0] in ("Modified", "Read")]
    body = _fitted(shown, inner, height - len(legend) - 1)
    if height < len(body) + len(legend) + 1:
        legend = []
    blank: Line = []
    lines = [*body[: height - len(legend)], *[blank] * max(height - len(body) - len(legend), 0), *legend]
    return [crop([("│ ", "muted"), *line], width) for line in lines[:height]]


def _section(title: str, rows: Sequence[RowT], older: int, line: Callable[[RowT], Line]) -> Section:
    return title, len(rows) + older, len(rows), lambda at: line(rows[at])


def _fitted(sections: list[Section], inner: int, height: int) -> list[Line]:
    """All sections, the longest shortened until they fit; at least three rows of each stay. What is not shown
    is not drawn either: a long session knows thousands of files."""
    rooms = [min(listed, max(height, 3)) for _, _, listed, _ in sections]

    def needed() -> int:
        return sum(1 + room for room in rooms) + len(rooms) - 1

    while needed() > height and max(rooms, default=0) > 3:
        rooms[rooms.index(max(rooms))] -= 1
    lines: list[Line] = []
    for number, ((title, count, _, row), room) in enumerate(zip(sections, rooms, strict=True)):
        if number:
            lines.append([])
        blanks = " " * max(inner - len(title) - len(str(count)) - 1, 1)
        lines.append([(title, "bold"), (blanks, ""), (str(count), "muted")])
        whole = room == count
        lines += [row(at) for at in range(room if whole else room - 1)]
        if not whole:
            lines.append([(f"  … {count - room + 1} more", "muted")])
    return lines


def _entry(index: int, line: Line) -> Line:
    """A line that stands for an entry: a click shows it."""
    return [(text, f"{style} entry:{index}") for text, style in line]


def _file(file: FileRow, inner: int) -> Line:
    what = numbers.change(file.added, file.removed)
    room = inner - 2 - 1 - (len(what) + 2 if what else 0)
    path = cut_left(clean_line(file.path), room)
    line: Line = [
        GUTTER_SIGNS[file.presence],
        (" ", ""),
        (path, to_file(file.path, "text" if file.presence != "none" else "muted")),
    ]
    if what:
        line.append((" " * (room - cell_len(path) + 2), ""))
        line += change_spans(file.added, file.removed)
    return line


def _pin(pin: PinRow, inner: int) -> Line:
    weight = numbers.tokens(pin.tokens)
    number = str(pin.index)
    room = inner - 2 - len(number) - 1 - len(weight) - 3
    shown = cut_right(clean_line(pin.text), room)
    gap = " " * (room - cell_len(shown) + 2)
    return [GUTTER_SIGNS["whole"], (f" {number} ", "muted"), (shown, "text"), (gap, ""), (weight, "muted")]


def _compaction(row: CompactionRow, inner: int) -> Line:
    when = "undone" if row.undone else row.at
    gap = " " * max(inner - 4 - len(str(row.index)) - len(row.sizes) - len(when) - 1, 1)
    style = "muted" if row.undone else "text"
    return [
        GUTTER_SIGNS["none" if row.undone else "name" if row.written else "part"],
        (f" {row.index}  ", "muted"),
        (row.sizes, style),
        (gap, ""),
        (when, "muted"),
    ]


class Sidebar(Lines):
    """Beside the transcript from 100 columns on."""

    DEFAULT_CSS: ClassVar[str] = f"Sidebar {{ width: {WIDTH}; height: 1fr; }}"

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self._data = SidebarData()

    def show(self, data: SidebarData) -> None:
        if data is not self._data:  # it comes with every entry, and few of them change it
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
