"""The Inspector on a screen of its own: a header, the panels, help on top."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.tui import numbers
from foldline.tui.blocks import BlockView, clean_line
from foldline.tui.blocks.cells import Span
from foldline.tui.inspector.keys import help_blocks
from foldline.tui.inspector.panel import Edge
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, piece, row


class InspectorHeader(Lines):
    """` shop-api ▸ Idempotent orders ▸ Inspector        now · 28.6k of 131k 22% · F1 help `."""

    def __init__(self, title: str, live: bool) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._live = live
        self._share = ""
        self._activity = ""

    def show(self, projection: Projection, overhead: int, window: int, activity: str) -> None:
        size = view_size(projection, overhead=overhead)
        tokens = numbers.tokens(size.tokens, estimated=size.estimated)
        share = f" of {numbers.short_tokens(window)} {numbers.percent(size.tokens, window)}" if window else ""
        self._share = f"{tokens}{share}"
        self._activity = clean_line(activity)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        where = Piece(((self._title, "bold"), (" ▸ ", "muted"), ("Inspector", "text bold")), cut="left")
        right = [piece("now" if self._live else "read-only", "text", rank=4)]
        if self._activity:
            right.append(piece(f"· {self._activity}", "text", rank=2, gap=1))
        right.append(piece(f"· {self._share}", "text", rank=1, gap=1))
        right.append(Piece(((" · ", "muted"), ("F1", "accent"), (" help", "muted")), rank=3, gap=0))
        return [row([where], right, width)]


class InspectorHelp(ModalScreen[None]):
    """Over the Inspector; closing it gives everything back as it was."""

    DEFAULT_CSS: ClassVar[str] = """
    InspectorHelp { align: center middle; background: transparent; }
    InspectorHelp > BlockView {
        width: 84; max-width: 100%;
        border-left: heavy $role-accent; border-right: heavy $role-accent; background: ansi_default;
    }
    InspectorHelp > Edge { width: 84; max-width: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,question_mark,q", "close", "Close", show=False, priority=True)
    ]

    def compose(self) -> ComposeResult:
        upper, lower = Edge(top=True), Edge(top=False)
        upper.show((("Inspector: keys", "bold"),), ())
        lower.show((("Esc closes · ↑↓ PgUp PgDn scroll", "muted"),), ())
        upper.focus_is_inside(True)
        lower.focus_is_inside(True)
        yield upper
        yield BlockView(help_blocks(), gutter_width=1, cursor=False, follow=False)
        yield lower

    def on_mount(self) -> None:
        self._fit()
        self.query_one(BlockView).focus()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self.query_one(BlockView).styles.height = max(self.size.height - 4, 3)

    def action_close(self) -> None:
        self.dismiss()


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
    ) -> None:
        """`title` stands before `▸ Inspector`. `window` is the model's, 0 where it is not known."""
        super().__init__()
        self._overhead = overhead
        self._window = window
        self._activity = ""
        self._header = InspectorHeader(title, live)
        self.panels = InspectorPanels(projection, overhead=overhead, cwd=cwd)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.panels

    def on_mount(self) -> None:
        self._show_header()
        self.panels.focus_panels()

    def refresh_from(self, projection: Projection, *, activity: str = "") -> None:
        """Show what has come since. `activity` says what the agent does just now."""
        self._activity = activity
        self.panels.refresh_from(projection)
        self._show_header()

    def _show_header(self) -> None:
        self._header.show(self.panels.projection, self._overhead, self._window, self._activity)

    @on(InspectorPanels.CloseRequested)
    def _close(self, event: InspectorPanels.CloseRequested) -> None:
        event.stop()
        self.dismiss()

    @on(InspectorPanels.HelpRequested)
    def _help(self, event: InspectorPanels.HelpRequested) -> None:
        event.stop()
        self.app.push_screen(InspectorHelp())
