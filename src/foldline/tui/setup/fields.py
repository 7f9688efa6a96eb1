"""The text fields of the setup screen: an address, a masked key, a filter."""

import re
from typing import ClassVar, Final

from textual.message import Message

from foldline.tui.textual_private import PastingInput

_SET: Final = re.compile(r"(?:export\s+|set\s+|\$env:)?[A-Za-z_][A-Za-z0-9_]*\s*=\s*(?=[^\s=])")
"""What stands before a key that was copied with its variable: `export OPENAI_API_KEY=`."""
_BEARER: Final = re.compile(r"(?:authorization:\s*)?bearer\s+", re.IGNORECASE)
_QUOTES: Final = "\"'`“”‘’«»"


class Secret:
    """A key. Only `reveal` gives it away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(len(self._text))

    def __repr__(self) -> str:
        return f"Secret({len(self._text)} characters)"

    @property
    def fault(self) -> str:
        """Why this can be no key, as a sentence; empty where it may be one."""
        if not self._text.isascii() or not self._text.isprintable() or " " in self._text:
            return "A key has no blanks and no other than plain characters: copy it again."
        return ""


def cleaned_key(pasted: str) -> str:
    """The key alone: without blanks and line ends around it, quotes, and the words it was copied with."""
    text = pasted.strip().rstrip(";")
    for words in (_SET, _BEARER):
        match = words.match(text)
        if match:
            text = text[match.end() :]
    return text.strip().strip(_QUOTES).strip()


class Field(PastingInput):
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
