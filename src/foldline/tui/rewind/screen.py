"""The Rewind screen: choose a place, see what going back would do, choose context, files or both, confirm."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.worker import Worker

from foldline.protocol import operations
from foldline.tui.help import open_help
from foldline.tui.keys.table import bindings, works
from foldline.tui.rewind.keys import KEYS
from foldline.tui.rewind.rows import DETAILS, screen_lines
from foldline.tui.rewind.state import Outcome, RewindState
from foldline.tui.widgets.box import BoxedScreen

_STEPS = {"up": -1, "down": 1, "page-up": -10, "page-down": 10, "first": -1_000_000, "last": 1_000_000}
"""How many rows further a key moves the mark."""

Look = Callable[[int], Awaitable[Outcome]]
"""Finds out what going back to a checkpoint would do."""


class RewindScreen(BoxedScreen[operations.Rewind | None, RewindState]):
    """Gives back what was chosen, or None. Nothing happens before that."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "rewind")

    def __init__(self, state: RewindState, look: Look) -> None:
        super().__init__(state, screen_lines)
        self._look = look

    def on_mount(self) -> None:
        rows = len(self.state.places) + DETAILS + 3
        self.query_one(Vertical).styles.height = max(min(rows, 30), DETAILS + 6)
        self._box.focus()
        self._look_at_it()

    def _show(self, state: RewindState) -> None:
        moved = state.marked != self.state.marked
        self._box.show(state)
        if moved:
            self._look_at_it()

    def _look_at_it(self) -> None:
        if self.state.marked is not None:
            # The function and not what it gives: where it is overtaken at once, nothing was begun.
            work = partial(self._foresee, self.state.marked)
            _: Worker[None] = self.run_worker(work, group="look", exclusive=True)

    async def _foresee(self, checkpoint: int) -> None:
        outcome = await self._look(checkpoint)
        if checkpoint == self.state.marked:
            self._show(replace(self.state, outcome=outcome))

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now. At the question, letters do not."""
        asks = self.state.asked is not None
        return works(KEYS, command, self.state) and (not asks or command in ("go", "help", "close"))

    def action_rewind(self, command: str) -> None:
        """What a key of the table does."""
        state = self.state
        if not self.works_now(command):
            return
        match command:
            case "both" | "context" | "files":
                self._show(state.ask(command))
            case "go":
                self.dismiss(state.operation)
            case "overwrite":
                self._show(replace(state, overwrite=not state.overwrite))
            case "steps":
                self._show(state.toggled_steps())
            case "help":
                open_help(self.app)
            case "close" if state.asked is not None:
                self._show(state.ask(None))
            case "close":
                self.dismiss(None)
            case _:
                self._show(state.moved(_STEPS[command]))
