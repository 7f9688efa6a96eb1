"""The Inspector with its header: on a screen of its own, or docked beside the chat, one panel at a time."""

from collections.abc import Callable
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.widget import Widget

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.projection import Projection
from foldline.tui.blocks import clean_line
from foldline.tui.blocks.cells import Piece, Span, Spans, row
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.widgets.lines import Lines, hint

_NAMED: Final = 16
"""Cells that are left of the session's name before anything beside it goes."""
_NAMED_WITH_WRITER: Final = 0
"""The same where it is said who writes to it, which is of more use then."""
_PANELS: Final = ("History", "LLM view", "Files", "Timeline")


class InspectorHeader(Lines):
    """` shop-api ▸ Idempotent orders ▸ Inspector        now · 28.6k of 131k 22% · F1 help `."""

    def __init__(self, title: str, live: bool) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._live = live
        self._share = ""
        self._activity = ""
        self._writer = ""
        self._as_of = ""

    def show_writer(self, words: str) -> None:
        """That the session is live, and who writes to it; empty: nobody does."""
        self._writer = clean_line(words)
        self.update()

    def show(self, size: Size | None, window: int, activity: str, as_of: str) -> None:
        """`as_of` names the moment that is shown, nothing where that is now; its size may be unknown yet."""
        self._share = "…" if size is None else _share_words(size, window)
        self._activity = clean_line(activity)
        self._as_of = as_of
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        # A file's name says most at its end, a title at its beginning.
        least = _NAMED_WITH_WRITER if self._writer and not self._as_of else _NAMED
        name = Piece(((self._title, "bold"),), cut="right" if self._live else "left", least=least)
        here = Piece(((" ▸ ", "muted"), ("Inspector", "text bold")), gap=0)
        return [row([name, here], self._facts(), width)]

    def _facts(self) -> list[Piece]:
        """The right end: `now · 28.6k of 131k 22% · F1 help`."""
        moment: Spans = (("now" if self._live else "read-only", "text"),)
        if self._as_of:
            moment = ((f"as of {self._as_of}", "accent bold"),)
        elif self._writer:
            moment = (("live", "accent"),)
        point: Spans = ((" · ", "muted"),)
        goes_first = self._live and not (self._as_of or self._writer)
        before, behind = ((), point) if goes_first else (point, ())
        parts = [Piece((*moment, *behind), 4 if goes_first else 0)]
        if self._writer and not self._as_of:
            parts.append(Piece(((f" · {self._writer}", "text"),), 1, gap=0))
        if self._activity and not self._as_of:
            parts.append(Piece((*before, (self._activity, "text"), *behind), 2, gap=0))
        parts.append(Piece((*before, (self._share, "text")), 0 if goes_first else 1, gap=0))
        return [*parts, Piece((*point, *hint(key_of("help"), "help")), 3, gap=0)]


def _share_words(size: Size, window: int) -> str:
    share = f" of {numbers.short_tokens(window)} {numbers.percent(size.tokens, window)}" if window else ""
    return f"{numbers.tokens(size.tokens, estimated=size.estimated)}{share}"


class InspectorScreen(LeftOnce[None]):
    """The full-screen Inspector. Esc and F2 dismiss it; `refresh_from` keeps a live one up to date."""

    DEFAULT_CSS: ClassVar[str] = """
    InspectorScreen { layout: vertical; background: $role-background; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    BLANK: ClassVar[bool] = True

    def __init__(self, panels: InspectorPanels, title: str) -> None:
        """`title` stands before `▸ Inspector`."""
        super().__init__()
        self.header = InspectorHeader(title, panels.live)
        self.panels = panels

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.panels

    def on_resize(self, event: events.Resize) -> None:
        """Its own layout tells it, too, when that is done: not a reason to do it again."""
        if event.size == self.outer_size:
            event.prevent_default()

    def on_mount(self) -> None:
        self._show_header()
        self.panels.enter()

    def refresh_from(
        self, projection: Projection, *, activity: str = "", threshold: int | None = None
    ) -> None:
        """Show what has come since. `activity` is what the agent does just now; where it does nothing, edits
        act at once. Without a `threshold` the one before stays."""
        self.panels.set_activity(activity, threshold)
        self.panels.refresh_from(projection)
        self._show_header()

    def tell(self, words: str) -> None:
        """Say something in the status row."""
        self.panels.tell(words)

    def _show_header(self) -> None:
        moment = self.panels.travel.moment
        as_of = moment.name if moment is not None else ""
        size = self.panels.travel.chosen_weight(self.panels.projection)
        self.header.show(size, self.panels.travel.window, self.panels.activity, as_of)

    @on(InspectorPanels.MomentChanged)
    def _moment_changed(self, event: InspectorPanels.MomentChanged) -> None:
        event.stop()
        self._show_header()

    @on(InspectorPanels.CloseRequested)
    def _close(self, event: InspectorPanels.CloseRequested) -> None:
        event.stop()
        self.dismiss()


class DockedHeader(Lines):
    """` 1 History  2 LLM view  3 Files  4 Timeline          now · m maximises `."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0
        self._as_of = ""

    def show(self, shown: int, as_of: str) -> None:
        """Which panel shows, and which moment; empty where that is now."""
        self._shown, self._as_of = shown, as_of
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        left = []
        for number, name in enumerate(_PANELS):
            here = number == self._shown
            spans = hint(name_of(KEYS, f"panel-{number + 1}"), name, "text bold" if here else "muted")
            left.append(Piece(spans, rank=0 if here else 1, gap=2))
        moment = (f"as of {self._as_of}", "accent bold") if self._as_of else ("now", "muted")
        more = ((" · ", "muted"), *hint(name_of(KEYS, "maximise"), "maximises"))
        return [row(left, [Piece((moment,)), Piece(more, rank=2, gap=0)], width)]


class DockedInspector(Widget):
    """The panels beside the chat. `leave` is called where the reader goes back to the prompt, `maximise`
    where the panels are to have the whole screen."""

    DEFAULT_CSS: ClassVar[str] = "DockedInspector { layout: vertical; width: 1fr; height: 1fr; }"
    BLANK: ClassVar[bool] = True

    def __init__(
        self, panels: InspectorPanels, *, leave: Callable[[], None], maximise: Callable[[], None]
    ) -> None:
        super().__init__()
        self.panels = panels
        self._leave = leave
        self._maximise = maximise
        self._header = DockedHeader()

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.panels

    def on_mount(self) -> None:
        self._show_header()
        self.panels.enter()

    def _show_header(self) -> None:
        moment = self.panels.travel.moment
        self._header.show(self.panels.shown_panel, moment.name if moment is not None else "")

    def on_descendant_focus(self) -> None:
        self._show_header()

    @on(InspectorPanels.MomentChanged)
    def _moment_changed(self, event: InspectorPanels.MomentChanged) -> None:
        event.stop()
        self._show_header()

    @on(InspectorPanels.CloseRequested)
    def _close(self, event: InspectorPanels.CloseRequested) -> None:
        event.stop()
        self._leave()

    @on(InspectorPanels.MaximiseRequested)
    def _maximise_wanted(self, event: InspectorPanels.MaximiseRequested) -> None:
        event.stop()
        self._maximise()
