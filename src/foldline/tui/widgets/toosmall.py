"""What a terminal shows that is too small to show anything."""

from typing import Any, ClassVar

from textual.geometry import Size
from textual.screen import Screen

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import crop

LEAST = (40, 10)
"""Columns and rows below which nothing can be read."""


class TooSmall(Lines):
    """The one line of a terminal that is too small; what runs, runs on."""

    DEFAULT_CSS: ClassVar[str] = """
    TooSmall { display: none; }
    TooSmall.covers {
        display: block; overlay: screen; position: absolute; offset: 0 0;
        width: 100%; height: 100%; background: ansi_default;
    }
    """

    def lines(self, width: int) -> list[list[Span]]:
        columns, rows = LEAST
        return [crop([(f"Too small: needs {columns}x{rows}", "text")], width)]


def fits(size: Size) -> bool:
    """Whether something can be read in a terminal of this size."""
    return size.width >= LEAST[0] and size.height >= LEAST[1]


def cover_if_too_small(screen: Screen[Any], size: Size) -> None:
    """Lay the line over a screen that does not show it by itself, as long as the terminal is too small."""
    shown = list(screen.query(TooSmall))
    if fits(size):
        for each in shown:
            if each.has_class("covers"):
                each.remove()
    elif not shown:
        screen.mount(TooSmall(classes="covers"))
