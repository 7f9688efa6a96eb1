"""Mentions: the facts in one message, each with its source.

Whether a fact counts depends on the source that mentions it. The rules, by kind of fact:

- **constraint**: sentences by users and in developer messages that give commands or forbid something, and
constraints quoted in an earlier summary;
- **error**: failures reported by a command or a failed call, at most `ERRORS` per output, and failures quoted
by a user or the assistant. Files and searches that contain the word "error" do not report failures. An output
has less weight once the same command has been run again;
- **command**: commands with an effect that were run or mentioned; `ls`, `grep`, `cd` and similar commands are
left out;
- **path**: files accessed by calls, named in commands or mentioned in text. Directory listings do not count;
- **todo**: items that are still open at the end, in a task list, a note or the newest list of a todo tool;
- **number**, **identifier**: if the user or the assistant mentions them, or if they are at the end of a
command's newest output. Files do not count, because a file contains hundreds of both.

Fenced code is left out, unless a user pastes an error.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.text.patterns import lazy_pattern
from foldline.view.units import calls_of

from . import facts
from .cues import ERROR_CLASS, RUNS_COMMANDS, UNINFORMATIVE_FAILURE
from .shell_lines import commands_of, script
from .todos import Todo, todo_list

FactKind = Literal[
    "path", "command", "error", "number", "identifier", "constraint", "todo"
]

ERRORS = 3
"""Maximum number of failures taken from one output.

Compilers name the cause first, tracebacks name it last.
"""
ENDING = 1_500
"""Number of characters at the end of an output in which numbers and names are searched for.

This is about twenty lines.
"""
OUTCOMES = 3
"""Maximum number of numbers taken from the end of an output, and also of names.

The last ones are used, because a run reports its result at the end: `31 passed`. Progress messages and data
come earlier.
"""
SEARCHED = 40_000
"""Number of characters at each end of an output in which failures are searched for.

No terminal shows more.
"""


class Voice(IntEnum):
    """The source of a mention. Smaller values have more weight."""

    USER = 0
    ASSISTANT = 1
    CHANGED = 2
    """A call that changed the file."""
    DONE = 3
    """A call that named the fact or reported the error."""
    SEEN = 4
    """An output that was never referred to, or that was replaced by a newer run's output."""


class Mention(NamedTuple):
    """A fact mentioned in one message."""

    kind: FactKind
    text: str
    voice: Voice


class MentionFinder:
    """Finds the mentions in a conversation's messages.

    All messages are needed in advance, because a result has less weight once its command has been run again,
    and a todo may be completed later.
    """

    def __init__(self, messages: Iterable[BaseMessage]) -> None:
        self._command_lines: dict[str, tuple[str, ...]] = {}
        """The command lines run by each call, by call id."""
        self._commands: dict[str, tuple[str, ...]] = {}
        """The commands in these lines that have an effect, by call id."""
        self._newest_call: dict[tuple[str, ...], str] = {}
        """Id of the last call that ran these commands."""
        spoken = []
        listed: tuple[str, ...] = ()
        for message in messages:
            spoken.append(_spoken_text(message))
            for call in calls_of(message):
                todos = todo_list(call.parsed())
                listed = listed if todos is None else _open_items(todos)
                lines = tuple(facts.command_arguments(call.parsed()))
                commands = commands_of(lines)
                self._command_lines[call.call_id] = lines
                self._commands[call.call_id] = commands
                self._newest_call[commands] = call.call_id
        self._open_todos = {*facts.todos("\n".join(spoken)), *listed}

    def mentions_in(self, message: BaseMessage) -> Iterator[Mention]:
        """Yield the mentions in one message."""
        yield from self._todos_in(message)
        match message:
            case UserMessage(origin="typed"):
                yield from _constraints(message.typed)
                yield from _errors(message.typed, Voice.USER)
                yield from _mentions_in_prose(message.typed, Voice.USER)
                yield from _errors(message.attached_text, Voice.DONE)
            case UserMessage(origin="shell"):
                yield from _errors(message.text, Voice.DONE)
                yield from _outcomes(message.text)
            case DeveloperMessage() | UserMessage():
                yield from _constraints(message.text)
                yield from _mentions_in_prose(message.text, Voice.ASSISTANT)
            case SystemMessage():
                yield from _constraints("\n".join(_standing_constraints(message.text)))
                yield from _mentions_in_prose(
                    LEDGER.sub("", message.text), Voice.ASSISTANT
                )
            case AssistantMessage():
                yield from _mentions_in_prose(message.text, Voice.ASSISTANT)
                for call in message.calls:
                    yield from self._mentions_in_call(call.call_id)
            case ToolResultMessage():
                yield from _touched_files(message)
                yield from self._mentions_in_output(message)

    def _todos_in(self, message: BaseMessage) -> Iterator[Mention]:
        items = list(facts.todos(_spoken_text(message)))
        for call in calls_of(message):
            items += _open_items(todo_list(call.parsed()) or ())
        voice = Voice.USER if isinstance(message, UserMessage) else Voice.ASSISTANT
        return _mentions("todo", filter(self._open_todos.__contains__, items), voice)

    def _mentions_in_call(self, call_id: str) -> Iterator[Mention]:
        yield from _mentions("command", self._commands[call_id], Voice.DONE)
        for line in self._command_lines[call_id]:
            yield from _mentions("path", _files(script(line)), Voice.DONE)

    def _mentions_in_output(self, result: ToolResultMessage) -> Iterator[Mention]:
        commands = self._commands.get(result.call_id)
        runs_commands = commands is None and RUNS_COMMANDS.search(result.name)
        if commands and self._newest_call[commands] != result.call_id:
            yield from _errors(result.text, Voice.SEEN)
        elif commands or runs_commands:
            yield from _errors(result.text, Voice.DONE)
            yield from _outcomes(result.text)
        elif result.is_error:
            yield from _errors(result.text, Voice.DONE)


