"""Messages from the widgets of the chat and the panels to the app."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.message import Message

if TYPE_CHECKING:
    from foldline.protocol import Subagent
    from foldline.protocol.operations import Operation

NOT_NOW: Final = "{command}: not available now"


@dataclass
class PromptSubmitted(Message):
    """The user sent text for the model."""

    text: str


@dataclass
class CommandInvoked(Message):
    """The user invoked a command that the app handles.

    Such a command has the scope `app`, and is invoked by key, slash command or palette.
    """

    command: str
    argument: str


class CancelRequested(Message):
    """The user wants to cancel the running task."""


@dataclass
class QueueEdited(Message):
    """The user edited, paused or resumed the queue.

    The change from `before` to `after` is applied to the current queue, even if the queue has changed in the
    meantime.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    paused: bool


@dataclass
class OperationWanted(Message):
    """The user wants the agent to carry out an operation, for example an undo."""

    operation: "Operation"


@dataclass
class PromptEditWanted(Message):
    """The user wants to edit an earlier prompt in place."""

    index: int


@dataclass
class EntryWanted(Message):
    """The user wants to see an entry in the Inspector."""

    index: int


@dataclass
class SubagentWanted(Message):
    """The user wants to see the session of a subagent."""

    started: "Subagent"
