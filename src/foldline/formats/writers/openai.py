"""Writer for OpenAI chat: the view as messages, as chat completions take them."""

import json
from collections.abc import Iterable

from foldline.context.calls import paired
from foldline.context.numbers import many
from foldline.context.view import IN_VIEW, is_preamble
from foldline.llm.dialect import OPENAI, ChatMessage, to_openai
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolResultMessage,
    UserMessage,
)

from ..export import Exported, Original


def write_openai(original: Original) -> Exported:
    """Write an object of `messages`, and `items` with the source of each."""
    view = original.projection.view
    document = {
        "messages": to_openai(paired(item.message for item in view), OPENAI),
        "items": [{"index": item.index, "kind": item.kind, "fate": item.fate} for item in view],
    }
    data = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    return Exported(data, tuple(_notes(original)))


def as_sent(messages: Iterable[BaseMessage]) -> list[ChatMessage]:
    """Return messages in the roles of another agent. Each part of a prompt is a message of its own."""
    return to_openai([part for message in messages for part in _in_parts(message)], OPENAI)


def _in_parts(message: BaseMessage) -> list[BaseMessage]:
    if isinstance(message, AssistantMessage | ToolResultMessage):
        return [message]
    is_system = message.role == "system" if isinstance(message, DeveloperMessage) else is_preamble(message)
    kind = DeveloperMessage if is_system else UserMessage
    return [kind(index=message.index, parts=(part,)) for part in message.parts]


def _notes(original: Original) -> list[str]:
    projection = original.projection
    messages = [entry for entry in original.entries if isinstance(entry, BaseMessage)]
    out_of_view = sum(projection.fate(message.index).kind not in IN_VIEW for message in messages)
    thoughts = sum(
        bool(item.message.thinking) for item in projection.view if isinstance(item.message, AssistantMessage)
    )
    notes = []
    if out_of_view:
        are = many(out_of_view, "message is", "messages are")
        notes.append(f"{are} not in the view, and so not in these messages: --whole writes all of them.")
    if thoughts:
        answers = many(thoughts, "answer is", "answers are")
        notes.append(f"The thinking of {answers} left out: OpenAI chat has no place for it.")
    return notes
