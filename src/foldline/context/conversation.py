"""A conversation as labelled text for a model to read, such text read back, and tags around data."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from foldline.protocol import (
    CALLED_CLOSE,
    CALLED_OPEN,
    PIPED_CLOSE,
    PIPED_OPEN,
    RESOURCE_CLOSE,
    RESOURCE_OPEN,
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .facts import scripted_commands
from .todos import Todo, todo_list

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
            what = next(
                (what for opening, what in _BELOW if data.startswith(opening)), "piped in by the user"
            )
            return [
                *_labelled("User", message.typed + _images(message)),
                *_labelled("Tool result", f"{what}: {data}" if data else ""),
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


_BELOW = ((CALLED_OPEN.strip(), "the command called"), (RESOURCE_OPEN.strip(), "attached from a server"))
_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
"""What a reader passes over within a tag."""


def delimited(tag: str, text: str) -> str:
    """The text between its tags, as data."""
    return f"<{tag}>\n{defused(text, tag)}\n</{tag}>"


def with_piped(prompt: str, data: str) -> str:
    """A prompt and, below it, what was piped in. It can pass neither for the user's words nor for a note of
    ours, in which machine text stands where a server takes it as the user's."""
    return f"{prompt}{PIPED_OPEN}{defused(data.rstrip(), 'stdin', 'system-note')}{PIPED_CLOSE}"


def with_called(prompt: str, source: str, body: str) -> str:
    """A prompt that calls a command, and below it, marked alike, what that stands for, from this file."""
    return f"{prompt}{_marked(CALLED_OPEN, source, body)}{CALLED_CLOSE}"


def as_resource(source: str, text: str) -> str:
    """What a tool server has of something, marked as that."""
    return f"{_marked(RESOURCE_OPEN, source, text)}{RESOURCE_CLOSE}"


def _marked(opening: str, source: str, body: str) -> str:
    safe = defused(body.strip(), "slash-command", "resource", "stdin", "system-note")
    named = source.replace('"', "'")
    return f'{opening}{named}">\n{safe}'


def defused(text: str, *tags: str) -> str:
    """The text with these tags in square brackets, opening and closing ones, in any case, with attributes or
    blanks within. Linear in the text."""
    return _tags(tags).sub(lambda found: f"[{found[1]}{']' if found[2] else ''}", text)


@cache
def _tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, tags))
    return re.compile(rf"<([{_BLANK}/]*+(?:{names})(?![\w-])[^<>\n]{{0,200}}+)(>?)", re.IGNORECASE)


Kind = Literal["user", "assistant", "thinking", "calls", "result", "developer"]


class Call(NamedTuple):
    name: str
    about: str
    """What the call is about: its command, pattern or path; may be empty."""
    todos: tuple[Todo, ...] | None = None
    """The list a todo tool's call leaves; None for other calls."""


class Statement(NamedTuple):
    kind: Kind
    text: str = ""
    calls: tuple[Call, ...] = ()
    """Of kind `calls` only. The results that follow answer them in this order."""
    failed: bool = False
    """Whether a result is known to be an error; the text form does not say."""


def statements_of(messages: Sequence[BaseMessage]) -> list[Statement]:
    """Messages, in order; results stand right behind their calls. System messages say nothing here."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    found: list[Statement] = []
    answered: set[str] = set()
    for message in messages:
        match message:
            case UserMessage(origin="typed"):
                found += [Statement("user", message.typed), Statement("result", message.piped)]
            case UserMessage():
                found.append(Statement("result" if message.origin == "shell" else "developer", message.text))
            case DeveloperMessage():
                found.append(Statement("developer", message.text))
            case AssistantMessage():
                found += _assistant(message)
                for call in message.calls:
                    if (result := results.get(call.call_id)) is not None:
                        answered.add(call.call_id)
                        found.append(Statement("result", result.text, failed=result.is_error))
            case ToolResultMessage():
                if message.call_id not in answered:
                    found.append(Statement("result", message.text, failed=message.is_error))
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


def _assistant(message: AssistantMessage) -> Iterator[Statement]:
    if message.thinking:
        yield Statement("thinking", message.thinking)
    yield Statement("assistant", message.text)
    if message.calls:
        yield Statement("calls", calls=tuple(_called(part.name, part.parsed()) for part in message.calls))


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


def statements_in_text(text: str) -> list[Statement]:
    """A conversation as text, in order. What stands before the first label counts as the user's."""
    found: list[Statement] = []
    tools: set[str] = set()
    for kind, block in _labelled_parts(text):
        if not block.strip():
            continue
        if kind == "calls":
            calls = tuple(call for line in block.splitlines() for call in _call_line(line))
            tools.update(call.name for call in calls)
            found += [Statement("calls", calls=calls)] if calls else []
        elif kind == "result" and (name := _RESULT.match(block)) and name[1] in tools:
            found.append(Statement("result", block[name.end() :].strip(), failed=name[2] is not None))
        else:
            found.append(Statement(kind, block.strip()))
    return found


def _labelled_parts(text: str) -> Iterator[tuple[Kind, str]]:
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
            said = ast.literal_eval(value)
            # A list stands in the text as the text of itself.
            arguments.setdefault(key, ast.literal_eval(said) if key == "todos" else said)
        except (ValueError, SyntaxError):
            arguments.setdefault(key, value[1:-1])
    yield _called(match[1], arguments)


def _called(name: str, arguments: dict[str, object]) -> Call:
    return Call(name, _about(arguments), todo_list(arguments))


_ABOUT = ("command", "cmd", "pattern", "query", "path", "file_path", "filePath", "filename", "file", "url")
"""Argument names, the most telling first: a search is about its pattern, not about its folder."""


def _about(arguments: dict[str, object]) -> str:
    if scripted := "\n".join(scripted_commands(arguments)):
        return scripted
    for key in (*_ABOUT, *arguments):
        match arguments.get(key):
            case str(value) if value.strip():
                return value
            case list() as words if words and all(isinstance(word, str) for word in words):
                return " ".join(words)
            case _:
                pass
    return ""
