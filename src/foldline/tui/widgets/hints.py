"""The row of hints: what can be done now, from the registry."""

from foldline.tui.blocks.cells import Span
from foldline.tui.commands import hints
from foldline.tui.state import ChatState
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.rows import Piece, row


def hints_row(state: ChatState, width: int) -> list[Span]:
    """` F2 inspector  Alt+↑↓ prompts  PgUp scroll        Ctrl+P everything `."""
    parts = [
        Piece(((hint.keys, "accent"), (f" {hint.label}", "muted")), rank=rank, gap=2)
        for rank, hint in enumerate(hints(state))
    ]
    if not parts:
        return row((), (), width)
    last = parts.pop()
    return row(parts, [Piece(last.spans, gap=2)], width)


class Hints(Lines):
    """The last row of the screen."""

    def __init__(self) -> None:
        super().__init__(id="hints")
        self._state = ChatState()

    def show(self, state: ChatState) -> None:
        self._state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [hints_row(self._state, width)]
