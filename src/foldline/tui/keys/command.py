"""A command of the chat: what it is, and when it works. They are listed in `commands.py`."""

from dataclasses import dataclass
from typing import Final, Literal

from foldline.tui.keys.table import Place, ScreenKey
from foldline.tui.state import ChatState

CHAT: Final = "chat"
"""The name of the chat's table."""

Scope = Literal["chat", "app"]
"""Who carries it out: the chat screen itself, or the program it posts `CommandInvoked` to."""


@dataclass(frozen=True, slots=True)
class Command(ScreenKey[ChatState]):
    """A key of the chat that may have a slash command, too, or only that."""

    place: Place = "anywhere"
    slash: str = ""
    argument: str = ""
    """What may follow the slash command, as shown to people; `[…]` where it may be left out."""
    scope: Scope = "chat"

    @property
    def usage(self) -> str:
        """`/compact [focus]`; empty for a command without a slash name."""
        return f"/{self.slash} {self.argument}".rstrip() if self.slash else ""

    @property
    def reached_by(self) -> str:
        """How it is reached without the palette: its keys, else its slash command."""
        return ", ".join(self.names) or self.usage


def idle(state: ChatState) -> bool:
    return not state.busy


def folds_nothing(state: ChatState) -> bool:
    return state.compacting is None


def broke_off(state: ChatState) -> bool:
    return state.unanswered and not state.busy


def asked(state: ChatState) -> bool:
    return state.question is not None and not state.asks_choice


def has_other_rules(state: ChatState) -> bool:
    return state.question is not None and len(state.question.promises) > 1
