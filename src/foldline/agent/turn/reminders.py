"""Reminds the model of plan mode and of the to-do list before a request.

A reminder is sent only if the view does not contain it. Both reminders are derived from the history, so they
survive compactions and restarts.
"""

from collections.abc import Iterator

from foldline.agent.session.state import AgentState
from foldline.agent.tools.history import todo_lines
from foldline.memory.todos import newest_list
from foldline.protocol import DeveloperMessage, text_parts
from foldline.view.items import STANDING
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection

PLAN_MODE = (
    "Plan mode is on. Explore with tools that read: tools cannot change anything or run commands. "
    "Use `ask_user` for questions that only the user can decide. Then submit the whole plan with the `plan` "
    "tool: the steps in order, the files they change, and how to check the result."
)
PLAN_MODE_OVER = (
    "Plan mode is off, and no plan was accepted. Do what the user asks now."
)
_SUBAGENT_PLAN_MODE = "Plan mode is on: tools cannot change anything or run commands."
"""Reminder for a subagent, which can neither submit plans nor ask the user."""
_SUBAGENT_PLAN_MODE_OVER = "Plan mode is off."
_TODO_HEAD = "The current todo list, including completed items:\n"


class Reminders:
    """Finds the reminders that the view of one session lacks."""

    def __init__(self, state: AgentState) -> None:
        self._permissions = state.permissions
        self._projection = state.projection
        self._is_subagent = state.parent is not None
        self._checked: object = None
        """The mode, and the newest change to the view, at the last check."""

    def due(self) -> list[DeveloperMessage]:
        """Return the missing reminders.

        The view is checked only after the mode or the view has changed.
        """
        is_planning = self._permissions.policy.mode == "plan"
        current = (is_planning, self._projection.newest_change)
        if self._checked == current:
            return []
        self._checked = current
        return [*self._mode_reminders(is_planning), *_todo_reminders(self._projection)]

    def _mode_reminders(self, is_planning: bool) -> Iterator[DeveloperMessage]:
        planning, over = PLAN_MODE, PLAN_MODE_OVER
        if self._is_subagent:
            planning, over = _SUBAGENT_PLAN_MODE, _SUBAGENT_PLAN_MODE_OVER
        projection = self._projection
        newest = _newest_mode_outline(projection)
        was_planning = False
        is_in_view = False
        if newest is not None:
            entry = projection.entry(newest.index)
            was_planning = (
                isinstance(entry, DeveloperMessage) and entry.text == planning
            )
            is_in_view = projection.fate(newest.index).kind == "live"
        if is_planning and not (was_planning and is_in_view):
            yield DeveloperMessage(origin="mode", parts=text_parts(planning))
        elif was_planning and not is_planning:
            yield DeveloperMessage(origin="mode", parts=text_parts(over))


def _newest_mode_outline(projection: Projection) -> MessageOutline | None:
    """Return the outline of the newest message about the mode or the plan."""
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline) or outline.origin not in (
            "mode",
            "plan",
        ):
            continue
        if projection.fate(outline.index).kind in STANDING:
            return outline
    return None


def _todo_reminders(projection: Projection) -> Iterator[DeveloperMessage]:
    """Yield the to-do list if the view does not contain it."""
    index, todos = newest_list(projection)
    if not any(todo.is_open for todo in todos) or projection.fate(index).kind == "live":
        return
    lines = "\n".join(todo_lines(todos))
    reminder = DeveloperMessage(origin="todo", parts=text_parts(_TODO_HEAD + lines))
    items = reversed(projection.view)
    newest = next((item for item in items if item.outline.origin == "todo"), None)
    if newest is None or newest.index < index or newest.message.text != reminder.text:
        yield reminder
