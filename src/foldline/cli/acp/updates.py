"""Entries of the history as session updates: after each entry, and when a session is loaded. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from acp import helpers, schema

from foldline.context.calls import subject_of
from foldline.context.compactions import sizes_words
from foldline.context.harmless import clean, clean_line
from foldline.context.projection import Projection
from foldline.context.todos import Todo, todo_list
from foldline.formats.writers.markdown import fenced
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

Update = helpers.SessionUpdate | schema.ConfigOptionUpdate | schema.UsageUpdate
Content = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent

_KINDS: Final[Mapping[schema.ToolKind, str]] = {
    "read": "read ls history_read",
    "search": "grep glob history_search",
    "edit": "edit write",
    "execute": "bash jobs",
    "fetch": "fetch web_search",
}
"""Which tools are of a kind: ours, and those of other agents that are called alike."""
_TITLE: Final = 200
"""Characters of a call's title."""
_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Call(NamedTuple):
    """A call as the client knows it."""

    id: str
    """Its own: servers use theirs again."""
    title: str


class EntryUpdates:
    """The updates of entries that come in order."""

    def __init__(self, projection: Projection, cwd: Path) -> None:
        self._projection = projection
        self._cwd = cwd
        self.calls: dict[str, Call] = {}
        """Those without a result, by what servers call them."""

    def replayed(self, entry: Entry) -> Iterator[Update]:
        """All of an entry, for a client that has not seen it."""
        match entry:
            case UserMessage(origin="typed" | "shell"):
                for part in entry.parts:
                    if isinstance(part, TextPart):
                        yield helpers.update_user_message_text(part.text)
                    elif isinstance(part, ImagePart):
                        yield helpers.update_user_message(helpers.image_block(part.data, part.media_type))
            case AssistantMessage():
                for part in entry.parts:
                    if isinstance(part, ThinkingPart) and part.text:
                        yield helpers.update_agent_thought_text(part.text)
                    elif isinstance(part, TextPart) and part.text:
                        yield helpers.update_agent_message_text(part.text)
            case Compaction():
                yield compacted(entry, self._projection)
            case _:
                pass
        yield from self.appended(entry)

    def appended(self, entry: Entry) -> Iterator[Update]:
        """What of an entry was not streamed: its calls, or the result of one."""
        match entry:
            case AssistantMessage():
                for nth, call in enumerate(entry.calls):
                    yield self._begun(call, f"{entry.index}.{nth}")
            case ToolResultMessage() if asked := self.calls.pop(entry.call_id, None):
                yield self._ended(entry, asked.id)
            case _:
                pass

    def _begun(self, call: ToolCallPart, id: str) -> Update:
        arguments = call.parsed()
        todos = todo_list(arguments)
        if todos is not None:
            return plan(todos)
        subject = subject_of(call)
        line = arguments.get("offset")
        places = [self._place(subject.text, line if isinstance(line, int) else None)]
        words = clean_line(subject.text)[:_TITLE]
        title = words if _kind(call.name) == "execute" and words else f"{call.name} {words}".strip()
        self.calls[call.call_id] = Call(id, title)
        return helpers.start_tool_call(
            id,
            title,
            kind=_kind(call.name),
            status="pending",
            locations=places if subject.kind == "path" else None,
            raw_input=arguments,
        )

    def _ended(self, result: ToolResultMessage, id: str) -> Update:
        details = result.details
        changes = [*diffs(details.diff, self._cwd)] if details.diff else []
        shown: list[Content] = [change.content for change in changes] or contents(result)
        # Where the result was, the file is: a client that follows goes to the first change.
        lines = {change.content.path: change.line for change in reversed(changes)}
        paths = [str(self._cwd / touch.path) for touch in details.files]
        return helpers.update_tool_call(
            id,
            status="failed" if result.is_error else "completed",
            content=shown,
            locations=[self._place(path, lines.get(path)) for path in paths] or None,
        )

    def _place(self, path: str, line: int | None) -> schema.ToolCallLocation:
        return schema.ToolCallLocation(path=str(self._cwd / path), line=line)


def contents(result: ToolResultMessage) -> list[Content]:
    """The text and the pictures that the model was given."""
    return [
        helpers.tool_content(helpers.image_block(part.data, part.media_type))
        if isinstance(part, ImagePart)
        else said(part.text)
        for part in result.parts
        if isinstance(part, ImagePart | TextPart)
    ]


def said(text: str) -> Content:
    """Output, as it would stand in a terminal."""
    return helpers.tool_content(helpers.text_block(fenced(clean(text), "")))


def compacted(entry: Compaction, projection: Projection) -> schema.ToolCallStart:
    """The protocol has no word for a compaction: it is shown as a call that has ended."""
    sizes = sizes_words(projection, entry, "tokens")
    return helpers.start_tool_call(
        f"compaction-{entry.index}",
        f"Compacted {sizes}".strip(),
        kind="other",
        status="completed",
        content=[helpers.tool_content(helpers.text_block(entry.summary))] if entry.summary else None,
    )


def plan(todos: Sequence[Todo]) -> schema.AgentPlanUpdate:
    """A todo list; what was given up is no part of it."""
    return helpers.update_plan(
        schema.PlanEntry(
            content=todo.text,
            priority="medium",
            status="completed" if todo.is_done else "in_progress" if todo.is_begun else "pending",
        )
        for todo in todos
        if todo.is_done or todo.is_open
    )


class Diff(NamedTuple):
    content: schema.FileEditToolCallContent
    line: int
    """Where it begins in the file as it is then, counted from 1."""


def diffs(unified: str, cwd: Path) -> Iterator[Diff]:
    """Each piece of a unified diff of one file, as the text before and after it."""
    lines = unified.split("\n")
    path = str(cwd / lines[1].removeprefix("+++ ")) if len(lines) > 1 else ""
    line, old, new = 0, list[str](), list[str]()
    for text in (*lines[2:], ""):
        hunk = _HUNK.match(text)
        if (hunk or not text) and (old or new):
            # Of a new file it is empty, not left out: some clients show no diff then.
            yield Diff(helpers.tool_diff_content(path, "".join(new), "".join(old)), line)
            old, new = [], []
        if hunk:
            line = int(hunk[1])
        if text[:1] in (" ", "-"):
            old.append(f"{text[1:]}\n")
        if text[:1] in (" ", "+"):
            new.append(f"{text[1:]}\n")


def _kind(name: str) -> schema.ToolKind:
    return next((kind for kind, names in _KINDS.items() if name.lower() in names.split()), "other")
