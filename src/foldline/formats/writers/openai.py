"""Writer for OpenAI chat: the messages of the next request, as `foldline view --json` shows them."""

import json

from foldline.context.calls import paired
from foldline.context.numbers import many
from foldline.context.view import IN_VIEW
from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import AssistantMessage, BaseMessage

from ..export import Exported, Original


def write_openai(original: Original) -> Exported:
    """An object with `messages`, and `items` that say what each item of the view is: which is a summary
    shows nowhere else. A list of messages holds no history besides them.
    """
    view = original.projection.view
    document = {
        "messages": to_openai(paired(item.message for item in view), OPENAI),
        "items": [{"index": item.index, "kind": item.kind, "fate": item.fate} for item in view],
    }
    name = f"{original.header.id}.json"
    data = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    return Exported({name: data}, name, tuple(_notes(original)))


def _notes(original: Original) -> list[str]:
    notes = []
    gone = sum(
        original.projection.fate(entry.index).kind not in IN_VIEW
        for entry in original.entries
        if isinstance(entry, BaseMessage)
    )
    if gone:
        are = many(gone, "message is", "messages are")
        notes.append(f"{are} not in the view, and so not in these messages: --whole writes all of them.")
    thoughts = sum(
        bool(item.message.thinking)
        for item in original.projection.view
        if isinstance(item.message, AssistantMessage)
    )
    if thoughts:
        answers = many(thoughts, "answer is", "answers are")
        notes.append(f"The thinking of {answers} left out: OpenAI chat has no place for it.")
    return notes
