"""The window of the terminal: its title says what is done, and a bell calls a reader who looks elsewhere."""

from typing import Any, Final

from textual.app import App

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import cut_right
from foldline.tui.state import ChatState
from foldline.tui.terminal.app import TerminalApp

_LONGEST: Final = 60
"""Cells of a title's name, and of what is done: more than tabs and task bars show."""


def title_words(state: ChatState) -> str:
    """`Idempotent orders · working`, `? Idempotent orders` where a question waits."""
    name = _cut(state.title or state.workdir) or "Foldline"
    if state.question is not None:
        return f"? {name} · waits for you"
    return f"{name} · {_cut(state.doing)}" if state.busy else name


def _cut(text: str) -> str:
    return cut_right(clean_line(text[: 8 * _LONGEST]), _LONGEST)


def calls_back(before: ChatState, now: ChatState) -> bool:
    """Whether something waits for the reader that did not: a question, or the end of what ran."""
    asks = now.question is not None and now.question != before.question
    ended = before.busy and not now.busy and now.waiting.count == 0
    return asks or ended


class Window:
    """Keeps the title true while the chat is on the screen. What it was before comes back at the end."""

    def __init__(self) -> None:
        self._shown = ChatState()
        self._title = ""

    def show(self, app: App[Any], state: ChatState) -> None:
        """Say what is done now; ring where that was asked for and the terminal has no focus."""
        before, self._shown = self._shown, state
        if not isinstance(app, TerminalApp):
            return
        if app.rings and not app.app_focus and calls_back(before, state):
            app.bell()
        title = title_words(state)
        if title != self._title:
            self._title = title
            app.write_title(title)
