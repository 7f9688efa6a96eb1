"""Vim's keys in the prompt: between the editor and `prompting/vim.py`, which knows what they do."""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from operator import eq
from typing import Final

from textual.widgets.text_area import Selection

from foldline.tui.keys.names import character_of
from foldline.tui.prompting.vim import ESC, REDO, Vim, press, selection
from foldline.tui.widgets.fields import Editor

_SIGNS: Final = {"left": "h", "right": "l", "home": "0", "end": "$", "backspace": "h", "delete": "x"}
_EXTENDING: Final = {"up": "k", "down": "j"}
"""Only for a selection, or behind an operator: else they do what they always do."""


class VimEditing:
    """Keeps the mode, and gives the editor the text, the cursor and the selection that a key leads to."""

    def __init__(self, editor: Editor, changed: Callable[[], None]) -> None:
        self._editor = editor
        self._changed = changed
        self._vim = Vim()
        self._shown = Selection()
        """As it was set here: where it is another one, somebody moved the cursor."""

    @property
    def commands(self) -> bool:
        """Whether letters are commands."""
        return self._vim.mode != "insert"

    @property
    def selects(self) -> bool:
        return self._vim.mode.startswith("visual")

    @property
    def between(self) -> bool:
        """Whether Esc leads back to the normal mode; there it has its usual meaning."""
        return self._vim.mode != "normal" or bool(self._vim.keys)

    @property
    def words(self) -> str:
        """The mode, and what was typed of a command."""
        return f"{self._vim.mode.upper()} {self._vim.keys}".rstrip()

    def takes(self, key: str) -> bool:
        """Carry out a key, where it is one of Vim's now."""
        if not self.commands:
            return False
        signs = {**_SIGNS, **_EXTENDING} if self.selects or self._vim.keys else _SIGNS
        sign = character_of(key) or signs.get(key)
        if sign:
            self.press(sign)
        return bool(sign)

    def up_or_down(self, key: str) -> int:
        """-1 for `k` and 1 for `j` where they go by lines and do nothing else; 0 for all other keys."""
        alone = self._vim.mode == "normal" and not self._vim.keys
        return {"k": -1, "j": 1}.get(key, 0) if alone else 0

    def redo(self) -> bool:
        """What Ctrl+R does in the normal mode; False in insert mode."""
        if self.commands:
            self.press(REDO)
        return self.commands

    def escape(self) -> None:
        self.press(ESC)

    def press(self, sign: str) -> None:
        editor, vim = self._editor, self._vim
        if not self.selects or editor.selection != self._shown:
            at = _index(editor.text, *editor.cursor_location)
            vim = replace(vim, at=at, mode="normal" if self.selects else vim.mode)
        before = editor.text
        self._vim = vim = press(replace(vim, text=before), sign)
        self._put(before, vim.text)
        low, high = selection(vim) or (vim.at, vim.at)
        editor.selection = self._shown = Selection(_location(vim.text, low), _location(vim.text, high))
        self._changed()

    def begin(self) -> None:
        """Insert mode, for a text that is begun anew; what was yanked stays."""
        self._vim = Vim(register=self._vim.register, of_lines=self._vim.of_lines)
        self._changed()

    def _put(self, before: str, text: str) -> None:
        """Replace only what differs: the lines around it are not wrapped anew."""
        if before == text:
            return
        start = _common(before, text)
        end = _common(before[start:][::-1], text[start:][::-1])
        low, high = _location(before, start), _location(before, len(before) - end)
        self._editor.replace(text[start : len(text) - end], low, high)


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _index(text: str, row: int, column: int) -> int:
    return sum(len(line) + 1 for line in text.split("\n")[:row]) + column


def _location(text: str, at: int) -> tuple[int, int]:
    """Row and column of a place."""
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1
