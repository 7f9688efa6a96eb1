"""Connects the Inspector to a session that is being worked on: opens it beside the chat or over it, and tells
it what has come since."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType

from foldline.agent import Agent
from foldline.history.children import child_events
from foldline.history.follower import Follower
from foldline.protocol import Subagent
from foldline.tui.dock import DOCKED_FROM
from foldline.tui.inspector.following import open_child
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.screen import InspectorScreen, docked_head
from foldline.tui.inspector.sheets import PanelState
from foldline.tui.keys.commands import BY_ID
from foldline.tui.keys.table import bindings
from foldline.tui.state import ChatState
from foldline.tui.widgets.status import HasStatusLine

if TYPE_CHECKING:
    from foldline.tui.open_session import OpenSession


class _FullInspector(InspectorScreen):
    """The Inspector over the chat, of which a wide terminal shows both."""

    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["preview"], BY_ID["context"]], "elsewhere")

    def __init__(
        self, panels: InspectorPanels, chat: "OpenSession", to_dock: Callable[[], None], *, maximised: bool
    ) -> None:
        """`maximised`: the reader asked for the whole screen; else it was too narrow for both."""
        super().__init__(panels, chat.where)
        self._chat = chat
        self._to_dock = to_dock
        self._maximised = maximised
        panels.maximise = self._minimise

    def action_elsewhere(self, command: str) -> None:
        """Another screen of the chat takes the place of this one."""
        self.dismiss()
        self.app.call_later(self._chat.run_command, command)

    def on_resize(self, event: events.Resize) -> None:
        if not self._maximised and event.size.width >= DOCKED_FROM and self.is_current:
            self.call_later(self._to_dock)

    def _minimise(self) -> None:
        if self.size.width >= DOCKED_FROM:
            self._to_dock()
        else:
            self.tell(f"Beside the chat it needs {DOCKED_FROM} columns; here are {self.size.width}.")


class InspectorHost:
    """One per session."""

    def __init__(self, chat: "OpenSession", agent: Agent) -> None:
        self._chat = chat
        self._agent = agent
        self._told = ""
        """What the agent did at the Inspector's last update."""
        self.screen: _FullInspector | None = None
        self.docked: InspectorPanels | None = None

    @property
    def _state(self) -> ChatState:
        return self._chat.presenter.state

    def toggle(self) -> None:
        """Close it where it stands beside the chat; else open it, there where there is room."""
        if self.docked is not None:
            self._undock()
            self._to_prompt()
        else:
            self.open()

    def open(self) -> None:
        """Open it over what is on the screen, or beside the chat where that is, and the terminal is wide."""
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

    def open_at(self, index: int) -> None:
        """Open it with the cursor on an entry."""
        self.open()
        panels = self.panels
        assert panels is not None, "it was opened just now"
        panels.call_after_refresh(panels.reveal, index)

    def open_child(self, started: Subagent) -> None:
        """Open the session of a subagent, which lies in the folder of this one."""
        events, over = self._agent.session.path, self._chat.front
        if events is None:
            self._chat.remark("This session is not kept on disk, nor are its subagents")
            return
        say = over.tell if isinstance(over, HasStatusLine) else self._chat.remark
        open_child(over, lambda id: Follower(child_events(events, id)), self._chat.where, say, started)

    def refresh(self) -> None:
        """Show the entries that have come since."""
        state = self._state
        self._told = state.doing
        projection, threshold = self._agent.session.projection, state.room.threshold
        if self.screen is not None and self.screen.is_mounted and self.screen.is_open:
            self.screen.refresh_from(projection, activity=state.doing, threshold=threshold)
        if self.docked is not None and self.docked.is_mounted and self.docked.is_attached:
            self.docked.set_activity(state.doing, threshold)
            self.docked.refresh_from(projection)

    def on_state(self) -> None:
        """Say what the agent does now, where that is another thing than before."""
        if self._state.doing != self._told:
            self.refresh()

    # --- beside the chat, and over it -----------------------------------------------------------------

    @property
    def panels(self) -> InspectorPanels | None:
        """Those that are open, or were last."""
        if self.docked is not None and self._chat.front is self._chat:
            return self.docked
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
            open_child=self.open_child,
        )
        price = price_of(self._agent.state.llm.info.id)
        panels.set_price(None if price is None else price.input / 1_000_000)
        return panels

    def _dock(self, state: PanelState) -> None:
        panels = self._make_panels()
        panels.one_at_a_time = True
        panels.head, panels.close = docked_head, self._to_prompt
        # Not before a key that came at once behind it: of the whole screen, that would lead back.
        panels.maximise = partial(self._chat.call_later, self._maximise)
        self.docked = panels
        self._chat.docked.put(panels, panels.enter, self._too_narrow)
        self._chat.fit()
        _restore(panels, state)

    def _to_prompt(self) -> None:
        self._chat.prompt.editor.focus()

    def _undock(self) -> PanelState:
        assert self.docked is not None, "it is docked"
        state = self.docked.state
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
        self.screen = _FullInspector(self._make_panels(), self._chat, self._to_dock, maximised=maximised)
        self._chat.push_screen(self.screen)
        _restore(self.screen.panels, state)


def _restore(panels: InspectorPanels, state: PanelState) -> None:
    if state != PanelState():
        panels.call_after_refresh(panels.restore, state)
