"""The prompt's editor, and a one-line field that replaces the status row."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from foldline.text.harmless import clean
from foldline.tui.look.textual_private import (
    OrderedInput,
    OrderedTextArea,
    stop_watching,
)

if TYPE_CHECKING:
    from textual.widgets.text_area import Edit, EditResult

PLACEHOLDER = (
    "Ask for something: read a file, find a word, run a command, change a line"
)
"""Placeholder of the prompt in a new session."""


class LineInput(OrderedInput):
    """A one-line field in place of the status row.

    Enter and Esc close it.
    """

    DEFAULT_CSS: ClassVar[str] = """
    LineInput, LineInput:focus {
        display: none; height: 1; width: 1fr; border: none; padding: 0 1; background: $role-background;
        color: $role-text;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="one-line", compact=True)
        self.cursor_blink = False
        self._done: Callable[[str], None] | None = None

    def ask(self, placeholder: str, text: str, done: Callable[[str], None]) -> None:
        """Show the field.

        When Enter is pressed, `done` is called with the text.
        """
        self.placeholder = placeholder
        self.value = text
        self._done = done
        self.display = True
        self.screen.set_focus(
            self
        )  # immediate; with `focus()`, the next key could still go to another widget

    def close(self) -> None:
        self.display = False
        self._done = None

    async def action_submit(self) -> None:
        done = self._done
        text = self.value
        self.close()
        if done is not None:
            done(text)


class Editor(OrderedTextArea):
    """The prompt's editor.

    It grows with its text, up to 8 lines.
    """

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
        overflow-y: scroll;  /* if an undo removed a scrollbar, Textual 8.2.8 would request a missing line */
        color: $role-text;
        .text-area--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .text-area--selection { text-style: reverse; background: transparent; }
        .text-area--placeholder { color: $role-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Textual's key for undo, Ctrl+Z, suspends the program.
        Binding("ctrl+underscore", "undo", "Undo", show=False),
        # As in a shell (GNU readline). Textual already has Ctrl+A, E, D, W, U and K.
        Binding("alt+b", "cursor_word_left", "Word left", show=False),
        Binding("alt+f", "cursor_word_right", "Word right", show=False),
        Binding("alt+d", "delete_word_right", "Delete word", show=False),
        Binding("ctrl+y", "insert_deleted", "Insert deleted text", show=False),
        Binding("alt+underscore", "redo", "Redo", show=False),
    ]

    def __init__(
        self,
        take_key: Callable[[str], Awaitable[bool]],
        take_paste: Callable[[str], Awaitable[str]],
    ) -> None:
        """Create the editor.

        Args:
            take_key: Receives every key first, and returns whether it has handled the key.
            take_paste: Returns the text to insert for a paste.
        """
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
        self.take_key = take_key
        self.take_paste = take_paste
        self.delete_placeholder: Callable[[bool], bool] = lambda _: False
        """Deletes the placeholder before (True) or after (False) the cursor.

        Returns whether there was a placeholder.
        """
        self._is_saving = False
        self._deleted = ""
        """The text of the last word or line that was deleted with a key."""

    def on_unmount(self) -> None:
        stop_watching(self.app, self)

    def action_delete_left(self) -> None:
        if not self.delete_placeholder(True):
            super().action_delete_left()

    def action_delete_right(self) -> None:
        if not self.delete_placeholder(False):
            super().action_delete_right()

    # --- deleting and inserting words and lines ---------------------------------------------------------

    def edit(self, edit: "Edit") -> "EditResult":
        result = super().edit(edit)
        if self._is_saving and result.replaced_text:
            self._deleted = result.replaced_text
        return result

    @contextmanager
    def _saving_deleted(self) -> Iterator[None]:
        """Save the text that is deleted in this context, so that Ctrl+Y can insert it again."""
        self._is_saving = True
        try:
            yield
        finally:
            self._is_saving = False

    def action_delete_word_left(self) -> None:
        with self._saving_deleted():
            super().action_delete_word_left()

    def action_delete_word_right(self) -> None:
        with self._saving_deleted():
            super().action_delete_word_right()

    def action_delete_to_start_of_line(self) -> None:
        with self._saving_deleted():
            super().action_delete_to_start_of_line()

    async def action_delete_to_end_of_line_or_delete_line(self) -> None:
        with self._saving_deleted():
            await super().action_delete_to_end_of_line_or_delete_line()

    def action_insert_deleted(self) -> None:
        self.move_cursor(self.replace(self._deleted, *self.selection).end_location)

    def put(self, text: str) -> None:
        """Replace the whole text, and move the cursor to the end.

        The user can undo this.
        """
        edit = self.replace(clean(text), (0, 0), self.document.end)
        self.move_cursor(edit.end_location)
