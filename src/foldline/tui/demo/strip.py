"""The strip of the tour: over every screen, what to try now."""

from typing import ClassVar, Final

from foldline.tui.blocks.cells import Span, Spans, wrap
from foldline.tui.demo.app import KEYS
from foldline.tui.demo.tour import LAST, Tour
from foldline.tui.keys.table import name_of
from foldline.tui.widgets.frames import Frame, edge, sides
from foldline.tui.widgets.lines import Lines

_WIDE: Final = 110
"""Columns from which the longest step fits into two lines of text; below, it takes three."""
_RULE: Final = Frame("───── ", "muted")
"""A frame that is a line above, and nothing beside."""


class TourStrip(Lines):
    """Docked at the top. Its height depends on nothing but the width: no step moves the screen."""

    DEFAULT_CSS: ClassVar[str] = """
    TourStrip { dock: top; height: 4; background: ansi_default; }
    """

    def __init__(self, tour: Tour) -> None:
        super().__init__(id="tour")
        self._tour = tour

    def show(self, tour: Tour, *, beside: int | None = None) -> None:
        """Show this step; `beside` something that stands from the first row on, in so many columns."""
        self._tour = tour
        self.styles.width = "100%" if beside is None else beside
        self.update()

    def on_resize(self) -> None:
        self.styles.height = 3 if self.size.width >= _WIDE else 4

    def lines(self, width: int) -> list[list[Span]]:
        step = self._tour.step
        skips, ends = name_of(KEYS, "skip-step"), name_of(KEYS, "end-tour")
        if step is None:
            title: Spans = (("The tour ends here", "accent bold"),)
            keys, said = f"{ends} closes this", LAST
        else:
            title = (
                (f"Tour {self._tour.number} of {self._tour.count} ▸ ", "muted"),
                (step.title, "accent bold"),
            )
            keys, said = f"{skips} skips · {ends} ends the tour", step.say
        text = [sides(_RULE, [(said[start:stop], "text")], width) for start, stop in wrap(said, width - 2)]
        return [edge(_RULE, True, title, ((keys, "muted"),), width), *text]
