"""The chat as its questions see it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from textual import events

if TYPE_CHECKING:
    from foldline.tui.lists.line import LineDialog


class QuestionWindow(Protocol):
    """The chat that shows the questions."""

    clock: Callable[[], float]

    @property
    def covers_question(self) -> bool:
        """Whether a list of completions may cover the question."""

    def remark(self, text: str) -> None:
        """Show why an answer was rejected."""

    def edited(self, text: str) -> str | None:
        """Open text in the user's editor, and return the edited text."""

    def give_back(self, text: str) -> bool:
        """Put text into the prompt, unless it has other text."""

    def move_to_prompt(self, event: events.Key | events.Paste) -> None:
        """Pass text typed at a question to the prompt, and focus the prompt."""

    def open_dialog(
        self, dialog: "LineDialog[str]", answered: Callable[[str | None], None]
    ) -> None:
        """Open a dialog over the chat."""
