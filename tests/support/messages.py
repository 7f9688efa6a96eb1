"""Messages with one text, and the tool results among entries."""

from collections.abc import Iterable

from foldline.protocol import (
    AssistantMessage,
    ToolResultMessage,
    UserMessage,
    text_parts,
)


def user(text: str = "more") -> UserMessage:
    return UserMessage(parts=text_parts(text))


def assistant(text: str) -> AssistantMessage:
    return AssistantMessage(parts=text_parts(text))


def tool_results(entries: Iterable[object]) -> list[ToolResultMessage]:
    return [entry for entry in entries if isinstance(entry, ToolResultMessage)]
