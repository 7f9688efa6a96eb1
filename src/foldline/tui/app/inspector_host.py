"""Connects the Inspector to an open session and its events.

The Inspector is shown beside the chat or over it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.binding import BindingType

from foldline.agent import Agent
from foldline.frontend.commands import BY_ID
from foldline.frontend.state import ChatState
from foldline.history.children import child_events
from foldline.history.follower import Follower
from foldline.protocol import Subagent
from foldline.tui.browser.dock import DOCKED_FROM
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.inspector.follow import open_child
from foldline.tui.browser.inspector.panel_state import PanelState
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen, docked_head
from foldline.tui.browser.inspector.sizes import WindowUse, use_now
from foldline.tui.keys.bindings import bindings
from foldline.tui.session_window import SessionWindow

if TYPE_CHECKING:
    from foldline.tui.app.presenter import Shown

NOT_ON_DISK: Final = "Subagents cannot be shown: this session is not saved to disk"
TOO_NARROW_TO_DOCK: Final = (
    "Docking needs {needed} columns, but the terminal has {columns}"
)


_MODES: Final = {"preview": "draft", "inspector": "entries", "context": "by-size"}
"""The command of the Inspector for each command of the chat that opens one of its modes."""


class _FullInspector(InspectorScreen):
    """The Inspector, covering the chat.

    A wide terminal can show both side by side instead.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        [replace(BY_ID[command], place="panel") for command in _MODES], "mode"
    )

    def __init__(
        self,
        panels: InspectorPanels,
        chat: SessionWindow,
        to_dock: Callable[[], None],
        *,
        maximised: bool,
    ) -> None:
        """Create the screen.

        Args:
            to_dock: moves the Inspector beside the chat.
            maximised: whether the user chose full screen. Otherwise, the Inspector docks once there is room.
        """
        super().__init__(panels, chat.where)
        self._chat = chat
        self._to_dock = to_dock
        self._maximised = maximised
        panels.maximise = self._minimise

    def action_mode(self, command: str) -> None:
        """Change the mode of the panels. The keys are those that the user has chosen for the chat."""
        self.panels.action_inspect(_MODES[command])

    def on_resize(self, event: events.Resize) -> None:
        may_dock = not self._maximised and not self.panels.in_draft
        if may_dock and event.size.width >= DOCKED_FROM and self.is_current:
            self.call_later(self._to_dock)

    def _minimise(self) -> None:
        if self.size.width >= DOCKED_FROM:
            self._to_dock()
        else:
            self.tell(
                TOO_NARROW_TO_DOCK.format(needed=DOCKED_FROM, columns=self.size.width)
            )


