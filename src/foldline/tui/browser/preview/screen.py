"""The Compact preview screen.

Shows a header, bars for the window now and after the compaction, and the panels.
"""

from collections.abc import Callable
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.timer import Timer

from foldline.frontend.commands import BY_ID
from foldline.protocol.operations import Operation
from foldline.tui.browser.panels.frame import TextLines
from foldline.tui.browser.preview.forecast import ViewForecast, forecast_of
from foldline.tui.browser.preview.keys import named
from foldline.tui.browser.preview.panels import PreviewPanels
from foldline.tui.browser.preview.state import PreviewState
from foldline.tui.browser.preview.words import bar_rows, header_row
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.look.lines import cover_if_too_small

_ROWS_FOR_ALL: Final = 18
"""Minimum height, in rows, at which the header and bars are shown, as in the chat."""
ONLY_FROM_CHAT: Final = (
    "You can open {screen} only from the chat. Press {key} to close the preview and keep "
    "the proposal."
)


class PreviewScreen(LeftOnce[None]):
    """Shows a proposal, or a draft in progress.

    The owner calls `show` after each change.
    """

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
        """Create the screen.

        Args:
            title: shown before `▸ Compact preview`.
            ask: carries out an operation on the proposal.
            state: the first state to show.
        """
        super().__init__()
        self.state = state or PreviewState()
        """The state that is displayed."""
        self._title = title
        self._header = TextLines(id="preview-header")
        self._bars = TextLines(id="bars")
        self._forecast: ViewForecast | None = None
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
        has_room = event.size.height >= _ROWS_FOR_ALL
        self._header.display = has_room
        self._bars.display = has_room
        self._draw_head()

    def action_elsewhere(self, command: str) -> None:
        """Tell the user that this screen can be opened only from the chat."""
        screen = BY_ID[command].label
        self.panels.tell(ONLY_FROM_CHAT.format(screen=screen, key=named("close")))

    def show(self, state: PreviewState) -> None:
        """Show a state.

        The update is fast if only the text of the draft has grown.
        """
        before = self.state
        self.state = state
        if self._seconds is None:  # not mounted yet: `on_mount` shows the state
            return
        if self._forecast is None or (state.proposal, state.plan) != (
            before.proposal,
            before.plan,
        ):
            self._forecast = forecast_of(state)
        self._draw_head()
        self.panels.show(state, self._forecast)
        if state.drafting is not None:
            self._seconds.resume()
        else:
            self._seconds.pause()

    def _draw_head(self) -> None:
        width = self.size.width
        self._header.show(header_row(self._title, self.state, width))
        self._bars.show(*bar_rows(self.state, self._forecast, width))

    def tell(self, words: str) -> None:
        """Show a message in the status row."""
        self.panels.tell(words)
