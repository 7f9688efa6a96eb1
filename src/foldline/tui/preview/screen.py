"""The Compact preview on a screen of its own: header, the window now and after, the panels, help on top."""

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from foldline.tui.dialogs import open_help
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings
from foldline.tui.lists.screen import LeftOnce
from foldline.tui.preview.bars import Bars, PreviewHeader
from foldline.tui.preview.keys import named
from foldline.tui.preview.messages import Closed
from foldline.tui.preview.outlook import Outlook, outlook_of
from foldline.tui.preview.panels import PreviewPanels
from foldline.tui.preview.state import PreviewState
from foldline.tui.widgets.lines import LEAST, TooSmall

_ROWS_FOR_ALL = 18
"""Rows below which header, bars and hints give theirs to the panels; as in the chat."""


class PreviewScreen(LeftOnce[None]):
    """Shows a proposal, or the draft of one. The owner calls `show` whenever something changed, and turns
    the messages of `preview.messages` into operations. Esc and F3 post `Closed` and dismiss it."""

    DEFAULT_CSS: ClassVar[str] = """
    PreviewScreen { layout: vertical; background: ansi_default; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["inspector"], BY_ID["context"]], "elsewhere")

    def __init__(self, title: str, *, clock: Callable[[], float], state: PreviewState | None = None) -> None:
        """`title` stands before `▸ Compact preview`; `state` is what is shown first."""
        super().__init__()
        self._state = state or PreviewState()
        self._header = PreviewHeader(title)
        self._bars = Bars()
        self._outlook: Outlook | None = None
        self._too_small = TooSmall()
        self._seconds: Timer | None = None
        self.panels = PreviewPanels(clock)

    def compose(self) -> ComposeResult:
        yield self._too_small
        yield self._header
        yield self._bars
        yield self.panels

    def on_mount(self) -> None:
        self._seconds = self.set_interval(1.0, self.panels.tick, pause=True)
        self.show(self._state)
        self.panels.focus_panels()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        fits = width >= LEAST[0] and height >= LEAST[1]
        roomy = fits and height >= _ROWS_FOR_ALL
        for widget, shown in (
            (self._too_small, not fits),
            (self.panels, fits),
            (self._header, roomy),
            (self._bars, roomy),
        ):
            widget.display = shown
        if fits:
            self.panels.focus_panels()

    def action_elsewhere(self, command: str) -> None:
        """A screen that is opened from the chat."""
        name, leave = BY_ID[command].label, named("close")
        self.panels.tell(f"{name} opens from the chat. {leave} closes the preview, the proposal is kept.")

    @property
    def state(self) -> PreviewState:
        """What is shown."""
        return self._state

    def show(self, state: PreviewState) -> None:
        """Show this. Cheap where little has changed, such as while a draft streams in."""
        before, self._state = self._state, state
        if self._seconds is None:  # not mounted yet: what was told last is shown then
            return
        if self._outlook is None or (state.proposal, state.plan) != (before.proposal, before.plan):
            self._outlook = outlook_of(state)
        self._header.show(state)
        self._bars.show(state, self._outlook)
        self.panels.show(state, self._outlook)
        (self._seconds.resume if state.drafting is not None else self._seconds.pause)()

    def tell(self, words: str) -> None:
        """Say something in the status row."""
        self.panels.tell(words)

    @on(Closed)
    def _close(self) -> None:
        self.dismiss()

    @on(PreviewPanels.HelpRequested)
    def _help(self, event: PreviewPanels.HelpRequested) -> None:
        event.stop()
        open_help(self.app)
