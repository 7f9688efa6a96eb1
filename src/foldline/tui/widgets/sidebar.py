"""The side list: files and how much of them the model still has, pins, folds, and what the rails mean."""

from collections.abc import Iterable
from typing import ClassVar

from rich.cells import cell_len

from foldline.context.harmless import clean_line
from foldline.tui import numbers
from foldline.tui.blocks.cells import Span, cut_left, cut_right
from foldline.tui.state import FileRow, Rail, SidebarData
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import crop

RAILS: dict[Rail, Span] = {
    "whole": ("┃", "live"),
    "part": ("╏", "altered"),
    "name": ("┊", "folded"),
    "none": (" ", "muted"),
}
WIDTH = 33
"""Cells of the side list, its rule at the left included."""

Line = list[Span]


def sidebar(data: SidebarData, width: int, height: int) -> list[Line]:
    """Exactly `height` lines. Long sections are shortened, with a count, before the legend goes."""
    inner = width - 2
    legend: list[Line] = [
        [("The model still has", "muted")],
        [
            RAILS["whole"],
            (" whole  ", "muted"),
            RAILS["part"],
            (" part  ", "muted"),
            RAILS["name"],
            (" the name", "muted"),
        ],
    ]
    sections = [
        ("Modified", [_file(row, inner) for row in data.modified]),
        ("Read", [_file(row, inner) for row in data.read]),
        ("Pinned", [_pin(row.index, row.text, row.tokens, inner) for row in data.pinned]),
        (
            "Folds",
            [
                _fold(row.index, row.tokens_before, row.tokens_after, row.at, row.undone, inner)
                for row in reversed(data.folds)
            ],
        ),
    ]
    shown = [(title, rows) for title, rows in sections if rows or title in ("Modified", "Read")]
    body = _fitted(shown, inner, height - len(legend) - 1)
    if height < len(body) + len(legend) + 1:
        legend = []
    blank: Line = []
    lines = [*body[: height - len(legend)], *[blank] * max(height - len(body) - len(legend), 0), *legend]
    return [crop([("│ ", "muted"), *line], width) for line in lines[:height]]


def _fitted(sections: list[tuple[str, list[Line]]], inner: int, height: int) -> list[Line]:
    """All sections, the longest shortened until they fit; at least three rows of each stay."""
    rooms = [len(rows) for _, rows in sections]

    def needed() -> int:
        return sum(1 + room for room in rooms) + len(rooms) - 1

    while needed() > height and max(rooms, default=0) > 3:
        rooms[rooms.index(max(rooms))] -= 1
    lines: list[Line] = []
    for at, ((title, rows), room) in enumerate(zip(sections, rooms, strict=True)):
        if at:
            lines.append([])
        count = str(len(rows))
        lines.append(
            [(title, "bold"), (" " * max(inner - len(title) - len(count) - 1, 1), ""), (count, "muted")]
        )
        if room < len(rows):
            lines += rows[: room - 1]
            lines.append([(f"  … {len(rows) - room + 1} more", "muted")])
        else:
            lines += rows
    return lines


def _file(file: FileRow, inner: int) -> Line:
    what = numbers.change(file.added, file.removed)
    room = inner - 2 - 1 - (len(what) + 2 if what else 0)
    path = cut_left(clean_line(file.path), room)
    line: Line = [RAILS[file.rail], (" ", ""), (path, "text" if file.rail != "none" else "muted")]
    if what:
        line.append((" " * (room - cell_len(path) + 2), ""))
        line += _change(file)
    return line


def _change(file: FileRow) -> Iterable[Span]:
    if file.added:
        yield f"+{file.added}", "live"
    if file.added and file.removed:
        yield " ", ""
    if file.removed:
        yield f"−{file.removed}", "alert"


def _pin(index: int, text: str, tokens: int, inner: int) -> Line:
    weight = numbers.tokens(tokens)
    number = str(index)
    room = inner - 2 - len(number) - 1 - len(weight) - 3
    shown = cut_right(clean_line(text), room)
    gap = " " * (room - cell_len(shown) + 2)
    return [RAILS["whole"], (f" {number} ", "muted"), (shown, "text"), (gap, ""), (weight, "muted")]


def _fold(index: int, before: int, after: int, at: str, undone: bool, inner: int) -> Line:
    change = f"{numbers.tokens(before)} → {numbers.tokens(after)}"
    when = "undone" if undone else at
    gap = " " * max(inner - 4 - len(str(index)) - len(change) - len(when) - 1, 1)
    style = "muted" if undone else "text"
    return [
        RAILS["none" if undone else "name"],
        (f" {index}  ", "muted"),
        (change, style),
        (gap, ""),
        (when, "muted"),
    ]


class Sidebar(Lines):
    """Beside the transcript from 100 columns on."""

    DEFAULT_CSS: ClassVar[str] = f"""
    Sidebar {{ width: {WIDTH}; height: 1fr; }}
    """

    def __init__(self) -> None:
        super().__init__(id="sidebar")
        self._data = SidebarData()

    def show(self, data: SidebarData) -> None:
        self._data = data
        self.update()

    def on_resize(self) -> None:
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return sidebar(self._data, width, self.size.height)
