"""The Inspector on a screen of its own: a header, the panels, help on top."""

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen

from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.tui import numbers
from foldline.tui.blocks import clean_line
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.help import HelpScreen
from foldline.tui.inspector.keys import help_blocks
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, piece, row

_NAMED: Final = 16
"""Cells of the name beside who writes to the session: its end, and where one is."""


class InspectorHeader(Lines):
    """` shop-api ▸ Idempotent orders ▸ Inspector        now · 28.6k of 131k 22% · F1 help `."""

    def __init__(self, title: str, live: bool) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._live = live
        self._share = ""
        self._activity = ""
        self._standing = ""

    def stand(self, standing: str) -> None:
        shown = clean_line(standing)
        if shown != self._standing:
            self._standing = shown
            self.update()

    def show(self, projection: Projection, overhead: int, window: int, activity: str) -> None:
        size = view_size(projection, overhead=overhead)
        tokens = numbers.tokens(size.tokens, estimated=size.estimated)
        share = f" of {numbers.short_tokens(window)} {numbers.percent(size.tokens, window)}" if window else ""
        self._share = f"{tokens}{share}"
        self._activity = clean_line(activity)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        name: Spans = ((self._title, "bold"), (" ▸ ", "muted"), ("Inspector", "text bold"))
        where = Piece(name, cut="left", least=_NAMED if self._standing else None)
        # The points belong to what stands before them, and go with it.
        if self._standing:
            right = [Piece((("live", "accent"), (f" · {self._standing} ·", "text")))]
        else:
            right = [piece("now ·" if self._live else "read-only ·", "text", rank=4)]
        if self._activity:
            right.append(piece(f"{self._activity} ·", "text", rank=2, gap=1))
        right.append(piece(self._share, "text", rank=1, gap=1))
        right.append(Piece(((" · ", "muted"), ("F1", "accent"), (" help", "muted")), rank=3, gap=0))
        return [row([where], right, width)]


class InspectorScreen(Screen[None]):
    """The full-screen Inspector. Esc and F2 dismiss it; `refresh_from` keeps a live one up to date."""

    DEFAULT_CSS: ClassVar[str] = """
    InspectorScreen { layout: vertical; background: ansi_default; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None

    def __init__(
        self,
        projection: Projection,
        title: str,
        overhead: int = 0,
        live: bool = False,
        *,
        cwd: str = "",
        window: int = 0,
        threshold: int | None = None,
        activity: str = "",
    ) -> None:
        """`title` stands before `▸ Inspector`. `window` is the model's, 0 where it is not known; `threshold`
        is the size from which on a request is folded first. Edits are offered where it is `live`."""
        super().__init__()
        self._live = live
        self._overhead = overhead
        self._window = window
        self._activity = activity
        self._header = InspectorHeader(title, live)
        self.panels = InspectorPanels(
            projection, overhead=overhead, cwd=cwd, live=live, threshold=threshold, activity=activity
        )

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.panels

    def on_mount(self) -> None:
        self._show_header()
        self.panels.focus_panels()

    def refresh_from(
        self, projection: Projection, *, activity: str = "", threshold: int | None = None
    ) -> None:
        """Show what has come since. `activity` says what the agent does just now, nothing where it does
        nothing: edits then act at once. Without a `threshold` the one before stays."""
        self._activity = activity
        self.panels.set_moment(activity, threshold)
        self.panels.refresh_from(projection)
        self._show_header()

    def show_standing(self, standing: str) -> None:
        """Say in the header that the session is live, and who writes to it; nothing said: nobody does."""
        self._header.stand(standing)

    def tell(self, words: str) -> None:
        """Say something in the status row."""
        self.panels.tell(words)

    def _show_header(self) -> None:
        self._header.show(self.panels.projection, self._overhead, self._window, self._activity)

    @on(InspectorPanels.CloseRequested)
    def _close(self, event: InspectorPanels.CloseRequested) -> None:
        event.stop()
        self.dismiss()

    @on(InspectorPanels.HelpRequested)
    def _help(self, event: InspectorPanels.HelpRequested) -> None:
        event.stop()
        self.app.push_screen(HelpScreen("Inspector: keys", help_blocks(live=self._live)))