def _spoken_text(message: BaseMessage) -> str:
    """Return the words of the user, the assistant or the program; empty for output."""
    if isinstance(message, UserMessage):
        return message.typed
    return "" if isinstance(message, ToolResultMessage) else message.text


def _open_items(todos: Iterable[Todo]) -> tuple[str, ...]:
    return tuple(todo.text[: facts.LONGEST] for todo in todos if todo.is_open)


def _touched_files(result: ToolResultMessage) -> Iterator[Mention]:
    for touch in result.details.files:
        if not touch.path.endswith("/"):  # otherwise it is a listed folder
            voice = Voice.CHANGED if touch.action == "modified" else Voice.DONE
            yield Mention("path", touch.path, voice)


LEDGER = lazy_pattern(r"<(ledger|pinned-lines)>\n.*?\n</\1>", re.DOTALL)
"""Matches the ledger in a summary, which only quotes facts mentioned elsewhere."""

_STANDING_OPEN = "<standing-constraints>\n"
_STANDING_CLOSE = "\n</standing-constraints>"


def _standing_constraints(summary: str) -> Iterator[str]:
    """Yield the constraints quoted in an earlier summary."""
    start = summary.find(_STANDING_OPEN)
    while start >= 0:
        end = summary.find(_STANDING_CLOSE, start + len(_STANDING_OPEN))
        if end < 0:
            return
        yield summary[start + len(_STANDING_OPEN) : end]
        start = summary.find(_STANDING_OPEN, end)


def _mentions(kind: FactKind, texts: Iterable[str], voice: Voice) -> Iterator[Mention]:
    return (Mention(kind, text, voice) for text in texts)


def _constraints(text: str) -> Iterator[Mention]:
    return _mentions("constraint", facts.constraints(text), Voice.USER)


def _mentions_in_prose(text: str, voice: Voice) -> Iterator[Mention]:
    text = facts.prose(text)
    yield from _mentions("command", commands_of(facts.commands(text)), voice)
    yield from _mentions("path", _files(text), voice)
    yield from _mentions("number", _numbers(text), voice)
    yield from _mentions("identifier", _names(text), voice)
    if voice is not Voice.USER:
        yield from _errors(text, voice)


def _outcomes(output: str) -> Iterator[Mention]:
    """Yield the last numbers and names in an output.

    Lines that report failures are yielded separately.
    """
    ending = output
    if len(output) > ENDING:
        _, _, ending = output[-ENDING:].partition("\n")
    failures = frozenset(facts.errors(ending))
    ending = "\n".join(
        line for line in ending.splitlines() if line.strip() not in failures
    )
    numbers = [number for number in _numbers(ending) if not _DURATION.search(number)]
    yield from _mentions("number", numbers[-OUTCOMES:], Voice.SEEN)
    yield from _mentions("identifier", _names(ending)[-OUTCOMES:], Voice.SEEN)


def _numbers(text: str) -> list[str]:
    numbers = facts.numbers(_STACK_FRAME.sub("", text))
    return [number for number in numbers if not facts.is_path(number.split(":")[0])]


def _names(text: str) -> Sequence[str]:
    """Return the identifiers that are not part of a path or stack trace."""
    return facts.identifiers(_PATH_RUN.sub(_blank_path, _STACK_FRAME.sub("", text)))


def _blank_path(run: re.Match[str]) -> str:
    return " " if "/" in run[0] else run[0]


_DURATION = lazy_pattern(r"\d ?(?:[mµn]?s|sec|seconds?|min|minutes?)\Z|\btime\b|\"")
"""Matches a duration, or a field in JSON."""
_STACK_FRAME = lazy_pattern(r"^[ \t]{1,40}at [^\n]{1,2000}$", re.MULTILINE)
"""Matches a frame in a JavaScript or Java stack trace.

A trace has dozens of frames, each naming a position in the code.
"""
_PATH_RUN = lazy_pattern(r"[A-Za-z0-9_./~@+\-]++")


def _errors(text: str, voice: Voice) -> Iterator[Mention]:
    failures = facts.errors(facts.both_ends(text, SEARCHED))
    lines = [line for line in failures if not UNINFORMATIVE_FAILURE.match(line)]
    first = lines[: ERRORS - 1]
    last = lines[ERRORS - 1 :][-1:]
    return _mentions("error", first + last, voice)


_LONG_MESSAGE = 12
"""Minimum length, in characters, of an error message that identifies the error without class and position."""


def error_message(line: str) -> str:
    """Return the message of an error, without the error's class and position.

    If the message is short, returns the entire line.
    """
    sign = ERROR_CLASS.search(line)
    message = line[sign.end() :] if sign else ""
    return message if len(message) >= _LONG_MESSAGE else line


def _files(text: str) -> Iterator[str]:
    return filter(_is_file, facts.paths(text))


def _is_file(path: str) -> bool:
    """Return whether a path in prose refers to a file.

    `/compact` is a command, while `read/write` and `a.py/b.py` are prose.
    """
    *folders, name = path.rstrip("/").split("/")
    if path == "/dev/null" or ".." in name:
        return False
    if any("." in folder and facts.is_path(folder) for folder in folders):
        return False
    is_rooted = path.startswith(("/", "~/")) and len(folders) > 1
    return is_rooted or "." in name.strip(".") or facts.is_path(name)
