"""Text fields: the prompt's editor, and one in the place of a status row."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from foldline.context.harmless import clean
from foldline.tui.textual_private import OrderedInput, OrderedTextArea

if TYPE_CHECKING:
    from textual.widgets.text_area import Edit, EditResult

PLACEHOLDER = "Ask for something: read a file, find a word, run a command, change a line"
"""What an empty prompt says before anything was asked."""


class OneLine(OrderedInput):
    """A field in the place of the status row: opened with what it is for, closed by Enter or Esc."""

    DEFAULT_CSS: ClassVar[str] = """
    OneLine, OneLine:focus {
        display: none; height: 1; width: 1fr; border: none; padding: 0 1; background: $role-background;
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
        self.screen.set_focus(self)  # at once: a letter may be right behind

    def close(self) -> None:
        self.display = False
        self._done = None

    async def action_submit(self) -> None:
        done, text = self._done, self.value
        self.close()
        if done is not None:
            done(text)


class Editor(OrderedTextArea):
    """Grows with its text up to 8 lines. Foreign text is made harmless."""

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
        overflow-y: scroll;  /* where an undo takes a bar away, Textual 8.2.8 asks for a line that is gone */
        color: $role-text;
        .text-area--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .text-area--selection { text-style: reverse; background: transparent; }
        .text-area--placeholder { color: $role-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Ctrl+Z, Textual's key for it, suspends the program.
        Binding("ctrl+underscore", "undo", "Undo", show=False),
        # As in a shell (GNU readline); Textual has Ctrl+A, E, D, W, U and K.
        Binding("alt+b", "cursor_word_left", "Word left", show=False),
        Binding("alt+f", "cursor_word_right", "Word right", show=False),
        Binding("alt+d", "delete_word_right", "Delete word", show=False),
        Binding("ctrl+y", "insert_deleted", "Insert what was deleted", show=False),
        Binding("alt+underscore", "redo", "Redo", show=False),
    ]

    def __init__(
        self, take_key: Callable[[str], Awaitable[bool]], take_paste: Callable[[str], Awaitable[str]]
    ) -> None:
        """`take_key` sees every key first and says whether it took it; `take_paste` says what goes in for a
        paste."""
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
        self.delete_whole: Callable[[bool], bool] = lambda _: False
        """Deletes what is one sign for the reader, before the cursor (True) or behind it; whether it did."""
        self._keeps = False
        self._deleted = ""
        """What a key that deletes a word or a line took last."""

    def action_delete_left(self) -> None:
        if not self.delete_whole(True):
            super().action_delete_left()

    def action_delete_right(self) -> None:
        if not self.delete_whole(False):
            super().action_delete_right()

    # --- deleting words and lines, and getting them back --------------------------------------------------

    def edit(self, edit: "Edit") -> "EditResult":
        result = super().edit(edit)
        if self._keeps and result.replaced_text:
            self._deleted = result.replaced_text
        return result

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """What is deleted in it can be inserted again."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False

    def action_delete_word_left(self) -> None:
        with self._kept():
            super().action_delete_word_left()

    def action_delete_word_right(self) -> None:
        with self._kept():
            super().action_delete_word_right()

    def action_delete_to_start_of_line(self) -> None:
        with self._kept():
            super().action_delete_to_start_of_line()

    async def action_delete_to_end_of_line_or_delete_line(self) -> None:
        with self._kept():
            await super().action_delete_to_end_of_line_or_delete_line()

    def action_insert_deleted(self) -> None:
        self.move_cursor(self.replace(self._deleted, *self.selection).end_location)

    def put(self, text: str) -> None:
        """Replace everything, cursor at the end; can be undone like typing. It may be an imported prompt."""
        edit = self.replace(clean(text), (0, 0), self.document.end)
        self.move_cursor(edit.end_location)
