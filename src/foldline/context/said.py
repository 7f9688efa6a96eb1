"""What was said, in one form: a history's messages, or a conversation as labelled text, as a list of `Said`.

The labels are those of the summary request (DESIGN §7), each at the start of a line and followed by a colon.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

Kind = Literal["user", "assistant", "thinking", "calls", "result", "developer"]


class Call(NamedTuple):
    name: str
    about: str
    """What the call is about: its command, pattern or path; may be empty."""


class Said(NamedTuple):
    kind: Kind
    text: str = ""
    calls: tuple[Call, ...] = ()
    """Of kind `calls` only. The results that follow answer them in this order."""
    failed: bool = False
    """Whether a result is known to be an error; the text form does not tell."""


def said_in(messages: Sequence[BaseMessage]) -> list[Said]:
    """Messages, in order; results stand right behind their calls. System messages say nothing here."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    found: list[Said] = []
    answered: set[str] = set()
    for message in messages:
        match message:
            case UserMessage(origin="typed"):
                found += [Said("user", message.typed), Said("result", message.piped)]
            case UserMessage():
                found.append(Said("result" if message.origin == "shell" else "developer", message.text))
            case DeveloperMessage():
                found.append(Said("developer", message.text))
            case AssistantMessage():
                found += _assistant(message)
                for call in message.calls:
                    if (result := results.get(call.call_id)) is not None:
                        answered.add(call.call_id)
                        found.append(Said("result", result.text, failed=result.is_error))
            case ToolResultMessage():
                if message.call_id not in answered:
                    found.append(Said("result", message.text, failed=message.is_error))
            case _:
                pass
    return [said for said in found if said.text.strip() or said.calls]


def summaries_in(messages: Sequence[BaseMessage]) -> str:
    """The text of summaries among the messages, oldest first; empty where there are none."""
    return "\n\n".join(
        message.text
        for message in messages
        if isinstance(message, SystemMessage) and message.origin == "summary"
    )


def _assistant(message: AssistantMessage) -> Iterator[Said]:
    if message.thinking:
        yield Said("thinking", message.thinking)
    yield Said("assistant", message.text)
    if message.calls:
        yield Said("calls", calls=tuple(_call(part) for part in message.calls))


def _call(part: ToolCallPart) -> Call:
    return Call(part.name, _about(part.parsed()))


# -- the text form -----------------------------------------------------------------------------------

_LABELS: dict[str, Kind] = {
    "User": "user",
    "Assistant": "assistant",
    "Assistant thinking": "thinking",
    "Assistant tool calls": "calls",
    "Tool result": "result",
    "Developer": "developer",
}
_LABEL = re.compile(rf"^\[({'|'.join(_LABELS)})\]:?[ \t]*", re.MULTILINE)
# `name(` … `)` on one line: one call. Its arguments are `key=` and a quoted value, perhaps shortened.
_CALL_LINE = re.compile(r"[ \t]*([A-Za-z_][\w.-]{0,80})\((.*)\)[ \t]*", re.DOTALL)
_ARGUMENT = re.compile(r"([A-Za-z_]\w{0,60})=(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')")
# `name: ` or `name (failed): ` before a result, where a call of that name came before it.
_RESULT = re.compile(r"([A-Za-z_][\w.-]{0,80})( \(failed\))?:[ \t]*")


def said_in_text(text: str) -> list[Said]:
    """A conversation as text, in order. What stands before the first label counts as the user's."""
    found: list[Said] = []
    tools: set[str] = set()
    for kind, block in _blocks(text):
        if not block.strip():
            continue
        if kind == "calls":
            calls = tuple(call for line in block.splitlines() for call in _call_line(line))
            tools.update(call.name for call in calls)
            found += [Said("calls", calls=calls)] if calls else []
        elif kind == "result" and (name := _RESULT.match(block)) and name[1] in tools:
            found.append(Said("result", block[name.end() :].strip(), failed=name[2] is not None))
        else:
            found.append(Said(kind, block.strip()))
    return found


def _blocks(text: str) -> Iterator[tuple[Kind, str]]:
    kind: Kind = "user"
    start = 0
    for label in _LABEL.finditer(text):
        yield kind, text[start : label.start()]
        kind, start = _LABELS[label[1]], label.end()
    yield kind, text[start:]


def _call_line(line: str) -> Iterator[Call]:
    match = _CALL_LINE.fullmatch(line)
    if match is None:
        return
    arguments: dict[str, object] = {}
    for key, value in _ARGUMENT.findall(match[2]):
        try:
            arguments.setdefault(key, ast.literal_eval(value))
        except (ValueError, SyntaxError):
            arguments.setdefault(key, value[1:-1])
    yield Call(match[1], _about(arguments))


_ABOUT = ("command", "cmd", "pattern", "query", "path", "file_path", "filePath", "filename", "file", "url")
"""Argument names, the most telling first: a search is about its pattern, not about its folder."""


def _about(arguments: dict[str, object]) -> str:
    for key in (*_ABOUT, *arguments):
        match arguments.get(key):
            case str(value) if value.strip():
                return value
            case list() as words if words and all(isinstance(word, str) for word in words):
                return " ".join(words)
            case _:
                pass
    return ""
