"""A conversation, as labelled text for a model and as statements for the digest.

Also recognises user messages that only agree or that refer to the message before them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextOrigin,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.text.patterns import lazy_pattern
from foldline.text.shorten import shorten
from foldline.view.items import Messages
from foldline.view.units import calls_of, results_by_call

from .cues import AGREEING_PHRASES, AGREEING_WORDS, POINTS_BACK
from .facts import scripted_commands
from .todos import Todo, todo_list

RESULT_CHARACTERS = 4_000
"""Maximum length of a tool result, in characters.

This is enough for an error and its context, but not for a file.
"""
ARGUMENT_CHARACTERS = 800
"""Maximum length of an argument, in characters.

This is enough for a path or a command, but not for the content of a file.
"""

_FORGED_LABEL = lazy_pattern(
    r"^(\[(?:User|Assistant|Tool result|Developer)\b)", re.MULTILINE | re.IGNORECASE
)
"""Matches a label inside text.

The label is then indented, so that quoted output cannot pass for the user's words.
"""


def serialise(messages: Iterable[BaseMessage]) -> str:
    """Return the messages as text, with a labelled block for each part."""
    blocks = []
    for message in messages:
        for label, text in _parts(message):
            if text.strip():
                harmless = _FORGED_LABEL.sub(r" \1", text)
                blocks.append(f"[{label}]: {harmless}")
    return "\n\n".join(blocks)


def _parts(message: BaseMessage) -> Iterator[tuple[str, str]]:
    match message:
        case UserMessage(origin="shell"):
            yield (
                "Tool result",
                f"shell of the user: {shorten(message.text, RESULT_CHARACTERS)}",
            )
        case UserMessage(origin="machine"):
            yield "Developer", message.text + _images(message)
        case UserMessage():
            yield "User", message.typed + _images(message)
            for part in message.attached:
                data = shorten(part.text.strip(), RESULT_CHARACTERS)
                yield "Tool result", f"{_ATTACHED[part.origin]}: {data}"
        case AssistantMessage():
            yield "Assistant thinking", shorten(message.thinking, RESULT_CHARACTERS)
            yield "Assistant", message.text
            yield "Assistant tool calls", "\n".join(map(_call_text, message.calls))
        case ToolResultMessage():
            failed = " (failed)" if message.is_error else ""
            text = shorten(message.text, RESULT_CHARACTERS) + _images(message)
            yield "Tool result", f"{message.name}{failed}: {text}"
        case DeveloperMessage() | SystemMessage():
            yield "Developer", message.text


_ATTACHED: dict[TextOrigin, str] = {
    "command": "expansion of the command",
    "resource": "attached from a tool server",
    "piped": "piped in by the user",
}


def _images(message: BaseMessage) -> str:
    count = sum(isinstance(part, ImagePart) for part in message.parts)
    if not count:
        return ""
    return f"\n[{count} image{'s' if count > 1 else ''}]"


def _call_text(call: ToolCallPart) -> str:
    arguments = call.parsed()
    if not arguments:
        return f"{call.name}({shorten(call.arguments, ARGUMENT_CHARACTERS)})"
    texts = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else repr(value)
        texts.append(f"{name}={shorten(text, ARGUMENT_CHARACTERS)!r}")
    return f"{call.name}({', '.join(texts)})"


# -- statements --------------------------------------------------------------------------------------

StatementKind = Literal["user", "assistant", "thinking", "calls", "result", "developer"]


class CallSummary(NamedTuple):
    """The name of the tool that is called, and the subject of the call."""

    name: str
    about: str
    """The command, pattern or path of the call; may be empty."""
    todos: tuple[Todo, ...] | None = None
    """The list in a call to a todo tool; None for other calls."""


class Statement(NamedTuple):
    """One block in a conversation: a message, a group of calls, or a result."""

    kind: StatementKind
    text: str = ""
    calls: tuple[CallSummary, ...] = ()
    """The calls in a statement of kind `calls`.

    The results that follow are in the same order.
    """
    failed: bool = False
    """Whether the result is an error."""


def statements_of(messages: Messages) -> list[Statement]:
    """Return the statements in order, with results right after their calls.

    System messages are left out.
    """
    results = results_by_call(messages)
    answered = {call.call_id for message in messages for call in calls_of(message)}
    statements: list[Statement] = []
    for message in messages:
        statements += _words_of(message)
        for call in calls_of(message):
            if call.call_id in results:
                statements.append(_result(results[call.call_id]))
        if isinstance(message, ToolResultMessage) and message.call_id not in answered:
            statements.append(_result(message))
    return [
        statement
        for statement in statements
        if statement.text.strip() or statement.calls
    ]


def _result(message: ToolResultMessage) -> Statement:
    return Statement("result", message.text, failed=message.is_error)


def _words_of(message: BaseMessage) -> Iterator[Statement]:
    match message:
        case UserMessage(origin="typed"):
            yield Statement("user", message.typed)
            yield Statement("result", message.attached_text)
        case UserMessage(origin="shell"):
            yield Statement("result", message.text)
        case UserMessage() | DeveloperMessage():
            yield Statement("developer", message.text)
        case AssistantMessage():
            yield Statement("thinking", message.thinking)
            yield Statement("assistant", message.text)
            yield Statement("calls", calls=tuple(map(_call_summary, message.calls)))


def summaries_in(messages: Messages) -> str:
    """Return the text of the summaries among these messages."""
    summaries = (message for message in messages if isinstance(message, SystemMessage))
    return "\n\n".join(
        message.text for message in summaries if message.origin == "summary"
    )


def _call_summary(call: ToolCallPart) -> CallSummary:
    arguments = call.parsed()
    return CallSummary(call.name, _subject(arguments), todo_list(arguments))


_SUBJECT_ARGUMENTS = (
    "command",
    "cmd",
    "pattern",
    "query",
    "path",
    "file_path",
    "filePath",
    "filename",
    "file",
    "url",
)
"""Names of arguments, the most informative first. For a search, the pattern comes before the folder."""


def _subject(arguments: dict[str, object]) -> str:
    commands = "\n".join(scripted_commands(arguments))
    if commands:
        return commands
    for key in (*_SUBJECT_ARGUMENTS, *arguments):
        match arguments.get(key):
            case str(value) if value.strip():
                return value
            case list() as words if words and all(
                isinstance(word, str) for word in words
            ):
                return " ".join(words)
    return ""


# -- agreement ---------------------------------------------------------------------------------------

_LONGEST_CONSENT = 120
"""Maximum length, in characters, of a message that only agrees or refers back.

Longer messages have content of their own.
"""
_WORD = lazy_pattern(r"[^\W_]+")
_FEW_WORDS = 12
"""Maximum number of words in a message that refers to the previous message."""
_FEW_CHARACTERS = 24
"""The same limit in characters, for scripts without spaces between words."""


def is_consent(text: str) -> bool:
    """Return whether a message only agrees or asks the assistant to continue.

    English, Chinese, Japanese and Korean are supported.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST_CONSENT:
        return False
    words = _WORD.findall(AGREEING_PHRASES.sub(" ", text.casefold()))
    return AGREEING_WORDS.issuperset(words)


def needs_context(text: str) -> bool:
    """Return whether a message cannot be understood without the answer before it.

    Such a message only agrees or refers to the answer: "option 2, but without the cache".
    """
    if is_consent(text):
        return True
    if len(text) > _LONGEST_CONSENT or len(text.split()) > _FEW_WORDS:
        return False
    is_short = text.isascii() or len(text) <= _FEW_CHARACTERS
    return is_short and POINTS_BACK.search(text) is not None
