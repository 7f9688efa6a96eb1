"""The units of a view: messages that are kept or removed together.

For example, a call forms a unit with its results.
"""

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

from .items import is_preamble, is_summary
from .tokens import message_tokens

AnsweredCall = tuple[ToolCallPart, ToolResultMessage]


@dataclass(frozen=True, slots=True)
class Unit:
    """A tool group, or one message by the user or the assistant.

    The notices that follow belong to the unit.
    """

    messages: tuple[BaseMessage, ...]

    @property
    def first(self) -> BaseMessage:
        return self.messages[0]

    @property
    def tokens(self) -> int:
        """Estimated size of the unit, in tokens without calibration."""
        return sum(map(message_tokens, self.messages))

    @property
    def prompt(self) -> str:
        """The text that the user typed; empty if the unit is not a user message."""
        return self.first.typed if isinstance(self.first, UserMessage) else ""

    @property
    def answer(self) -> str:
        """The assistant's text, without calls and results; may be empty."""
        return self.first.text if isinstance(self.first, AssistantMessage) else ""

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return calls_of(self.first)

    @property
    def results(self) -> list[ToolResultMessage]:
        return [
            message
            for message in self.messages
            if isinstance(message, ToolResultMessage)
        ]

    @property
    def answered_calls(self) -> list[AnsweredCall]:
        """The unit's calls that have results, in order."""
        results = results_by_call(self.messages)
        return [
            (call, results[call.call_id])
            for call in self.calls
            if call.call_id in results
        ]


def units_of(
    messages: Iterable[BaseMessage], pins: frozenset[int] = frozenset()
) -> list[Unit]:
    """Return the units of a view in order, leaving out the preamble and summaries."""
    units: list[list[BaseMessage]] = []
    for message in messages:
        if is_preamble(message) or is_summary(message):
            continue
        if units and _goes_with(message, units[-1], pins):
            units[-1].append(message)
        else:
            units.append([message])
    return [Unit(tuple(unit)) for unit in units]


def _goes_with(
    message: BaseMessage, unit: list[BaseMessage], pins: frozenset[int]
) -> bool:
    """Return whether a result or notice belongs to the unit before it.

    Pinned messages are units of their own.
    """
    if isinstance(message, ToolResultMessage):
        return True
    if message.index in pins or unit[0].index in pins:
        return False
    return isinstance(message, DeveloperMessage)


def calls_of(message: BaseMessage) -> tuple[ToolCallPart, ...]:
    """Return the calls in an answer; empty for other messages."""
    return message.calls if isinstance(message, AssistantMessage) else ()


def tool_groups(messages: Iterable[BaseMessage]) -> list[list[BaseMessage]]:
    """Return each answer together with the results that follow it."""
    groups: list[list[BaseMessage]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage) and groups:
            groups[-1].append(message)
        elif isinstance(message, AssistantMessage):
            groups.append([message])
    return groups


def results_by_call(messages: Iterable[BaseMessage]) -> dict[str, ToolResultMessage]:
    """Return the results, by the ids of their calls."""
    return {
        message.call_id: message
        for message in messages
        if isinstance(message, ToolResultMessage)
    }
