"""What the model is reminded of before a request: the mode plan, and the todo list, where its view no longer
says them. Both are read from the history, so that no compaction or restart changes them."""

from collections.abc import Iterator
from typing import Final

from foldline.context.outline import MessageOutline
from foldline.context.todos import newest_list
from foldline.context.view import STANDING
from foldline.protocol import DeveloperMessage, text_parts

from .state import AgentState
from .tools.history import todo_lines

_PLANNING: Final = (
    "The mode is plan now. Look around with the tools that read: nothing is changed, and no command runs. "
    "Ask with `ask_user` what only the user can decide. Then hand in the whole plan with the tool `plan`: "
    "the steps in order, the files they change, and how the outcome is checked."
)
_OVER: Final = "The mode plan is over, and no plan was accepted. Go by what the user asks now."
_OF_CHILD: Final = ("The mode is plan: nothing is changed, and no command runs.", "The mode plan is over.")
"""What a subagent is told, which neither plans nor asks."""
_LIST: Final = "The todo list as it is now, with what was done before:\n"


def reminders(state: AgentState) -> list[DeveloperMessage]:
    """What is missing. Looks only where the mode, or the view, is another than it was last."""
    seen, now = state.reminded_at, (state.policy.mode == "plan", state.projection.newest_change)
    state.reminded_at = now
    return [] if seen == now else [*_of_mode(state), *_of_list(state)]


def _of_mode(state: AgentState) -> Iterator[DeveloperMessage]:
    projection, plans = state.projection, state.policy.mode == "plan"
    planning, over = (_PLANNING, _OVER) if state.parent is None else _OF_CHILD
    said = (o for o in reversed(projection.entries.outlines) if isinstance(o, MessageOutline))
    said = (o for o in said if o.origin in ("mode", "plan") and projection.fate(o.index).kind in STANDING)
    newest = next(said, None)
    entry = projection.entry(newest.index) if newest is not None else None
    told = isinstance(entry, DeveloperMessage) and entry.text == planning
    if plans and not (told and entry is not None and projection.fate(entry.index).kind == "live"):
        yield DeveloperMessage(origin="mode", parts=text_parts(planning))
    elif told and not plans:
        yield DeveloperMessage(origin="mode", parts=text_parts(over))


def _of_list(state: AgentState) -> Iterator[DeveloperMessage]:
    """The list, where something is open and neither its call nor such a note is in the view whole."""
    projection = state.projection
    index, todos = newest_list(projection)
    if not any(todo.is_open for todo in todos) or projection.fate(index).kind == "live":
        return
    note = DeveloperMessage(origin="todo", parts=text_parts(_LIST + "\n".join(todo_lines(todos))))
    notes = (item for item in reversed(projection.view) if item.outline.origin == "todo")
    newest = next(notes, None)
    if newest is None or newest.index < index or newest.message.text != note.text:
        yield note
