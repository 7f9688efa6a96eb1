"""The Compact preview on a screen of its own: header, the window now and after, the panels, help on top."""

from collections.abc import Callable
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.timer import Timer

from foldline.protocol.operations import Operation
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.panels.frame import Text
from foldline.tui.preview.keys import named
from foldline.tui.preview.outlook import Outlook, outlook_of
from foldline.tui.preview.panels import PreviewPanels
from foldline.tui.preview.state import PreviewState
from foldline.tui.preview.words import bar_rows, header_row
from foldline.tui.widgets.lines import cover_if_too_small

_ROWS_FOR_ALL: Final = 18
"""Rows below which header, bars and hints give theirs to the panels; as in the chat."""


class PreviewScreen(LeftOnce[None]):
    """Shows a proposal, or the draft of one. The owner calls `show` whenever something changed."""

    DEFAULT_CSS = """
    PreviewScreen { layout: vertical; }
    PreviewScreen > #bars { height: 2; }
    """
    AUTO_FOCUS = None
    BINDINGS = bindings([BY_ID["inspector"], BY_ID["context"]], "elsewhere")

    def __init__(
        self,
        title: str,
        ask: Callable[[Operation], None],
        *,
        clock: Callable[[], float],
        state: PreviewState | None = None,
    ) -> None:
        """`title` stands before `▸ Compact preview`; `ask` carries out what the reader wants of the proposal;
        `state` is what is shown first."""
        super().__init__()
        self.state = state or PreviewState()
        """What is shown."""
        self._title = title
        self._header, self._bars = Text(id="preview-header"), Text(id="bars")
        self._outlook: Outlook | None = None
        self._seconds: Timer | None = None
        self.panels = PreviewPanels(ask, clock)

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._bars
        yield self.panels

    def on_mount(self) -> None:
        self._seconds = self.set_interval(1.0, self.panels.describe, pause=True)
        self.show(self.state)
        self.panels.enter()

    def on_resize(self, event: events.Resize) -> None:
        cover_if_too_small(self, event.size)
        self._header.display = self._bars.display = event.size.height >= _ROWS_FOR_ALL
        self._draw_head()

    def action_elsewhere(self, command: str) -> None:
        """A screen that is opened from the chat."""
        name, leave = BY_ID[command].label, named("close")
        self.panels.tell(f"{name} opens from the chat. {leave} closes the preview, the proposal is kept.")

    def show(self, state: PreviewState) -> None:
        """Show this. Cheap where little has changed, such as while a draft streams in."""
        before, self.state = self.state, state
        if self._seconds is None:  # not mounted yet: the newest state is shown then
            return
        if self._outlook is None or (state.proposal, state.plan) != (before.proposal, before.plan):
            self._outlook = outlook_of(state)
        self._draw_head()
        self.panels.show(state, self._outlook)
        (self._seconds.resume if state.drafting is not None else self._seconds.pause)()

    def _draw_head(self) -> None:
        width = self.size.width
        self._header.show(header_row(self._title, self.state, width))
        self._bars.show(*bar_rows(self.state, self._outlook, width))

    def tell(self, words: str) -> None:
        """Say something in the status row."""
        self.panels.tell(words)
