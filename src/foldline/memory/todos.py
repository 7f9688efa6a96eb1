"""Todo lists that a model maintains with a tool.

Determines open items, finished items and newly completed items. A call with an argument `todos` contains a
list, whichever tool is called: ours, TodoWrite, todowrite or others. Each call replaces the list. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Entry,
    ToolResultMessage,
)
from foldline.view.items import STANDING
from foldline.view.outline import MessageOutline

from .cues import CANCELLED_STATES, DONE_STATES

if TYPE_CHECKING:
    from foldline.view.projection import Projection

History = Sequence[Entry | BaseMessage]
"""Entries or messages, oldest first."""

_TEXT_FIELDS = ("content", "title", "text")


class Todo(NamedTuple):
    """An item in a todo list."""

    text: str
    status: str
    """The item's status in lower case, in the tool's own words."""

    @property
    def is_done(self) -> bool:
        return self.status in DONE_STATES

    @property
    def is_begun(self) -> bool:
        return self.status.replace(" ", "_") == "in_progress"

    @property
    def is_open(self) -> bool:
        return self.status not in DONE_STATES | CANCELLED_STATES


def todo_list(arguments: Mapping[str, object]) -> tuple[Todo, ...] | None:
    """Return the todo list in the arguments of a call.

    Returns None if there is no list.
    """
    items = arguments.get("todos")
    if not isinstance(items, Sequence) or isinstance(items, str):
        return None
    return tuple(
        todo for item in items if isinstance(item, Mapping) for todo in _todo(item)
    )


def _todo(item: Mapping[str, object]) -> Iterator[Todo]:
    for field in _TEXT_FIELDS:
        text = item.get(field)
        if isinstance(text, str) and text.strip():
            yield Todo(text.strip(), str(item.get("status", "")).strip().lower())
            return


def current_todo(todos: Sequence[Todo]) -> str:
    """Return the text of the item in progress, or otherwise of the next open item.

    Returns an empty string if no item is open.
    """
    open_items = [todo for todo in todos if todo.is_open]
    begun = [todo for todo in open_items if todo.is_begun]
    return next((todo.text for todo in begun + open_items), "")


def open_todos(history: History) -> tuple[str, ...]:
    """Return the open items from the newest call with a todo list."""
    for call in _newest_first(reversed(history)):
        return tuple(todo.text for todo in call.todos if todo.is_open)
    return ()


def newest_list(projection: "Projection") -> tuple[int, tuple[Todo, ...]]:
    """Return the index of the entry that contains the newest active todo list, and the list itself.

    A list is active until a rewind, clear or drop removes it. Only steps with a todo call are read.
    """
    steps = _steps_with_todos(projection, frozenset())
    in_force = (step for step in steps if projection.fate(step.index).kind in STANDING)
    for call in _newest_first(in_force):
        return call.entry.index, call.todos
    return NEW, ()


def newly_completed(projection: "Projection") -> bool:
    """Return whether the newest step completed a todo.

    Only the newest step, and earlier steps with a todo call, are read.
    """
    step = _newest_step(projection)
    names = (
        {call.name for call in step.calls if todo_list(call.parsed()) is not None}
        if step
        else set()
    )
    if step is None or not names:
        return False
    calls = _newest_first(_steps_with_todos(projection, names))
    newest = next(calls, None)
    previous = next(calls, None)
    if newest is None or previous is None or newest.entry.index != step.index:
        return False
    was_open = {todo.text for todo in previous.todos if todo.is_open}
    return any(todo.is_done and todo.text in was_open for todo in newest.todos)


def _newest_step(projection: "Projection") -> AssistantMessage | None:
    """Return the newest answer.

    Returns None if this answer has no calls.
    """
    for outline in reversed(projection.entries.outlines):
        if isinstance(outline, MessageOutline) and outline.type == "assistant":
            entry = projection.entry(outline.index) if outline.calls else None
            return entry if isinstance(entry, AssistantMessage) else None
    return None


def _steps_with_todos(projection: "Projection", names: Set[str]) -> Iterator[Entry]:
    """Yield the steps with todo calls, newest first, together with their failed results.

    Args:
        names: names of todo tools other than those that contain `todo`.
    """
    call_ids = set()
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline):
            continue
        is_of_todo_tool = outline.name in names or "todo" in outline.name.lower()
        if is_of_todo_tool:
            call_ids.add(outline.call_id)
        is_refusal = is_of_todo_tool and outline.failed
        if is_refusal or not call_ids.isdisjoint(outline.calls):
            entry = projection.entry(outline.index)
            if entry is not None:
                yield entry
            call_ids.difference_update(outline.calls)


class TodoCall(NamedTuple):
    """A call that contains a todo list."""

    entry: AssistantMessage
    todos: tuple[Todo, ...]


def _newest_first(backwards: Iterable[Entry]) -> Iterator[TodoCall]:
    """Yield the todo calls that did not fail."""
    refused = set()
    for entry in backwards:
        match entry:
            case ToolResultMessage(is_error=True):
                refused.add(entry.call_id)
            case AssistantMessage():
                for call in reversed(entry.calls):
                    todos = todo_list(call.parsed())
                    if todos is not None and call.call_id not in refused:
                        yield TodoCall(entry, todos)
                refused.clear()
