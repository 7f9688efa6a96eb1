"""The text fields of the setup screen: an address, a masked key, a filter."""

from typing import ClassVar

from textual import events
from textual.message import Message

from foldline.tui.setup.secret import cleaned_key
from foldline.tui.widgets.key_order import OrderedInput


class Field(OrderedInput):
    """One line of text. Enter is the screen's."""

    DEFAULT_CSS: ClassVar[str] = """
    Field, Field:focus {
        display: none; height: 1; border: none; padding: 0; background: transparent; color: $role-text;
        .input--cursor { text-style: reverse; color: $role-text; background: transparent; }
        .input--placeholder { color: $role-muted; }
        .input--selection { text-style: reverse; color: $role-text; background: transparent; }
    }
    """

    class Done(Message):
        """Enter was pressed in it."""

    def __init__(self, id: str, placeholder: str, *, password: bool = False) -> None:
        super().__init__(
            id=id, placeholder=placeholder, password=password, compact=True, select_on_focus=False
        )
        self.cursor_blink = False

    async def action_submit(self) -> None:
        self.post_message(self.Done())

    def _on_paste(self, event: events.Paste) -> None:
        self.replace(self.pasted(event.text), *self.selection)
        event.prevent_default()
        event.stop()

    def pasted(self, text: str) -> str:
        """What is taken over of a paste."""
        return " ".join(text.split())


class KeyField(Field):
    """Shows that something was typed, and never what: it cannot be copied from it either."""

    def __init__(self) -> None:
        super().__init__("key", "paste or type it", password=True)

    def pasted(self, text: str) -> str:
        return cleaned_key(text)

    def action_copy(self) -> None:
        """A key does not leave by the clipboard."""

    def action_cut(self) -> None:
        self.delete_selection()
