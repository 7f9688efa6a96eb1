"""The full-screen Inspector, and the headers of the full-screen and docked Inspectors."""

from typing import ClassVar, Final, Literal

from textual import events
from textual.app import ComposeResult

from foldline.frontend.commands import key_of
from foldline.past.describe import size_words
from foldline.past.moments import Moment
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.tui.browser.draft.words import header_row
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.keys import key_name
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.look.cells import RowPiece, Span, Spans, row
from foldline.tui.look.lines import cover_if_too_small, hint

_NAMED: Final = 16
"""Minimum width of the session title in the header, in cells."""
_NAMED_WITH_WRITER: Final = 0
"""Minimum width of the title, in cells, if the header also names the program that is writing the session.

That name matters more, so the title may be left out completely.
"""
_PANELS: Final = ("History", "LLM view", "Files")


def docked_head(panels: InspectorPanels, width: int) -> list[Span]:
    """Return the header of the docked Inspector: ` 1 History  2 LLM view  3 Files    now · m maximise `."""
    tabs = []
    names = ("Use", *_PANELS[1:]) if panels.by_size else _PANELS
    for number, name in enumerate(names):
        is_shown = number == panels.active
        spans = hint(
            key_name(f"panel-{number + 1}"),
            name,
            "text bold" if is_shown else "muted",
        )
        tabs.append(RowPiece(spans, rank=0 if is_shown else 1, gap=2))
    timeline = hint(key_name("timeline"), "Timeline")
    tabs.append(RowPiece(timeline, rank=1, gap=2))
    moment = panels.travel.moment
    moment_span = (
        ("now", "muted") if moment is None else (f"as of {moment.name}", "accent bold")
    )
    maximise = ((" · ", "muted"), *hint(key_name("maximise"), "maximise"))
    return row(
        tabs, [RowPiece((moment_span,)), RowPiece(maximise, rank=2, gap=0)], width
    )


class InspectorScreen(LeftOnce[None]):
    """The full-screen Inspector. Esc and F2 dismiss it."""

    DEFAULT_CSS: ClassVar[str] = "InspectorScreen { layout: vertical; }"
    AUTO_FOCUS: ClassVar[str | None] = None
    BLANK: ClassVar[bool] = True

    def __init__(self, panels: InspectorPanels, title: str) -> None:
        """Create the screen. `title` is shown before `▸ Inspector`."""
        super().__init__()
        self._title = title
        self._writer = ""
        self.panels = panels
        panels.head = self._head
        panels.close = self.dismiss

    def compose(self) -> ComposeResult:
        yield self.panels

    def on_resize(self, event: events.Resize) -> None:
        """Skip the default handler if the size is unchanged, because the layout is already done."""
        cover_if_too_small(self, event.size)
        if event.size == self.outer_size:
            event.prevent_default()

    def tell(self, words: str) -> None:
        """Show a message in the status row."""
        self.panels.tell(words)

    def show_writer(self, words: str) -> None:
        """Show in the header which program is writing to the session.

        An empty string removes the name.
        """
        self._writer = words
        self.panels.describe()

    def _head(self, panels: InspectorPanels, width: int) -> list[Span]:
        """Return the header: ` shop-api ▸ Orders ▸ Inspector    now · 28.6k of 131k 22% · F1 help `."""
        if panels.in_draft:
            return header_row(self._title, panels.draft.state, width)
        live = panels.has_hints
        moment = panels.travel.moment
        writer = self._writer if moment is None else ""
        # A read-only Inspector has a file name as its title: keep the end of it.
        cut: Literal["left", "right"] = "right" if live else "left"
        least = _NAMED_WITH_WRITER if writer else _NAMED
        title = [
            RowPiece(((clean_line(self._title), "bold"),), cut=cut, least=least),
            RowPiece(((" ▸ ", "muted"), ("Inspector", "text bold")), gap=0),
        ]
        texts: list[tuple[int, str]] = []
        if moment is None:
            texts += [(1, writer), (2, panels.activity)]
        size, agent_size = self._sizes(panels)
        if agent_size:
            texts.append((2, f"here {size}"))
        texts.append((1, agent_size or size))
        facts = [RowPiece(self._moment_spans(live, moment))]
        for rank, text in texts:
            if text:
                spans = ((" · ", "muted"), (clean_line(text), "text"))
                facts.append(RowPiece(spans, rank, gap=0))
        help_hint = ((" · ", "muted"), *hint(key_of("help"), "help"))
        facts.append(RowPiece(help_hint, 3, gap=0))
        return row(title, facts, width)

    def _moment_spans(self, live: bool, moment: Moment | None) -> Spans:
        if moment is not None:
            return ((f"as of {moment.name}", "accent bold"),)
        if self._writer:
            return (("live", "accent"),)
        return (("now" if live else "read-only", "text"),)

    def _sizes(self, panels: InspectorPanels) -> tuple[str, str]:
        """Return the size of the view, and the size reported by another agent.

        The second text is empty if no other agent reported a size. The last text that is not empty includes
        the share of the window.
        """
        size = panels.travel.chosen_weight(panels.projection)
        if size is None:
            return "…", ""
        words = size_words(size)
        report = panels.travel.report
        if report:
            return words, self._share(
                panels, f"its agent {numbers.tokens(report)}", report
            )
        return self._share(panels, words, size.tokens), ""

    def _share(self, panels: InspectorPanels, words: str, tokens: int) -> str:
        window = panels.travel.window
        if not window:
            return words
        return f"{words} of {numbers.short_tokens(window)} {numbers.percent(tokens, window)}"