class InspectorHost:
    """The Inspector of one session."""

    def __init__(self, shown: "Shown") -> None:
        self._shown = shown
        self._chat: SessionWindow = shown.chat
        self._agent: Agent = shown.runner.agent
        self._shown_activity = ""
        """The agent's activity at the last update."""
        self.screen: _FullInspector | None = None
        self.docked: InspectorPanels | None = None

    @property
    def _state(self) -> ChatState:
        return self._chat.presenter.state

    @property
    def _is_chat_in_front(self) -> bool:
        """Whether no screen covers the chat."""
        chat: object = self._chat
        return self._chat.front is chat

    def toggle(self) -> None:
        """Close the Inspector if it is docked; otherwise, open it."""
        if self.docked is not None:
            self._undock()
            self._to_prompt()
        else:
            self.open()

    def open(self) -> InspectorPanels:
        """Open the Inspector beside the chat if there is room, otherwise over it."""
        chat = self._chat
        if (
            self.screen is not None and self.screen.is_open
        ):  # key pressed twice, or screen covered
            self.screen.uncover()
        elif not self._is_chat_in_front:
            self._show_full(PanelState(), maximised=True)
        elif chat.app.size.width < DOCKED_FROM:
            self._show_full(PanelState(), maximised=False)
        elif self.docked is None:
            self._dock(PanelState())
        else:
            chat.docked.enter()
        panels = self.panels
        assert panels is not None, "just opened"
        return panels

    def open_at(self, index: int) -> None:
        """Open the Inspector with the cursor on an entry."""
        panels = self.open()
        panels.call_after_refresh(panels.reveal, index)

    def open_by_size(self) -> None:
        """Open the Inspector with the items by size, beside the use of the window."""
        panels = self.open()
        panels.call_after_refresh(panels.show_by_size)

    def open_draft(self, state: DraftState) -> InspectorScreen:
        """Show a draft, over the chat or in the open Inspector."""
        if self.screen is not None and self.screen.is_open:
            self.screen.uncover()
            self.screen.panels.show_draft(state)
            return self.screen
        screen = self._full(maximised=True)
        screen.panels.show_draft(state)
        self._chat.push_screen(screen)
        return screen

    def _use(self) -> WindowUse:
        """Return the use of the window, including the prompts that are not sent yet."""
        waiting = self._state.waiting
        typed = self._chat.prompt.editor.text.strip()
        prompts = [text for text in (waiting.held, *waiting.queued, typed) if text]
        figures = self._shown.figures
        return use_now(
            self._agent.state,
            figures.room(),
            figures.manual_plan(),
            prompts,
            self._shown.transcript.children.saved(),
        )

    def open_child(self, started: Subagent) -> None:
        """Open a subagent's session in the Inspector.

        The subagent's file is in this session's folder.
        """
        path = self._agent.session.path
        if path is None:
            self._chat.remark(NOT_ON_DISK)
            return

        def read(id: str) -> Follower:
            return Follower(child_events(path, id))

        chat = self._chat
        open_child(chat.front, read, chat.where, chat.tell_front, started)

    def refresh(self) -> None:
        """Show new entries and the agent's activity in the open Inspector."""
        activity = self._state.doing
        threshold = self._state.room.threshold
        projection = self._agent.session.projection
        self._shown_activity = activity
        full = None if self.screen is None else self.screen.panels
        for panels in (full, self.docked):
            if panels is not None and panels.is_mounted and panels.is_attached:
                panels.set_activity(activity, threshold)
                panels.refresh_from(projection)

    def on_state(self) -> None:
        """Update the Inspector if the agent's activity has changed."""
        if self._state.doing != self._shown_activity:
            self.refresh()

    # --- beside the chat, and over it -----------------------------------------------------------------

    @property
    def panels(self) -> InspectorPanels | None:
        """The panels that are open now, or that were open last."""
        if self.docked is not None and self._is_chat_in_front:
            return self.docked
        return self.screen.panels if self.screen is not None else None

    def _make_panels(self) -> InspectorPanels:
        from foldline.llm.models import price_of

        panels = InspectorPanels(
            self._agent.session.projection,
            overhead=self._agent.state.budget.overhead,
            window=self._state.room.window,
            cwd=self._agent.session.cwd,
            live=True,
            threshold=self._state.room.threshold,
            activity=self._state.doing,
            open_child=self.open_child,
            use_now=self._use,
            clock=self._chat.clock,
        )
        panels.open_draft = partial(self._chat.run_command, "preview")
        price = price_of(self._agent.state.models.llm.info.id)
        panels.set_price(None if price is None else price.input / 1_000_000)
        return panels

    def _dock(self, state: PanelState) -> None:
        panels = self._make_panels()
        panels.is_docked = True
        panels.head = docked_head
        panels.close = self._to_prompt
        # Later, because otherwise the full-screen Inspector would get a key that follows immediately.
        panels.maximise = partial(self._chat.call_later, self._maximise)
        self.docked = panels
        self._chat.docked.put(panels, panels.enter, self._too_narrow)
        self._chat.fit()
        _restore(panels, state)

    def _to_prompt(self) -> None:
        self._chat.prompt.editor.focus()

    def _undock(self) -> PanelState:
        assert self.docked is not None, "only called when docked"
        state = self.docked.state
        self.docked = None
        self._chat.docked.clear()
        self._chat.fit()
        return state

    def _maximise(self) -> None:
        if self.docked is not None:
            self._show_full(self._undock(), maximised=True)

    def _too_narrow(self) -> None:
        """Undock the Inspector because the terminal is too narrow.

        If the Inspector has the focus, it takes the full screen; otherwise it is closed.
        """
        if self.docked is None:
            return
        in_use = self.docked.has_focus_within and self._is_chat_in_front
        state = self._undock()
        if in_use:
            self._show_full(state, maximised=False)

    def _to_dock(self) -> None:
        full = self.screen
        if full is None or not full.is_current:
            return
        state = full.panels.state
        full.dismiss()
        self._chat.call_later(self._dock_again, state)

    def _dock_again(self, state: PanelState) -> None:
        if self._is_chat_in_front and self.docked is None:
            self._dock(state)

    def _show_full(self, state: PanelState, *, maximised: bool) -> None:
        screen = self._full(maximised=maximised)
        self._chat.push_screen(screen)
        _restore(screen.panels, state)

    def _full(self, *, maximised: bool) -> "_FullInspector":
        """Create the screen with the Inspector."""
        self.screen = _FullInspector(
            self._make_panels(), self._chat, self._to_dock, maximised=maximised
        )
        return self.screen


def _restore(panels: InspectorPanels, state: PanelState) -> None:
    if state != PanelState():
        panels.call_after_refresh(panels.restore, state)
