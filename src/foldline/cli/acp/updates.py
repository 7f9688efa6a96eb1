"""Converts history entries to session updates.

All functions are pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from foldline.formats.writers.markdown import fenced
from foldline.memory.todos import Todo, todo_list
from foldline.past.compactions import sizes_words
from foldline.past.describe import call_title
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.text.harmless import clean
from foldline.view.projection import Projection

from . import helpers, schema

Update = schema.SessionUpdate
Content = schema.ToolCallContent

_KINDS: Final[Mapping[schema.ToolKind, str]] = {
    "read": "read ls history_read",
    "search": "grep glob history_search",
    "edit": "edit write",
    "execute": "bash jobs",
    "fetch": "fetch web_search",
}
"""Names of Foldline's and other agents' tools, by the protocol's kind of tool.

The names are separated by spaces.
"""
_TITLE = 200
"""Maximum length of a call's title, in characters. Longer titles are cut off."""
_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class ClientCall(NamedTuple):
    """A tool call, with the id and title that were sent to the client."""

    id: str
    """Id that is unique in the session.

    The ids that model servers assign may repeat.
    """
    title: str


class EntryUpdates:
    """Converts a session's entries to updates, in order."""

    def __init__(self, projection: Projection, cwd: Path) -> None:
        self._projection = projection
        self._cwd = cwd
        self.calls: dict[str, ClientCall] = {}
        """Calls that have no result yet, by the model server's call id."""

    def replayed(self, entry: Entry) -> Iterator[Update]:
        """Yield the updates for an entry when a client loads the session."""
        match entry:
            case UserMessage(origin="typed" | "shell"):
                for part in entry.parts:
                    if isinstance(part, TextPart):
                        yield helpers.update_user_message_text(part.text)
                    elif isinstance(part, ImagePart):
                        yield helpers.update_user_message(
                            helpers.image_block(part.data, part.media_type)
                        )
            case AssistantMessage():
                for part in entry.parts:
                    if isinstance(part, ThinkingPart) and part.text:
                        yield helpers.update_agent_thought_text(part.text)
                    elif isinstance(part, TextPart) and part.text:
                        yield helpers.update_agent_message_text(part.text)
            case Compaction():
                yield compaction_call(entry, self._projection)
            case _:
                pass
        yield from self.appended(entry)

    def appended(self, entry: Entry) -> Iterator[Update]:
        """Yield the updates for a new entry's calls and results.

        The rest of the entry has already been streamed.
        """
        match entry:
            case AssistantMessage():
                for number, call in enumerate(entry.calls):
                    yield self._start(call, f"{entry.index}.{number}")
            case ToolResultMessage() if client_call := self.calls.pop(
                entry.call_id, None
            ):
                yield self._result(entry, client_call.id)
            case _:
                pass

    def _start(self, call: ToolCallPart, id: str) -> Update:
        arguments = call.parsed()
        todos = todo_list(arguments)
        if todos is not None:
            return plan(todos)
        subject, is_path = call_title(call, str(self._cwd))
        kind = _kind(call.name)
        title = subject[:_TITLE]
        if kind != "execute" or not title:
            title = f"{call.name} {title}".strip()
        self.calls[call.call_id] = ClientCall(id, title)
        locations = None
        if is_path:
            line = arguments.get("offset")
            locations = [
                self._location(subject, line if isinstance(line, int) else None)
            ]
        return helpers.start_tool_call(
            id,
            title,
            kind=kind,
            status="pending",
            locations=locations,
            raw_input=arguments,
        )

    def _result(self, result: ToolResultMessage, id: str) -> Update:
        details = result.details
        changes = [*diffs(details.diff, self._cwd)] if details.diff else []
        content: list[Content] = [change.content for change in changes] or contents(
            result
        )
        # A client that follows the agent opens each file at its first change.
        first_lines = {change.content.path: change.line for change in reversed(changes)}
        paths = [str(self._cwd / touch.path) for touch in details.files]
        return helpers.update_tool_call(
            id,
            status="failed" if result.is_error else "completed",
            content=content,
            locations=[self._location(path, first_lines.get(path)) for path in paths]
            or None,
        )

    def _location(self, path: str, line: int | None) -> schema.ToolCallLocation:
        return schema.ToolCallLocation(path=str(self._cwd / path), line=line)


def contents(result: ToolResultMessage) -> list[Content]:
    """Return a result's text and images."""
    content: list[Content] = []
    for part in result.parts:
        if isinstance(part, ImagePart):
            content.append(
                helpers.tool_content(helpers.image_block(part.data, part.media_type))
            )
        elif isinstance(part, TextPart):
            content.append(output_content(part.text))
    return content


def output_content(text: str) -> Content:
    """Return output as a fenced code block."""
    return helpers.tool_content(helpers.text_block(fenced(clean(text), "")))


def compaction_call(entry: Compaction, projection: Projection) -> schema.ToolCallStart:
    """Return a compaction as a completed tool call.

    The protocol has no update for compactions.
    """
    sizes = sizes_words(projection, entry, "tokens")
    return helpers.start_tool_call(
        f"compaction-{entry.index}",
        f"Compacted {sizes}".strip(),
        kind="other",
        status="completed",
        content=[helpers.tool_content(helpers.text_block(entry.summary))]
        if entry.summary
        else None,
    )


def plan(todos: Sequence[Todo]) -> schema.AgentPlanUpdate:
    """Convert a todo list to a plan.

    Dropped items are left out.
    """
    return helpers.update_plan(
        schema.PlanEntry(content=todo.text, status=_todo_status(todo))
        for todo in todos
        if todo.is_done or todo.is_open
    )


def _todo_status(todo: Todo) -> schema.PlanEntryStatus:
    if todo.is_done:
        return "completed"
    return "in_progress" if todo.is_begun else "pending"


class DiffHunk(NamedTuple):
    """A hunk of a diff, as the old and the new text."""

    content: schema.FileEditToolCallContent
    line: int
    """Number of the hunk's first line in the new file, counted from 1."""


def diffs(unified: str, cwd: Path) -> Iterator[DiffHunk]:
    """Yield the hunks of a unified diff for one file."""
    lines = unified.split("\n")
    path = str(cwd / lines[1].removeprefix("+++ ")) if len(lines) > 1 else ""
    line = 0
    old: list[str] = []
    new: list[str] = []
    for text in (*lines[2:], ""):
        hunk = _HUNK.match(text)
        if (hunk or not text) and (old or new):
            # For a new file, the old text is empty, not None, as some clients show no diff for None.
            yield DiffHunk(
                helpers.tool_diff_content(path, "".join(new), "".join(old)), line
            )
            old.clear()
            new.clear()
        if hunk:
            line = int(hunk[1])
        if text[:1] in (" ", "-"):
            old.append(f"{text[1:]}\n")
        if text[:1] in (" ", "+"):
            new.append(f"{text[1:]}\n")


def _kind(name: str) -> schema.ToolKind:
    return next(
        (kind for kind, names in _KINDS.items() if name.lower() in names.split()),
        "other",
    )
