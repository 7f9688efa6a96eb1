"""The Draft panel with its text field, and the one-line field of search and guidance."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from foldline.tui.blocks import Spans, clean
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.panel import Panel
from foldline.tui.widgets.editor import Editor


class NotesEditor(Editor):
    """The text of the draft, to be written over."""

    DEFAULT_CSS: ClassVar[str] = """
    NotesEditor, NotesEditor:focus { display: none; height: 1fr; max-height: 100%; margin: 0 1 0 1; }
    """

    class Left(Message):
        """The reader is done with the text, and keeps it."""

    def __init__(self) -> None:
        super().__init__(self._take)
        self.placeholder = ""

    def _take(self, key: str) -> bool:
        """Keys that are no text: out of the field, never into the void."""
        if key in ("escape", "ctrl+s", "tab", "shift+tab", "f3"):
            self.post_message(self.Left())
            return True
        return False


class DraftPanel(Panel):
    """Shows the draft, or in the same place the field to edit it in."""

    def __init__(self, view: EntryView, *, title: str) -> None:
        super().__init__(view, title=title)
        self.editor = NotesEditor()

    def compose(self) -> ComposeResult:
        yield self._upper
        with Vertical(classes="inside"):
            yield self.view
            yield self.editor
        yield self._lower

    def state(self, spans: Spans) -> None:
        """How the draft stands, in the upper edge."""
        self._upper.show(((self._title, "bold"),), spans)

    @property
    def editing(self) -> bool:
        return bool(self.editor.display)

    def edit(self, text: str, line: int) -> None:
        """Show the field, the text's `line` under its cursor."""
        self.editor.load_text(clean(text))
        self.editor.move_cursor((min(line, self.editor.document.line_count - 1), 0))
        self._show_editor(True)
        self.editor.focus()

    def leave(self) -> str:
        """Show the draft again; the text as the reader left it."""
        self._show_editor(False)
        return self.editor.text

    def _show_editor(self, shown: bool) -> None:
        self.editor.display = shown
        self.view.display = not shown


class OneLine(Input):
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
