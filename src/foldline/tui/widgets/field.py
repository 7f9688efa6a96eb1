"""The upper end of a box with a field to type in: its edge with the title, and `❯` before the text."""

from typing import ClassVar

from textual.app import ComposeResult

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.frames import HEAVY, edge, sides
from foldline.tui.widgets.key_order import OrderedInput
from foldline.tui.widgets.lines import Lines


class FieldTop(Lines):
    """Two lines of a heavy frame around an `Input` without looks of its own."""

    DEFAULT_CSS: ClassVar[str] = """
    FieldTop { height: 2; }
    FieldTop > Input, FieldTop > Input:focus {
        margin: 1 2 0 4; height: 1; border: none; padding: 0; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { color: $role-muted; }
    }
    """

    def __init__(self, title: str, placeholder: str) -> None:
        super().__init__()
        self._title = title
        self.input = OrderedInput(placeholder=placeholder, compact=True)
        self.input.cursor_blink = False

    def compose(self) -> ComposeResult:
        yield self.input

    def lines(self, width: int) -> list[list[Span]]:
        return [
            edge(HEAVY, True, ((self._title, "text bold"),), (), width),
            sides(HEAVY, [(" ❯ ", "accent")], width),
        ]
