"""The Draft panel with its text field."""

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from foldline.tui.blocks import Spans, clean
from foldline.tui.keys.table import key_of
from foldline.tui.panels.entry_list import EntryList
from foldline.tui.panels.frame import Panel
from foldline.tui.preview.keys import KEYS
from foldline.tui.widgets.fields import Editor

_LEAVING: Final = ("close", "apply", "next-panel", "previous-panel")
"""What the keys are for that leave the text and keep it."""


class NotesEditor(Editor):
    """The text of the draft, to be written over."""

    DEFAULT_CSS: ClassVar[str] = """
    NotesEditor, NotesEditor:focus { display: none; height: 1fr; max-height: 100%; margin: 0 1 0 1; }
    """

    class Left(Message):
        """The reader is done with the text, and keeps it."""

    class EditorWanted(Message):
        """The reader wants to go on with the text in an editor of their own."""

    def __init__(self) -> None:
        super().__init__(self._take, self._clean)
        self.placeholder = ""

    async def _take(self, key: str) -> bool:
        """Keys that are no text: out of the field, never into the void."""
        if any(key in key_of(KEYS, command).pressed for command in _LEAVING):
            self.post_message(self.Left())
            return True
        if key in key_of(KEYS, "editor").pressed:
            self.post_message(self.EditorWanted())
            return True
        return False

    async def _clean(self, pasted: str) -> str:
        return clean(pasted)


class DraftPanel(Panel):
    """Shows the draft, or in the same place the field to edit it in."""

    def __init__(self, view: EntryList, *, title: str) -> None:
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
