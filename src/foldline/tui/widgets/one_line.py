"""A field in the place of a screen's status row: for a search, or a few words of guidance."""

from collections.abc import Callable
from typing import ClassVar

from foldline.tui.widgets.hints import OrderedInput


class OneLine(OrderedInput):
    """A field in the place of the status row: opened with what it is for, closed by Enter or Esc."""

    DEFAULT_CSS: ClassVar[str] = """
    OneLine, OneLine:focus {
        display: none; height: 1; width: 1fr; border: none; padding: 0 1; background: ansi_default;
        color: $role-text;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="one-line", compact=True)
        self.cursor_blink = False
        self._done: Callable[[str], None] | None = None

    def ask(self, placeholder: str, text: str, done: Callable[[str], None]) -> None:
        """Show the field; `done` gets the text when Enter is pressed."""
        self.placeholder, self.value, self._done = placeholder, text, done
        self.display = True
        self.focus()

    def close(self) -> None:
        self.display = False
        self._done = None

    async def action_submit(self) -> None:
        done, text = self._done, self.value
        self.close()
        if done is not None:
            done(text)
