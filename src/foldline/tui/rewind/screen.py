"""The Rewind screen: choose a place, see what going back would do, then go with context, files or both."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from foldline.protocol import operations
from foldline.tui.blocks.cells import Span
from foldline.tui.rewind.rows import DETAILS, screen_lines
from foldline.tui.rewind.state import Outcome, RewindState, What
from foldline.tui.widgets.lines import Lines

Look = Callable[[int], Awaitable[Outcome]]
"""Finds out what going back to a checkpoint would do."""


class _Box(Lines, can_focus=True):
    DEFAULT_CSS: ClassVar[str] = "_Box { height: 1fr; }"

    def __init__(self, state: RewindState) -> None:
        super().__init__()
        self.state = state

    def lines(self, width: int) -> list[list[Span]]:
        return screen_lines(self.state, width, self.size.height)


class RewindScreen(ModalScreen[operations.Rewind | None]):
    """Gives back what was chosen, or None. Nothing happens before that."""

    DEFAULT_CSS: ClassVar[str] = """
    RewindScreen { align: center middle; background: transparent; }
    RewindScreen > Vertical { width: 100; max-width: 100%; max-height: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-100000)", show=False),
        Binding("end", "move(100000)", show=False),
        Binding("s,enter", "steps", show=False),
        Binding("o", "overwrite", show=False),
        Binding("b", "go('both')", show=False),
        Binding("c", "go('context')", show=False),
        Binding("f", "go('files')", show=False),
        Binding("escape,q", "close", show=False),
    ]

    def __init__(self, state: RewindState, look: Look) -> None:
        super().__init__()
        self._look = look
        self._box = _Box(state)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._box

    def on_mount(self) -> None:
        rows = len(self.state.places) + DETAILS + 3
        self.query_one(Vertical).styles.height = max(min(rows, 30), DETAILS + 6)
        self._box.focus()
        self._look_at_it()

    def on_resize(self) -> None:
        self.call_after_refresh(self._box.update)

    @property
    def state(self) -> RewindState:
        """What is shown."""
        return self._box.state

    def _show(self, state: RewindState) -> None:
        moved = state.marked != self.state.marked
        self._box.state = state
        self._box.update()
        if moved:
            self._look_at_it()

    def _look_at_it(self) -> None:
        if self.state.marked is not None:
            self.run_worker(self._foresee(self.state.marked), group="look", exclusive=True)

    async def _foresee(self, checkpoint: int) -> None:
        outcome = await self._look(checkpoint)
        if checkpoint == self.state.marked:
            self._show(replace(self.state, outcome=outcome))

    def action_move(self, step: int) -> None:
        self._show(self.state.moved(step))

    def action_steps(self) -> None:
        self._show(self.state.toggled_steps())

    def action_overwrite(self) -> None:
        if self.state.outcome is not None and self.state.outcome.conflicts:
            self._show(replace(self.state, overwrite=not self.state.overwrite))

    def action_go(self, what: What) -> None:
        asked = self.state.operation(what)
        if asked is not None:
            self.dismiss(asked)

    def action_close(self) -> None:
        self.dismiss(None)
