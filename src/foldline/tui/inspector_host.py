"""Connects the Inspector to a session that is being worked on: opens it beside the chat or over it, and tells
it what has come since."""

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType

from foldline.tui.chat import ChatScreen
from foldline.tui.dock import DOCKED_FROM
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.screen import DockedInspector, InspectorScreen
from foldline.tui.inspector.sheets import PanelState
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings
from foldline.tui.runner import Runner
from foldline.tui.state import ChatState


class _FullInspector(InspectorScreen):
    """The Inspector over the chat, of which a wide terminal shows both. `to_dock` puts it back there."""

    to_dock: Callable[[], None] = staticmethod(lambda: None)
    to_chat: Callable[[str], None] = staticmethod(lambda command: None)
    """Carries out a command of the chat, over which this no longer stands."""
    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["preview"], BY_ID["context"]], "elsewhere")
    maximised = False
    """Whether the reader asked for the whole screen, or it was too narrow for both."""

    def action_elsewhere(self, command: str) -> None:
        """Another screen of the chat takes the place of this one."""
        self.dismiss()
        self.app.call_later(self.to_chat, command)

    def on_resize(self, event: events.Resize) -> None:
        if not self.maximised and event.size.width >= DOCKED_FROM and self.is_current:
            self.call_later(self.to_dock)

    @on(InspectorPanels.MaximiseRequested)
    def _minimise(self, event: InspectorPanels.MaximiseRequested) -> None:
        event.stop()
        if self.size.width >= DOCKED_FROM:
            self.to_dock()
        else:
            self.tell(f"Beside the chat it needs {DOCKED_FROM} columns; here are {self.size.width}.")


class InspectorHost:
    """One per session. `title` says whose Inspector it is."""

    def __init__(self, chat: ChatScreen, runner: Runner, *, title: Callable[[], str]) -> None:
        self._chat = chat
        self._agent = runner.agent
        self._title = title
        self._told = ""
        """What the agent did at the Inspector's last update."""
        self._state = ChatState()
        self.screen: _FullInspector | None = None
        self.docked: DockedInspector | None = None

    def toggle(self, state: ChatState) -> None:
        """Close it where it stands beside the chat; else open it, there where there is room."""
        if self.docked is not None:
            self._undock()
            self._chat.prompt.editor.focus()
        else:
            self.open(state)

    def open(self, state: ChatState) -> None:
        """Open it over what is on the screen, or beside the chat where that is, and the terminal is wide."""
        self._state = state
        if self.screen is not None and self.screen.is_open:  # its key came twice, or another lies over it
            self.screen.uncover()
            return
        if self._chat.front is self._chat and self._chat.app.size.width >= DOCKED_FROM:
            if self.docked is None:
                self._dock(PanelState())
            else:
                self._chat.docked.enter()
        else:
            self._show_full(PanelState(), maximised=self._chat.front is not self._chat)

    def open_at(self, index: int, state: ChatState) -> None:
        """Open it with the cursor on an entry."""
        self.open(state)
        panels = self.panels
        assert panels is not None, "it was opened just now"
        panels.call_after_refresh(panels.reveal, index)

    def refresh(self, state: ChatState) -> None:
        """Show the entries that have come since."""
        self._told, self._state = state.doing, state
        projection, threshold = self._agent.session.projection, state.room.threshold
        if self.screen is not None and self.screen.is_mounted and self.screen.is_open:
            self.screen.refresh_from(projection, activity=state.doing, threshold=threshold)
        if self.docked is not None and self.docked.is_mounted and self.docked.is_attached:
            self.docked.refresh_from(projection, state.doing, threshold)

    def on_state(self, state: ChatState) -> None:
        """Say what the agent does now, where that is another thing than before."""
        if state.doing != self._told:
            self.refresh(state)

    # --- beside the chat, and over it -----------------------------------------------------------------

    @property
    def panels(self) -> InspectorPanels | None:
        """Those that are open, or were last."""
        if self.docked is not None and self._chat.front is self._chat:
            return self.docked.panels
        return self.screen.panels if self.screen is not None else None

    def _make_panels(self) -> InspectorPanels:
        from foldline.llm.models import price_of

        panels = InspectorPanels(
            self._agent.session.projection,
            overhead=self._agent.state.overhead,
            window=self._state.room.window,
            cwd=self._agent.session.cwd,
            live=True,
            threshold=self._state.room.threshold,
            activity=self._state.doing,
        )
        price = price_of(self._agent.state.llm.info.id)
        panels.set_price(None if price is None else price.input / 1_000_000)
        return panels

    def _dock(self, state: PanelState) -> None:
        panels = self._make_panels()
        panels.one_at_a_time = True
        self.docked = DockedInspector(panels, leave=self._to_prompt, maximise=self._maximise)
        self._chat.docked.put(self.docked, self.docked.enter, self._too_narrow)
        self._chat.fit()
        _restore(panels, state)

    def _to_prompt(self) -> None:
        self._chat.prompt.editor.focus()

    def _undock(self) -> PanelState:
        assert self.docked is not None, "it is docked"
        state = self.docked.panels.state
        self.docked = None
        self._chat.docked.clear()
        self._chat.fit()
        return state

    def _maximise(self) -> None:
        if self.docked is not None:
            self._show_full(self._undock(), maximised=True)

    def _too_narrow(self) -> None:
        """Beside the chat there is no room any more: over it, where the reader looked at it, else not."""
        if self.docked is None:
            return
        looked_at = self.docked.has_focus_within and self._chat.front is self._chat
        state = self._undock()
        if looked_at:
            self._show_full(state, maximised=False)

    def _to_dock(self) -> None:
        full = self.screen
        if full is None or not full.is_current:
            return
        state = full.panels.state
        full.dismiss()
        self._chat.call_later(self._dock_again, state)

    def _dock_again(self, state: PanelState) -> None:
        if self._chat.front is self._chat and self.docked is None:
            self._dock(state)

    def _show_full(self, state: PanelState, *, maximised: bool) -> None:
        self.screen = _FullInspector(self._make_panels(), self._title())
        self.screen.maximised = maximised
        self.screen.to_dock = self._to_dock
        self.screen.to_chat = self._chat.run_command
        self._chat.push_screen(self.screen)
        _restore(self.screen.panels, state)


def _restore(panels: InspectorPanels, state: PanelState) -> None:
    if state != PanelState():
        panels.call_after_refresh(panels.restore, state)
