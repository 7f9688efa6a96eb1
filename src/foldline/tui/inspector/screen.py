"""The Inspector on a screen of its own; what stands above its panels there, and where they are docked."""

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.harmless import clean_line
from foldline.context.projection import Projection
from foldline.tui.blocks.cells import Piece, Span, Spans, row
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.widgets.lines import hint

_NAMED: Final = 16
"""Cells that are left of the session's name before anything beside it goes."""
_NAMED_WITH_WRITER: Final = 0
"""The same where it is said who writes to it, which is of more use then."""
_PANELS: Final = ("History", "LLM view", "Files", "Timeline")


def docked_head(panels: InspectorPanels, width: int) -> list[Span]:
    """` 1 History  2 LLM view  3 Files  4 Timeline          now · m maximises `."""
    left = []
    for number, name in enumerate(_PANELS):
        here = number == panels.shown_panel
        spans = hint(name_of(KEYS, f"panel-{number + 1}"), name, "text bold" if here else "muted")
        left.append(Piece(spans, rank=0 if here else 1, gap=2))
    chosen = panels.travel.moment
    moment = ("now", "muted") if chosen is None else (f"as of {chosen.name}", "accent bold")
    more = ((" · ", "muted"), *hint(name_of(KEYS, "maximise"), "maximises"))
    return row(left, [Piece((moment,)), Piece(more, rank=2, gap=0)], width)


class InspectorScreen(LeftOnce[None]):
    """The full-screen Inspector. Esc and F2 dismiss it; `refresh_from` keeps a live one up to date."""

    DEFAULT_CSS: ClassVar[str] = "InspectorScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = None
    BLANK: ClassVar[bool] = True

    def __init__(self, panels: InspectorPanels, title: str) -> None:
        """`title` stands before `▸ Inspector`."""
        super().__init__()
        self._title = title
        self._writer = ""
        self.panels = panels
        panels.head, panels.close = self._head, self.dismiss

    def compose(self) -> ComposeResult:
        yield self.panels

    def on_resize(self, event: events.Resize) -> None:
        """Its own layout tells it, too, when that is done: not a reason to do it again."""
        if event.size == self.outer_size:
            event.prevent_default()

    def refresh_from(
        self, projection: Projection, *, activity: str = "", threshold: int | None = None
    ) -> None:
        """Show what has come since. `activity` is what the agent does just now; where it does nothing, edits
        act at once. Without a `threshold` the one before stays."""
        self.panels.set_activity(activity, threshold)
        self.panels.refresh_from(projection)

    def tell(self, words: str) -> None:
        """Say something in the status row."""
        self.panels.tell(words)

    def show_writer(self, words: str) -> None:
        """That the session is live, and who writes to it; empty: nobody does."""
        self._writer = words
        self.panels.describe()

    def _head(self, panels: InspectorPanels, width: int) -> list[Span]:
        """` shop-api ▸ Idempotent orders ▸ Inspector        now · 28.6k of 131k 22% · F1 help `."""
        live, writer = panels.has_hints, self._writer
        moment: Spans = (("now" if live else "read-only", "text"),)
        if panels.travel.moment is not None:
            moment, writer = ((f"as of {panels.travel.moment.name}", "accent bold"),), ""
        elif writer:
            moment = (("live", "accent"),)
        # A file's name says most at its end, a title at its beginning.
        least = _NAMED_WITH_WRITER if writer else _NAMED
        name = Piece(((clean_line(self._title), "bold"),), cut="right" if live else "left", least=least)
        here = Piece(((" ▸ ", "muted"), ("Inspector", "text bold")), gap=0)
        point: Spans = ((" · ", "muted"),)
        goes_first = live and not (panels.travel.moment or writer)
        before, behind = ((), point) if goes_first else (point, ())
        facts = [Piece((*moment, *behind), 4 if goes_first else 0)]
        if writer:
            facts.append(Piece(((f" · {clean_line(writer)}", "text"),), 1, gap=0))
        if panels.activity and panels.travel.moment is None:
            facts.append(Piece((*before, (clean_line(panels.activity), "text"), *behind), 2, gap=0))
        size, window = panels.travel.chosen_weight(panels.projection), panels.travel.window
        share, report = "…", panels.travel.report
        if size is not None:
            share = numbers.tokens(size.tokens, estimated=size.estimated)
            if report:
                facts.append(Piece((*before, (f"here {share}", "text")), 2, gap=0))
                share, size = f"its agent {numbers.tokens(report)}", Size(report, estimated=False)
            if window:
                share += f" of {numbers.short_tokens(window)} {numbers.percent(size.tokens, window)}"
        facts.append(Piece((*before, (share, "text")), 0 if goes_first else 1, gap=0))
        facts.append(Piece((*point, *hint(key_of("help"), "help")), 3, gap=0))
        return row([name, here], facts, width)
