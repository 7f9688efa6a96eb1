"""The lines of a boxed screen: a state, and the pure function that draws it."""

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.telling import Telling

State = TypeVar("State")
Draw = Callable[[State, int, int], list[list[Span]]]
"""Lines for a state: exactly as many as the last number says, each as wide as the one before it."""


class Box(Telling, Generic[State], can_focus=True):
    """Shows a state, and takes the keys of its screen."""

    DEFAULT_CSS: ClassVar[str] = "Box { height: 1fr; }"

    def __init__(self, state: State, draw: Draw[State]) -> None:
        super().__init__()
        self.state = state
        self._draw = draw

    def show(self, state: State) -> None:
        self.state = state
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return self.with_told(self._draw(self.state, width, self.size.height), width)
