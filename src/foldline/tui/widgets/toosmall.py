"""What a terminal shows that is too small to show anything."""

from typing import ClassVar

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import crop

LEAST = (40, 10)
"""Columns and rows below which nothing can be read."""


class TooSmall(Lines):
    """The one line of a terminal that is too small; what runs, runs on."""

    DEFAULT_CSS: ClassVar[str] = "TooSmall { display: none; }"

    def lines(self, width: int) -> list[list[Span]]:
        columns, rows = LEAST
        return [crop([(f"Too small: needs {columns}x{rows}", "text")], width)]
