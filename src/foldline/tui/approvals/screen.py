"""The Approvals screen: what runs unasked here, to be taken back, and the mode."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Vertical

from foldline.protocol import operations
from foldline.tui.approvals.keys import KEYS
from foldline.tui.approvals.rows import AROUND, screen_lines
from foldline.tui.approvals.state import ApprovalsState
from foldline.tui.help import open_help
from foldline.tui.keys.table import bindings, key_of, works
from foldline.tui.widgets.box import BoxedScreen

Ask = Callable[[operations.Revoke | operations.SwitchApprovals], object]
"""Passes what the reader wants on to the agent."""


class ApprovalsScreen(BoxedScreen[None, ApprovalsState]):
    """What is taken back or switched counts at once; the screen shows what the agent says then."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "approvals")

    def __init__(self, state: ApprovalsState, ask: Ask) -> None:
        super().__init__(state, screen_lines)
        self._ask = ask

    def on_mount(self) -> None:
        rows = max(len(self.state.rows), 3) + AROUND + (2 if self.state.fault else 0)
        self.query_one(Vertical).styles.height = min(rows, 30)
        self._box.focus()

    def refresh_from(self, now: ApprovalsState) -> None:
        """Show what holds now."""
        self._show(self.state.refreshed(now))

    def _show(self, state: ApprovalsState) -> None:
        self._box.show(state)

    def on_key(self, event: events.Key) -> None:
        """Every key but the one that confirms it leaves the question about the mode `all`."""
        if self.state.confirming and event.key not in key_of(KEYS, "confirm").pressed:
            self._show(replace(self.state, confirming=False))
            event.stop()
            event.prevent_default()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.state)

    def action_approvals(self, command: str) -> None:
        """What a key of the table does."""
        state = self.state
        if not works(KEYS, command, state):
            return
        match command:
            case "ask":
                self._ask(operations.SwitchApprovals(mode="ask"))
            case "edits":
                self._ask(operations.SwitchApprovals(mode="edits"))
            case "all" if state.mode != "all":
                self._show(replace(state, confirming=True))
            case "confirm":
                self._ask(operations.SwitchApprovals(mode="all"))
                self._show(replace(state, confirming=False))
            case "revoke":
                asked = state.revocation()
                if asked is not None:
                    self._ask(asked)
            case "up" | "down":
                self._show(state.moved(-1 if command == "up" else 1))
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)
