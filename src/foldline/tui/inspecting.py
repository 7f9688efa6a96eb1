"""Connects the Inspector to a session that is being worked on: opens it, and tells it what has come since."""

from collections.abc import Callable
from typing import Any

from textual.app import App

from foldline.tui.inspector import InspectorScreen
from foldline.tui.runner import Runner
from foldline.tui.state import ChatState


class Inspecting:
    """One per session. `title` says whose Inspector it is."""

    def __init__(self, app: App[Any], runner: Runner, *, title: Callable[[], str]) -> None:
        self._app = app
        self._agent = runner.agent
        self._title = title
        self._told = ""
        """What the agent did when the screen was last told."""
        self.screen: InspectorScreen | None = None

    def open(self, state: ChatState) -> None:
        """Open it over what is on the screen."""
        self.screen = InspectorScreen(
            self._agent.session.projection,
            title=self._title(),
            overhead=self._agent.desk.overhead,
            live=True,
            cwd=self._agent.session.cwd,
            window=state.room.window,
            threshold=state.room.threshold,
            activity=state.doing,
        )
        self._app.push_screen(self.screen)

    def open_at(self, index: int, state: ChatState) -> None:
        """Open it with the cursor on an entry."""
        self.open(state)
        assert self.screen is not None, "it was opened just now"
        self.screen.call_after_refresh(self.screen.panels.reveal, index)

    def refresh(self, state: ChatState) -> None:
        """Show the entries that have come since."""
        if self.screen is not None and self.screen.is_mounted:
            self._told = state.doing
            self.screen.refresh_from(
                self._agent.session.projection, activity=state.doing, threshold=state.room.threshold
            )

    def hear(self, state: ChatState) -> None:
        """Say what the agent does now, where that is another thing than before."""
        if state.doing != self._told:
            self.refresh(state)
