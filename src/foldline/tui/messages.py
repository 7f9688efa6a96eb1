"""What the chat and the panels tell the program: Textual messages, posted by widgets, handled by the app."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from foldline.protocol import Subagent
    from foldline.protocol.operations import Operation


@dataclass
class PromptSubmitted(Message):
    """The user sent text for the model."""

    text: str


@dataclass
class CommandInvoked(Message):
    """A command of scope `app` was asked for, by key, slash or palette."""

    command: str
    argument: str


class CancelRequested(Message):
    """What runs is to be cancelled."""


@dataclass
class QueueEdited(Message):
    """The queue is to become `after`, if it still is `before`; or to be paused or resumed."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    paused: bool


@dataclass
class OperationWanted(Message):
    """The user wants something of the agent: an answer to a question, an edit of the view, an undo."""

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
    """The user wants to see what a subagent does or did."""

    started: "Subagent"
