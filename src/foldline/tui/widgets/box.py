"""A screen that is one box over another: a state, and the pure function that draws it."""

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.status import StatusLine

State = TypeVar("State")
Result = TypeVar("Result")
Draw = Callable[[State, int, int], list[list[Span]]]
"""Lines for a state: exactly as many as the last number says, each as wide as the one before it."""


class Box(StatusLine, Generic[State], can_focus=True):
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
        return self.with_message(self._draw(self.state, width, self.size.height), width)


class BoxedScreen(ModalScreen[Result], Generic[Result, State]):
    """A box in the middle, over the screen below. Whoever mounts it gives `Vertical` its height, and the box
    the focus."""

    DEFAULT_CSS: ClassVar[str] = """
    BoxedScreen { align: center middle; background: transparent; }
    BoxedScreen > Vertical { width: 100; max-width: 100%; max-height: 100%; background: ansi_default; }
    """

    def __init__(self, state: State, draw: Draw[State]) -> None:
        super().__init__()
        self._box = Box(state, draw)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._box

    def on_resize(self) -> None:
        self.call_after_refresh(self._box.update)

    @property
    def state(self) -> State:
        """What is shown."""
        return self._box.state

    def tell(self, words: str) -> None:
        """Say something in the lower edge, for a moment."""
        self._box.tell(words)
