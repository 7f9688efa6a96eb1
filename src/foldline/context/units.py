"""Units: the pieces of a view that stay or go as one. Pure, and whole for the API (invariant 6)."""

from collections.abc import Iterable
from dataclasses import dataclass

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .tokens import message_tokens
from .view import is_preamble, is_summary


@dataclass(frozen=True, slots=True)
class Unit:
    """A tool group, or one message of the user or the assistant; notices stay with what they came after."""

    messages: tuple[BaseMessage, ...]

    @property
    def first(self) -> BaseMessage:
        return self.messages[0]

    @property
    def tokens(self) -> int:
        """Estimate before calibration."""
        return sum(map(message_tokens, self.messages))

    @property
    def asked(self) -> str:
        """What the user typed; empty where this is nothing a user typed."""
        return self.first.typed if isinstance(self.first, UserMessage) else ""

    @property
    def said(self) -> str:
        """What the assistant said, its calls and their results left out."""
        return self.first.text if isinstance(self.first, AssistantMessage) else ""

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return self.first.calls if isinstance(self.first, AssistantMessage) else ()

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.messages if isinstance(message, ToolResultMessage)]


def units_of(messages: Iterable[BaseMessage], pins: frozenset[int] = frozenset()) -> list[Unit]:
    """The units of a view, in order. Preamble and summaries are none."""
    found: list[list[BaseMessage]] = []
    for message in messages:
        if is_preamble(message) or is_summary(message):
            continue
        if found and _goes_with(message, found[-1], pins):
            found[-1].append(message)
        else:
            found.append([message])
    return [Unit(tuple(unit)) for unit in found]


def _goes_with(message: BaseMessage, unit: list[BaseMessage], pins: frozenset[int]) -> bool:
    """A notice goes with what it came after, so that no kept part begins with one. What is pinned is kept
    whatever becomes of the rest, and takes nothing along."""
    if isinstance(message, ToolResultMessage):
        return True
    alike = message.index not in pins and unit[0].index not in pins
    return alike and isinstance(message, DeveloperMessage)
