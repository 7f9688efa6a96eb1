"""The text field of the prompt: Textual's `TextArea` with our keys first and foreign text made harmless."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.widgets import TextArea

from foldline.context.harmless import clean

PLACEHOLDER = "Ask for something: read a file, find a word, run a command, change a line"
"""What an empty prompt says before anything was asked."""


class Editor(TextArea):
    """Grows with its text up to 8 lines. `take_key` sees every key first and says whether it took it."""

    DEFAULT_CSS: ClassVar[str] = """
    Editor, Editor:focus {
        height: auto;
        min-height: 1;
        max-height: 8;
        border: none;
        padding: 0;
        margin: 1 2 1 4;
        background: transparent;
        scrollbar-size: 0 0;
        color: $role-text;
        .text-area--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .text-area--selection { text-style: reverse; background: transparent; }
        .text-area--placeholder { color: $role-muted; }
    }
    """

    def __init__(self, take_key: Callable[[str], bool]) -> None:
        super().__init__(
            id="editor",
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=PLACEHOLDER,
        )
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self._take_key = take_key

    async def _on_key(self, event: events.Key) -> None:
        if self._take_key(event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if (text := clean(event.text)) and (edit := self._replace_via_keyboard(text, *self.selection)):
            self.move_cursor(edit.end_location)

    @property
    def on_first_line(self) -> bool:
        """Whether ↑ would leave the text, soft-wrapped lines counted."""
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    @property
    def on_last_line(self) -> bool:
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    @property
    def at_end(self) -> bool:
        return self.cursor_location == self.document.end

    def put(self, text: str) -> None:
        """Replace everything, cursor at the end; can be undone like typing. It may be an imported prompt."""
        edit = self.replace(clean(text), (0, 0), self.document.end)
        self.move_cursor(edit.end_location)
