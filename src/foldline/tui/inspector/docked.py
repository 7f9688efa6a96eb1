"""The Inspector beside the chat: a row that names its panels, and one of them at a time."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from foldline.context.projection import Projection
from foldline.tui.blocks.cells import Piece, Span, row
from foldline.tui.dialogs import open_help
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.keys.table import name_of
from foldline.tui.widgets.lines import Lines

_NAMES = ("History", "LLM view", "Files", "Timeline")


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
        left = [
            Piece(
                ((name_of(KEYS, f"panel-{number + 1}"), "accent"), (f" {name}", self._style(number))),
                rank=0 if number == self._shown else 1,
                gap=2,
            )
            for number, name in enumerate(_NAMES)
        ]
        moment = (f"as of {self._as_of}", "accent bold") if self._as_of else ("now", "muted")
        more = ((" · ", "muted"), (name_of(KEYS, "maximise"), "accent"), (" maximises", "muted"))
        return [row(left, [Piece((moment,)), Piece(more, rank=2, gap=0)], width)]

    def _style(self, number: int) -> str:
        return "text bold" if number == self._shown else "muted"


class DockedInspector(Widget):
    """The panels and their header. `leave` is called where the reader goes back to the prompt, `maximise`
    where the panels are to have the whole screen."""

    DEFAULT_CSS: ClassVar[str] = "DockedInspector { layout: vertical; width: 1fr; height: 1fr; }"
    BLANK: ClassVar[bool] = True

    def __init__(
        self, panels: InspectorPanels, *, leave: Callable[[], None], maximise: Callable[[], None]
    ) -> None:
        super().__init__()
        self.panels = panels
        self._to_prompt = leave
        self._maximise = maximise
        self._header = DockedHeader()

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.panels

    def on_mount(self) -> None:
        self._say_where()
        self.enter()

    def enter(self) -> None:
        self.panels.enter()

    def refresh_from(self, projection: Projection, activity: str, threshold: int | None) -> None:
        """Show what has come since."""
        self.panels.set_moment(activity, threshold)
        self.panels.refresh_from(projection)

    def _say_where(self) -> None:
        moment = self.panels.moment
        self._header.show(self.panels.shown_panel, moment.name if moment is not None else "")

    def on_descendant_focus(self) -> None:
        self._say_where()

    @on(InspectorPanels.MomentChanged)
    def _moment_changed(self, event: InspectorPanels.MomentChanged) -> None:
        event.stop()
        self._say_where()

    @on(InspectorPanels.CloseRequested)
    def _close(self, event: InspectorPanels.CloseRequested) -> None:
        event.stop()
        self._to_prompt()

    @on(InspectorPanels.MaximiseRequested)
    def _maximise_wanted(self, event: InspectorPanels.MaximiseRequested) -> None:
        event.stop()
        self._maximise()

    @on(InspectorPanels.HelpRequested)
    def _help(self, event: InspectorPanels.HelpRequested) -> None:
        event.stop()
        open_help(self.app)
