"""What stands in the view for content that is hidden, clipped or missing.

The texts are stable: prompt caches depend on it.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from foldline.protocol import BaseMessage, TextPart, ToolCallPart, ToolResultMessage, text_parts

from .tokens import estimate_tokens

_HIDDEN = "[foldline: result hidden to save context"
INTERRUPTED = "[foldline: interrupted: this tool call has no result; it may or may not have run]"


def hidden_stub(result: ToolResultMessage) -> str:
    """The stub of a hidden tool result: unmistakably a stub, and how to read the original back."""
    what = f"{result.name}, {result.details.brief}" if result.details.brief else result.name
    return f"{_HIDDEN}; it was entry {result.index} ({what}). history_read({result.index}) shows it again.]"


def is_hidden_stub(text: str) -> bool:
    return text.startswith(_HIDDEN)


def interrupted_result(call: ToolCallPart, index: int) -> ToolResultMessage:
    """The stated result of a call that has none, for the API's sake. `index` is the calling message's."""
    return ToolResultMessage(
        index=index, call_id=call.call_id, name=call.name, is_error=True, parts=text_parts(INTERRUPTED)
    )


def clip(text: str, max_tokens: int, index: int) -> str:
    """Head and tail of a text within a budget of tokens, and how to recall the rest."""
    total = estimate_tokens(text)
    if total <= max_tokens:
        return text
    note = (
        f"\n[foldline: clipped, about {total - max_tokens} of {total} tokens left out; "
        f"history_read({index}) shows all of entry {index}]\n"
    )
    characters = int(len(text) * (max_tokens - estimate_tokens(note)) / total)
    while characters > 0:
        tail = characters - characters * 2 // 3
        clipped = text[: characters - tail] + note + text[-tail:]
        if estimate_tokens(clipped) <= max_tokens:
            return clipped
        characters = characters * 9 // 10  # its ends are denser than its middle
    return note


_M = TypeVar("_M", bound=BaseMessage)


def with_text(message: _M, text: str) -> _M:
    """The message with its text replaced; images go, calls and thinking stay."""
    others = tuple(part for part in message.parts if part.type in ("tool_call", "thinking"))
    return message.model_copy(update={"parts": (TextPart(text=text), *others)})


def clipped(messages: Iterable[BaseMessage], limits: Mapping[int, int]) -> list[BaseMessage]:
    """The messages, the texts of these clipped to their limit, in tokens."""
    return [
        with_text(message, clip(message.text, limits[message.index], message.index))
        if message.index in limits
        else message
        for message in messages
    ]
