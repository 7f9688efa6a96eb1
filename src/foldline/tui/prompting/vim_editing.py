"""Vim's keys in the prompt: between the editor and `prompting/vim.py`, which knows what they do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from textual.widgets.text_area import Selection

from foldline.sequences import same_start
from foldline.tui.keys.names import character_of
from foldline.tui.prompting.vim import ESC, REDO, Vim, press, selection
from foldline.tui.widgets.fields import Editor

_SIGNS: Final = {"left": "h", "right": "l", "home": "0", "end": "$", "backspace": "h", "ctrl+r": REDO}
_EXTENDING: Final = {"up": "k", "down": "j"}
"""For a selection, or behind an operator; else they do what they always do."""


class VimEditing:
    """Keeps the mode, and gives the editor the text, the cursor and the selection that a key leads to.

    `edges` are what `k` and `j` do first; each says whether it did anything. `changed` is called after a key.
    """

    def __init__(
        self,
        editor: Editor,
        edges: tuple[Callable[[], bool], Callable[[], bool]],
        changed: Callable[[], None],
    ) -> None:
        self._editor = editor
        self._edges = dict(zip("kj", edges, strict=True))
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
    def idle(self) -> bool:
        """Whether it is in the normal mode and waits for nothing: Esc has its usual meaning there."""
        return self._vim.mode == "normal" and not self._vim.keys

    @property
    def words(self) -> str:
        """The mode, and what was typed of a command."""
        return f"{self._vim.mode.upper()} {self._vim.keys}".rstrip()

    def takes(self, key: str) -> bool:
        """Carry out a key, where it is one of Vim's now."""
        sign = character_of(key) or (_SIGNS if self.idle else _SIGNS | _EXTENDING).get(key)
        if sign is None or not self.commands:
            return False
        if not (self.idle and sign in self._edges and self._edges[sign]()):
            self._press(sign)
        return True

    def escape(self) -> None:
        self._press(ESC)

    def begin(self) -> None:
        """Insert mode, for a text that is begun anew; what was yanked stays."""
        self._vim = Vim(register=self._vim.register, of_lines=self._vim.of_lines)
        self._changed()

    def _press(self, sign: str) -> None:
        editor, vim, before = self._editor, self._vim, self._editor.text
        if not self.selects or editor.selection != self._shown:
            row, column = editor.cursor_location
            at = sum(len(line) + 1 for line in before.split("\n")[:row]) + column
            vim = replace(vim, at=at, mode="normal" if self.selects else vim.mode)
        self._vim = vim = press(replace(vim, text=before), sign)
        if vim.text != before:  # only what differs: the lines around it are not wrapped anew
            start, end = _same(before, vim.text)
            places = (_location(before, start), _location(before, len(before) - end))
            editor.replace(vim.text[start : len(vim.text) - end], *places)
        low, high = selection(vim) or (vim.at, vim.at)
        editor.selection = self._shown = Selection(_location(vim.text, low), _location(vim.text, high))
        self._changed()


def _same(before: str, after: str) -> tuple[int, int]:
    """How many characters are the same at the start, and how many of the others at the end."""
    start = same_start(before, after)
    return start, same_start(before[start:][::-1], after[start:][::-1])


def _location(text: str, at: int) -> tuple[int, int]:
    """Row and column of a place."""
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1
