"""/context: what fills the window, by category and by item. The screen is imported when it is opened."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foldline.tui.open_session import OpenSession
    from foldline.tui.presenter import Shown
    from foldline.tui.runner import Runner


def context_commands(chat: "OpenSession", shown: "Shown") -> "dict[str, Callable[[Runner, str], None]]":
    def open_context(_runner: "Runner", _argument: str) -> None:
        from foldline.tui.context_screen.screen import ContextScreen

        if not isinstance(chat.front, ContextScreen):  # else its key was pressed twice
            chat.push_screen(ContextScreen(chat, shown))

    return {"context": open_context}
