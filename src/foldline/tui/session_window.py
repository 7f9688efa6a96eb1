"""Protocols of the app and its open sessions.

Screens and dialogs use these protocols, and so need not import the session that opens them.
"""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from textual.app import App
from textual.screen import Screen
from textual.widget import AwaitMount
from textual.widgets import TextArea

from foldline.agent import Agent
from foldline.frontend.state import ChatState
from foldline.protocol.operations import Operation
from foldline.tui.browser.dock import Dock

Result = TypeVar("Result")


class StateOwner(Protocol):
    """Holds the state of the chat."""

    state: ChatState

    def show(self, state: ChatState) -> None:
        """Set the state, and show it now."""

    def refresh_figures(self) -> None:
        """Recompute the figures that the meter and the sidebar show."""


class HasEditor(Protocol):
    """An object that has the prompt editor."""

    @property
    def editor(self) -> TextArea: ...

    def give_back(self, text: str) -> bool:
        """Put text into the editor.

        Returns:
            False if the editor has other text.
        """


class Program(Protocol):
    """The app and its open sessions."""

    @property
    def chat(self) -> "SessionWindow":
        """The session on the screen."""

    @property
    def sessions(self) -> Sequence["SessionWindow"]: ...

    @property
    def written(self) -> int:
        """Number of characters written to the terminal so far, not counting full frames."""

    def open_session(self, file: str = "") -> None:
        """Open the session in this event file.

        If `file` is empty, open a new session.
        """

    def continue_in(self, mode: str, folder: Path) -> object:
        """Reopen the session with this Textual mode in another folder."""

    def on_sessions(self, command: str) -> None:
        """Carry out a command that concerns the open sessions."""

    def show_tabs(self) -> None:
        """Show the state of the open sessions in the header."""

    def say(self, words: str) -> None:
        """Show a message in the status row and on any covering screen."""

    def tell_above(self) -> None:
        """Show the chat's last message on the screen over the chat."""


class AgentRunner(Protocol):
    """Runs the agent of a session."""

    agent: Agent

    def submit(self, operation: Operation) -> str:
        """Start an operation, and return its id."""


class OpensScreens(Protocol):
    """A chat or another screen, over which screens are opened."""

    def push_screen(
        self,
        screen: Screen[Result],
        callback: Callable[[Result | None], None] | None = None,
    ) -> AwaitMount: ...


class SessionWindow(OpensScreens, Protocol):
    """The chat of a session and the screens over it."""

    clock: Callable[[], float]
    docked: Dock

    @property
    def app(self) -> App[Any]: ...

    @property
    def program(self) -> Program: ...

    @property
    def state(self) -> ChatState:
        """The chat's state, as shown on the screen."""

    @property
    def root(self) -> Path:
        """The folder of the session."""

    @property
    def file(self) -> str:
        """Path of the event file; empty until the first entry is written."""

    @property
    def presenter(self) -> StateOwner: ...

    @property
    def prompt(self) -> HasEditor: ...

    @property
    def where(self) -> str:
        """The title shown before the name of a screen over the chat."""

    @property
    def front(self) -> Screen[Any]:
        """The screen on top, which is the chat itself if no screen covers it."""

    def remark(self, text: str) -> None:
        """Show a message in the status row for a few seconds."""

    def tell_front(self, words: str) -> None:
        """Show a message on the screen in front: the chat, or a screen that covers it."""

    def report(self, work: Coroutine[Any, Any, str], group: str) -> None:
        """Run a coroutine and show its result in the status row."""

    def run_worker(
        self, work: Coroutine[Any, Any, Any], *, group: str, exclusive: bool = False
    ) -> object: ...

    def run_command(self, command: str, argument: str = "") -> None:
        """Carry out a command."""

    def call_later(
        self, callback: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> bool:
        """Call a function once pending messages are handled."""

    def fit(self) -> None:
        """Lay out the chat again."""

    def show_entry(self, index: int) -> None:
        """Show an entry in the Inspector."""
