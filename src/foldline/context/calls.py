"""Titles of tool calls, of our tools and of other agents'; which calls wait; how answers ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Entry,
    NoticeRecord,
    RequestRecord,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .facts import PATCHED, PLACE_ARGUMENTS, patches, scripted_commands
from .outline import MessageOutline
from .todos import current_todo, todo_list
from .view import IN_VIEW, ViewItem, extends, interrupted_result

if TYPE_CHECKING:
    from .projection import Projection

_AT_THE_END = 0.9
"""Share of the window from which an answer was cut off by the window and not by its own limit."""
_SEARCHES = ("pattern", "query")
_WORDS = ("command", "cmd", *_SEARCHES, "url", "prompt", "description", "name")


class Subject(NamedTuple):
    """The argument that says most. Foreign text: clean it before it is shown."""

    text: str
    kind: Literal["path", "search", "words"]


def subject_of(call: ToolCallPart) -> Subject:
    """The path a call acts on, else its command or pattern, else its first text; of a todo list, the item at
    hand; of a script or a patch, what it calls or changes; of a prompt, its first line."""
    arguments = call.parsed()
    todos = todo_list(arguments)
    if todos is not None:
        return Subject(current_todo(todos), "words")
    if isinstance(source := arguments.get("input"), str) and (found := _in_source(source, arguments)):
        return found
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    paths = () if any(name in texts for name in _SEARCHES) else PLACE_ARGUMENTS
    for name in (*paths, *_WORDS, *texts):
        value = texts.get(name, "")
        if value.strip() and name in paths:
            return Subject(value, "path")
        if value.strip():
            words = value.strip().partition("\n")[0] if name == "prompt" else value.strip()
            return Subject(words, "search" if name in _SEARCHES else "words")
    return Subject("", "words")


def _in_source(source: str, arguments: Mapping[str, object]) -> Subject | None:
    """What Codex' `exec` and `apply_patch` act on, of what they are given."""
    if commands := "\n".join(scripted_commands(arguments)):
        return Subject(commands, "words")
    if paths := dict.fromkeys(path for patch in patches(source) for path in PATCHED.findall(patch)):
        return Subject(", ".join(paths), "path" if len(paths) == 1 else "words")
    called = source.partition("await tools.")[2].strip()  # `write_stdin({session_id:1})` of `const r = …`
    return Subject(called, "words") if called else None


def paired(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The messages as they are sent: a call without a result gets one that says "interrupted"."""
    sent: list[BaseMessage] = []
    waiting: list[ToolCallPart] = []
    caller = NEW
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answered = next((call for call in waiting if call.call_id == message.call_id), None)
            if answered is not None:
                waiting.remove(answered)
        else:
            sent += [interrupted_result(call, caller) for call in waiting]
            waiting = list(message.calls) if isinstance(message, AssistantMessage) else []
            caller = message.index
        sent.append(message)
    return sent + [interrupted_result(call, caller) for call in waiting]


class RunningPairs:
    """Views as they are sent, of which most extend the one before: what was paired is not looked at again."""

    def __init__(self) -> None:
        self._view: Sequence[ViewItem] = ()
        self._sent: list[BaseMessage] = []
        """Of what stands before the newest message that is no result: nothing will answer its calls now."""
        self._settled = 0

    def of(self, view: Sequence[ViewItem]) -> list[BaseMessage]:
        """See `paired`."""
        if not extends(self._view, view):
            self._sent, self._settled = [], 0
        self._view = (*view,)
        begun, settled = self._settled, max(self._settled, len(view) - 1)
        while settled > begun and view[settled].outline.type == "tool_result":
            settled -= 1
        self._sent += paired(item.message for item in view[begun:settled])
        self._settled = settled
        return [*self._sent, *paired(item.message for item in view[settled:])]


def pairing_faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Every way in which these messages would be refused: sentences, empty when they are valid."""
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.call_id in waiting:
                waiting.remove(message.call_id)
            else:
                faults.append(f"entry {message.index} answers no call before it")
            continue
        faults += [f"call {call_id} has no result before entry {message.index}" for call_id in waiting]
        waiting = []
        if isinstance(message, AssistantMessage):
            waiting = [call.call_id for call in message.calls]
            if not waiting and not message.text.strip():
                faults.append(f"entry {message.index} is an answer without text and calls")
    return faults + [f"call {call_id} has no result" for call_id in waiting]


def unannounced_tool_changes(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence for each request whose tools differ from those before it without a notice. Old records name
    no tools."""
    offered: str | None = None
    said: set[str] = set()
    for entry in entries:
        if isinstance(entry, NoticeRecord) and entry.tools is not None:
            said.add(entry.tools)
        elif isinstance(entry, RequestRecord):
            if None not in (offered, entry.tools) and offered != entry.tools and entry.tools not in said:
                yield f"the request of entry {entry.index} offered other tools than the one before, unsaid"
            offered = entry.tools
            said.clear()


def unanswered(projection: "Projection") -> BaseMessage | None:
    """The newest message, where the model has yet to answer it, or where it is an answer that broke off or
    whose calls have no results. None where the last word was the model's own, and whole."""
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline) or outline.type in ("system", "developer"):
            continue
        if outline.origin == "shell":
            continue
        fate = projection.fate(outline.index).kind
        if fate in ("reverted", "dropped"):
            continue
        newest = projection.entry(outline.index) if fate in IN_VIEW else None
        is_whole = isinstance(newest, AssistantMessage) and not (broke_off(newest) or newest.calls)
        return newest if isinstance(newest, BaseMessage) and not is_whole else None
    return None


def broke_off(message: BaseMessage) -> bool:
    """Whether it is an answer that ended before the model had said all of it."""
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "cancelled")


def early_end(answer: AssistantMessage, window: int = 0) -> str:
    """How an answer ended early, as the end of "it was ..."; empty if it came to its end.

    Cancelled and failed requests have sentences of their own. `window` is the model's, in tokens.
    """
    match answer.stop_reason:
        case "repeated":
            return "stopped because it repeated itself"
        case "filtered":
            return "stopped by the provider's content filter"
        case "length" if answer.error:
            return "cut off because it went on without end"
        case "length" if window and answer.usage is not None and answer.usage.total >= _AT_THE_END * window:
            return f"cut off where the window of {window:,} tokens ends"
        case "length":
            tokens = 0 if answer.usage is None else answer.usage.output
            return "cut off at the output limit" + (f" of {tokens:,} tokens" if tokens else "")
        case _:
            return ""


def command_of(message: UserMessage) -> str | None:
    """What was typed behind `!`, of the entry it became; None where that does not say where it ends."""
    first = message.parts[0] if message.parts else None
    if not isinstance(first, TextPart) or not first.text.startswith("$ "):
        return None
    return first.text.removeprefix("$ ") if len(message.parts) > 1 else first.text[2:].partition("\n")[0]
