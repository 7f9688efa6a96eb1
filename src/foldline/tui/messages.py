"""What the chat screen and its widgets tell the program."""

from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from foldline.protocol.entries import EditAction

Answer = Literal["once", "always", "project", "deny"]
"""The user's word on a tool call."""


class PromptSubmitted(Message):
    """The user sent text for the model."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class CommandInvoked(Message):
    """A command of scope `app` was asked for, by key, slash or palette."""

    def __init__(self, command: str, argument: str) -> None:
        super().__init__()
        self.command = command
        self.argument = argument


class CancelRequested(Message):
    """What runs is to be cancelled."""


class QueueEdited(Message):
    """The queue is to become `after`, if it still is `before`; or to be paused or resumed."""

    def __init__(self, before: tuple[str, ...], after: tuple[str, ...], paused: bool) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.paused = paused


class QuestionAnswered(Message):
    """The user's word on a tool call."""

    def __init__(self, call_id: str, answer: Answer, nth: int = 0) -> None:
        """`nth`: which of the rules that were offered was shown."""
        super().__init__()
        self.call_id = call_id
        self.answer = answer
        self.nth = nth


class ChoiceAnswered(Message):
    """The user's word on a choice. An empty key: they left it, none of the answers is taken."""

    def __init__(self, choice: str, key: str) -> None:
        super().__init__()
        self.choice = choice
        self.key = key


class EditWanted(Message):
    """The user wants an edit of the view, of an entry and the tool group it belongs to."""

    def __init__(self, target: int, action: "EditAction") -> None:
        super().__init__()
        self.target = target
        self.action = action


class EntryWanted(Message):
    """The user wants to see an entry in the Inspector."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index


class UndoWanted(Message):
    """The user wants this change of the view taken back: an edit, a compaction, a clear or a rewind."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self.target = target
