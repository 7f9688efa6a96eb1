"""Todo lists that a model keeps with a tool: what is open, what is done, and what has just been done.

A call with an argument `todos` keeps one, whatever its tool is called: ours, TodoWrite, todowrite and others.
Each call replaces the whole list. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from foldline.protocol import NEW, AssistantMessage, BaseMessage, Entry, ToolCallPart, ToolResultMessage

from .outline import MessageOutline
from .view import STANDING

if TYPE_CHECKING:
    from .projection import Projection

History = Sequence[Entry | BaseMessage]
"""Entries or messages, oldest first."""

_DONE = frozenset({"completed", "complete", "done"})
_GIVEN_UP = frozenset({"cancelled", "canceled"})
_TEXTS = ("content", "title", "text")


class Todo(NamedTuple):
    text: str
    status: str
    """In small letters, as the tool calls it."""

    @property
    def is_done(self) -> bool:
        return self.status in _DONE

    @property
    def is_begun(self) -> bool:
        return self.status.replace(" ", "_") == "in_progress"

    @property
    def is_open(self) -> bool:
        return self.status not in _DONE | _GIVEN_UP


def todo_list(arguments: Mapping[str, object]) -> tuple[Todo, ...] | None:
    """The list a call leaves; None where the call keeps no such list."""
    items = arguments.get("todos")
    if not isinstance(items, Sequence) or isinstance(items, str):
        return None
    return tuple(todo for item in items if isinstance(item, Mapping) for todo in _todo(item))


def current_todo(todos: Sequence[Todo]) -> str:
    """The item that is being done, else the next one; empty where nothing is open."""
    first = sorted((todo for todo in todos if todo.is_open), key=lambda todo: not todo.is_begun)
    return first[0].text if first else ""


def open_todos(history: History) -> tuple[str, ...]:
    """What the newest todo call leaves to do, in its order."""
    return tuple(todo.text for todo in _newest(history) if todo.is_open)


def newest_list(projection: "Projection") -> tuple[int, tuple[Todo, ...]]:
    """The entry whose call keeps the list that holds, and that list: the newest that no rewind, clear or drop
    has taken back. Reads the steps that may have kept one."""
    steps = _may_have_kept_one(projection, frozenset())
    call = next(_newest_first(step for step in steps if projection.fate(step.index).kind in STANDING), None)
    return (call.entry.index, call.todos) if call is not None else (NEW, ())


def newly_completed(projection: "Projection") -> bool:
    """Whether the newest step ticked off an item that the todo call before had open. Reads that step, and,
    where it keeps a list, steps that may have kept one before."""
    outlines = projection.entries.outlines
    answers = (o for o in reversed(outlines) if isinstance(o, MessageOutline) and o.type == "assistant")
    newest = next(answers, None)
    step = projection.entry(newest.index) if newest is not None and newest.calls else None
    if not isinstance(step, AssistantMessage):
        return False
    names = {call.name for call in step.calls if _listed(call) is not None}
    lists = _newest_first(_may_have_kept_one(projection, names)) if names else iter(())
    now, before = next(lists, None), next(lists, None)
    if now is None or now.entry.index != step.index or before is None:
        return False
    was_open = {todo.text for todo in before.todos if todo.is_open}
    return any(todo.is_done and todo.text in was_open for todo in now.todos)


def _may_have_kept_one(projection: "Projection", names: Set[str]) -> Iterator[Entry]:
    """The steps whose tools have such a name, and their failed results, newest first; no other is read."""
    calls: set[str] = set()
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline):
            continue
        of_list = outline.name in names or "todo" in outline.name.lower()
        if of_list:
            calls.add(outline.call_id)
        if (of_list and outline.failed) or not calls.isdisjoint(outline.calls):
            entry = projection.entry(outline.index)
            if entry is not None:
                yield entry
            calls.difference_update(outline.calls)


class _Call(NamedTuple):
    entry: AssistantMessage
    todos: tuple[Todo, ...]


def _newest(history: History) -> tuple[Todo, ...]:
    call = next(_newest_first(reversed(history)), None)
    return call.todos if call else ()


def _newest_first(backwards: Iterable[Entry]) -> Iterator[_Call]:
    """All todo calls that were not refused, the newest first."""
    refused: set[str] = set()
    for entry in backwards:
        match entry:
            case ToolResultMessage(is_error=True):
                refused.add(entry.call_id)
            case AssistantMessage():
                for call in reversed(entry.calls):
                    todos = _listed(call)
                    if todos is not None and call.call_id not in refused:
                        yield _Call(entry, todos)
                refused.clear()
            case _:
                pass


def _listed(call: ToolCallPart) -> tuple[Todo, ...] | None:
    return todo_list(call.parsed())


def _todo(item: Mapping[str, object]) -> Iterator[Todo]:
    text = next(
        (value for name in _TEXTS if isinstance(value := item.get(name), str) and value.strip()), None
    )
    if text is not None:
        yield Todo(text.strip(), str(item.get("status", "")).strip().lower())
