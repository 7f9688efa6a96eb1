"""The row of the search: what is looked for, how many places hold it, and which of them is shown."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.key_order import OrderedInput
from foldline.tui.widgets.lines import Lines


class _Words(Lines):
    """Words of one style, as wide as they are."""

    DEFAULT_CSS: ClassVar[str] = "_Words { width: auto; }"

    def __init__(self, words: str, style: str) -> None:
        super().__init__()
        self._words = words
        self._style = style
        self.styles.width = len(words)

    def say(self, words: str) -> None:
        self._words = words
        self.styles.width = len(words)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [[(self._words, self._style)]]


class SearchBar(Horizontal):
    """Docked below the transcript while something is looked for."""

    DEFAULT_CSS: ClassVar[str] = """
    SearchBar { height: 1; display: none; }
    SearchBar Input, SearchBar Input:focus {
        border: none; height: 1; padding: 0; width: 1fr; background: ansi_default;
    }
    """

    class Changed(Message):
        """Other words to look for."""

        def __init__(self, needle: str) -> None:
            super().__init__()
            self.needle = needle

    class Entered(Message):
        """The reader has typed what they look for."""

    def __init__(self) -> None:
        super().__init__(id="search-bar")
        self.field = OrderedInput(id="find-in-transcript", select_on_focus=True)
        self._sign = _Words(" / ", "accent")
        self._count = _Words("", "muted")

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.field
        yield self._count

    def open(self) -> None:
        self.display = True
        self.screen.set_focus(self.field)  # at once: `focus()` lets the next key go by

    def close(self) -> None:
        self.display = False
        with self.prevent(Input.Changed):
            self.field.value = ""
        self.say("")

    def say(self, words: str) -> None:
        """How many there are, at the right end."""
        self._count.say(f"  {words} " if words else "")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered())
