"""Writer for OpenAI chat.

The messages in the view are written in the format of the chat completions API.
"""

import json
from collections.abc import Iterable

from foldline.formats.export import Exported, Original
from foldline.llm.dialect import OPENAI, ChatMessage, to_openai
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.text.numbers import many
from foldline.view.calls import paired
from foldline.view.items import IN_VIEW, is_preamble

OUT_OF_VIEW = "{messages} not in the view, and therefore left out. Use --whole to write all messages."
NO_THINKING = (
    "Left out: the thinking of {answers}, because OpenAI chat has no field for it."
)


def write_openai(original: Original) -> Exported:
    """Write an object with two lists: `messages`, and `items` with the source of each message."""
    view = original.projection.view
    document = {
        "messages": to_openai(paired(item.message for item in view), OPENAI),
        "items": [
            {"index": item.index, "kind": item.kind, "fate": item.fate} for item in view
        ],
    }
    data = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    return Exported(data, tuple(_notes(original)))


def as_sent(messages: Iterable[BaseMessage]) -> list[ChatMessage]:
    """Return messages as other agents send them.

    They have the roles that these agents use. Each part of a prompt becomes a separate message.
    """
    return to_openai(
        [part for message in messages for part in _in_parts(message)], OPENAI
    )


def _in_parts(message: BaseMessage) -> list[BaseMessage]:
    if isinstance(message, AssistantMessage | ToolResultMessage):
        return [message]
    is_system = (
        message.role == "system"
        if isinstance(message, DeveloperMessage)
        else is_preamble(message)
    )
    kind = DeveloperMessage if is_system else UserMessage
    return [kind(index=message.index, parts=(part,)) for part in message.parts]


def _notes(original: Original) -> list[str]:
    projection = original.projection
    messages = [entry for entry in original.entries if isinstance(entry, BaseMessage)]
    out_of_view = sum(
        projection.fate(message.index).kind not in IN_VIEW for message in messages
    )
    thoughts = sum(
        bool(item.message.thinking)
        for item in projection.view
        if isinstance(item.message, AssistantMessage)
    )
    notes = []
    if out_of_view:
        are = many(out_of_view, "message is", "messages are")
        notes.append(OUT_OF_VIEW.format(messages=are))
    if thoughts:
        notes.append(NO_THINKING.format(answers=many(thoughts, "answer")))
    return notes
