"""A conversation as text, for a summariser to read.

Long results and arguments are shortened in the middle.
"""

import re
from collections.abc import Iterable, Sequence

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

RESULT_CHARACTERS = 4_000
"""Of one tool result: enough for an error and its surroundings, too little for a whole file."""
ARGUMENT_CHARACTERS = 800
"""Of one argument: a path or a command whole, the body of a written file not."""

_FORGED = re.compile(r"^(\[(?:User|Assistant|Tool result|Developer)\b)", re.MULTILINE | re.IGNORECASE)
"""A label within a text: indented, so that quoted output cannot pass for what the user said."""


def serialise(messages: Sequence[BaseMessage]) -> str:
    """The messages with their labels, one block each, an empty line between them."""
    return "\n\n".join(labelled_blocks(messages))


def labelled_blocks(messages: Iterable[BaseMessage]) -> list[str]:
    """What the messages say, a block with its label for each thing said."""
    return [block for message in messages for block in _blocks(message)]


def shorten(text: str, limit: int) -> str:
    """The text, its middle left out where it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{text[-tail:]}"


def _blocks(message: BaseMessage) -> list[str]:
    match message:
        case UserMessage(origin="shell"):
            ran = shorten(message.text, RESULT_CHARACTERS)
            return _labelled("Tool result", f"shell of the user: {ran}")
        case UserMessage(origin="machine"):
            return _labelled("Developer", message.text + _images(message))
        case UserMessage():
            data = shorten(message.piped.strip(), RESULT_CHARACTERS)
            return [
                *_labelled("User", message.typed + _images(message)),
                *_labelled("Tool result", f"piped in by the user: {data}" if data else ""),
            ]
        case AssistantMessage():
            calls = "\n".join(_call(call) for call in message.calls)
            return [
                *_labelled("Assistant thinking", shorten(message.thinking, RESULT_CHARACTERS)),
                *_labelled("Assistant", message.text),
                *_labelled("Assistant tool calls", calls),
            ]
        case ToolResultMessage():
            failed = " (failed)" if message.is_error else ""
            text = shorten(message.text, RESULT_CHARACTERS) + _images(message)
            return _labelled("Tool result", f"{message.name}{failed}: {text}")
        case DeveloperMessage() | SystemMessage():
            return _labelled("Developer", message.text)
        case _:
            return []


def _labelled(label: str, text: str) -> list[str]:
    harmless = _FORGED.sub(r" \1", text)
    return [f"[{label}]: {harmless}"] if text.strip() else []


def _images(message: BaseMessage) -> str:
    count = sum(isinstance(part, ImagePart) for part in message.parts)
    return f"\n[{count} image{'s' if count > 1 else ''}]" if count else ""


def _call(call: ToolCallPart) -> str:
    arguments = call.parsed()
    if not arguments:
        return f"{call.name}({shorten(call.arguments, ARGUMENT_CHARACTERS)})"
    shown = ", ".join(
        f"{name}={shorten(value if isinstance(value, str) else repr(value), ARGUMENT_CHARACTERS)!r}"
        for name, value in arguments.items()
    )
    return f"{call.name}({shown})"
