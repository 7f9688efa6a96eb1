"""The tools on the session itself: `history_search`, `history_read`, `send_dmail`, `todo`.

What was compacted can be fetched again; with a D-Mail the model goes back to a checkpoint of its own and
leaves itself a message there, which the turn delivers once the other calls of the step have their results.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field

from foldline.context.clip import fits
from foldline.context.moments import entry_text
from foldline.context.numbers import many
from foldline.context.todos import Todo, current_todo
from foldline.context.tokens import estimate_tokens
from foldline.context.view import Fate
from foldline.history import EntrySearch, Found, Hit, MessageKind, Session, children_of, short_id
from foldline.protocol import NEW, BaseMessage, Entry, ImagePart, ToolResultMessage

from .base import (
    Arguments,
    BaseTool,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    fitted,
    in_thread,
    lines_of,
    named,
    spilled,
)
from .text import FullText, clipped, line_span, one_line, with_notes

RECALL_TOOLS = ("history_search", "history_read")
_NOTE_TOKENS = 30
"""Room for the line that says how many entries are not shown."""


class SearchArguments(Arguments):
    query: str = Field(
        min_length=1, description='Words to find, or "several words in quotes" as they stand together.'
    )
    kind: MessageKind | None = Field(
        None, description="Only what the user said, what you said and called, or what tools returned."
    )
    limit: int = Field(20, ge=1, le=100, description="The most entries to list.")


class EntryArguments(Arguments):
    index: int = Field(description="Number of the entry, as history_search or a placeholder names it.")
    offset: int | None = Field(None, ge=1, description="First line, from 1.")
    limit: int | None = Field(None, ge=1, description="How many lines; all to the end if left out.")
    child: str | None = Field(None, description="Of a child of `task`: its name.")


class HistorySearchTool(BaseTool[SearchArguments]):
    """Finds text in every message since the session began, compacted or not."""

    name = RECALL_TOOLS[0]
    description = (
        "Search everything said, called and returned in this session, compacted parts included. Lists "
        "entries that hold all words of the query: paths, commands, numbers, parts of words, any language; "
        "signs are taken as they are, upper and lower case alike. Each comes with its number, where it is "
        "now and the text around the hit; those you still have in view come last. history_read shows one "
        "whole."
    )
    arguments = SearchArguments

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._search = EntrySearch(session.entries, without_tools=RECALL_TOOLS)

    def headline(self, arguments: SearchArguments) -> str:
        return f'"{arguments.query}"'

    async def act(self, arguments: SearchArguments, context: ToolContext) -> ToolOutcome:
        projection = self._session.projection
        seen = {item.index for item in projection.view if item.fate == "live" and not item.written}
        found = await in_thread(
            lambda stopped: self._search.find(
                arguments.query, limit=arguments.limit, kind=arguments.kind, seen=seen, stopped=stopped
            )
        )
        lines = [_hit_line(hit, projection.fate(hit.entry.index)) for hit in found.hits]
        text, whole = await fitted(_listed(found, lines, context.max_tokens), context, self.name)
        brief = many(found.total, "match", "matches")
        return ToolOutcome(text, brief=brief, full_output=whole)


def _hit_line(hit: Hit, fate: Fate) -> str:
    """One hit: `212 (tool_result of bash, line 40, summarised by 240): …`."""
    entry = hit.entry
    kind = f"{entry.type} of {entry.name}" if isinstance(entry, ToolResultMessage) else entry.type
    line = f"line {hit.line}, " if hit.line > 1 else ""
    return f"{entry.index} ({kind}, {line}{_where(fate)}): {hit.snippet}"


def _where(fate: Fate) -> str:
    match fate.kind:
        case "live":
            return "in view"
        case "aside":
            return "never in view"
        case kind:
            return kind if fate.by is None else f"{kind} by {fate.by}"


def _listed(found: Found, lines: Sequence[str], room: int) -> str:
    """As many of the best hits as fit, at least one, and what there is besides."""
    if not found.total:
        apart = ", ".join(f"{term} in {count}" for term, count in found.apart)
        if not apart:
            return "No entry contains this."
        return f"No entry contains all of these words. Each by itself: {apart}."
    shown: list[str] = []
    left = room - _NOTE_TOKENS
    for line in lines:
        left -= estimate_tokens(line) + 1
        if shown and left < 0:
            break
        shown.append(line)
    more = found.total - len(shown)
    if more:
        entries = f"{many(more, 'more entry', 'more entries')} match{'es' if more == 1 else ''}"
        shown.append(f"[{entries}: add a word or a kind to narrow it down.]")
    return "\n".join(shown)


class HistoryReadTool(BaseTool[EntryArguments]):
    """Shows one entry of the history exactly as it was, or some of its lines."""

    name = RECALL_TOOLS[1]
    description = (
        "Show one entry of this session's history as it was, compacted, hidden or clipped since or not. Of a "
        "long one, ask for the lines you need."
    )
    arguments = EntryArguments

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def headline(self, arguments: EntryArguments) -> str:
        return f"entry {arguments.index}{line_span(arguments.offset, arguments.limit)}"

    async def act(self, arguments: EntryArguments, context: ToolContext) -> ToolOutcome:
        session = self._session
        if arguments.child is not None:
            session = await asyncio.to_thread(_child, session, arguments.child)
        entry = session.projection.entry(arguments.index)
        text, whole = await in_thread(lambda _: _shown(entry, arguments, context))
        parts = entry.parts if isinstance(entry, BaseMessage) and arguments.offset is None else ()
        return ToolOutcome(
            text,
            brief=f"entry {arguments.index}",
            full_output=whole,
            images=tuple(part for part in parts if isinstance(part, ImagePart)),
        )


def _child(session: Session, name: str) -> Session:
    """The session of a child, by its id or the end of that."""
    events = [] if session.path is None else children_of(session.path)
    for path in events:
        if name in (path.parent.name, short_id(path.parent.name)):
            return Session.open(path)
    there = ", ".join(short_id(path.parent.name) for path in events) or "none"
    raise ToolFailure(f"There is no child {one_line(name)!r}. There are: {there}.", "not found ✗")


def _shown(entry: Entry | None, arguments: EntryArguments, context: ToolContext) -> tuple[str, str | None]:
    """The lines asked for, within the room; and a file with the whole entry, where they do not fit."""
    text = None if entry is None else entry_text(entry)
    if text is None:
        sentence = f"There is no message with the number {arguments.index}."
        raise ToolFailure(f"{sentence} history_search shows the numbers.", "not found ✗")
    text = context.mask(text)
    piece, first, note = lines_of(text, f"Entry {arguments.index}", arguments.offset, arguments.limit)
    room = context.max_tokens - estimate_tokens(note)
    if fits(piece, room):
        return with_notes(piece, note), None
    path = spilled(text, context.spill_dir, HistoryReadTool.name)
    whole = FullText(named(path, context), first, by=f"`{HistoryReadTool.name}` {arguments.index}")
    return with_notes(clipped(piece, room, whole), note), str(path)


def recall_tools(session: Session) -> tuple[Tool, ...]:
    return (HistorySearchTool(session), HistoryReadTool(session))


@dataclass(frozen=True, slots=True)
class Dmail:
    message: str
    checkpoint: int


class Mailbox:
    """Holds the D-Mail of a step until the turn delivers it."""

    def __init__(self) -> None:
        self.waiting: Dmail | None = None

    def take(self) -> Dmail | None:
        taken, self.waiting = self.waiting, None
        return taken


class DmailArguments(Arguments):
    message: str = Field(
        min_length=1,
        description="All you need to know back there: what you found out and changed, what to do next.",
    )
    checkpoint_id: int = Field(description="The number of a CHECKPOINT message.")


class DmailTool(BaseTool[DmailArguments]):
    name = "send_dmail"
    description = (
        "Send a message to yourself at an earlier CHECKPOINT: everything after it leaves your memory, and "
        "you go on from there with the message, and with what the user asked for. Files stay as they are "
        "now. Use it when the steps since then were long and only their outcome matters: a large file read "
        "for one line, a search that found one place, an approach that failed. The person sees all of it."
    )
    arguments = DmailArguments

    def __init__(self, session: Session, mailbox: Mailbox) -> None:
        super().__init__()
        self._session = session
        self._mailbox = mailbox

    def headline(self, arguments: DmailArguments) -> str:
        return f"to checkpoint {arguments.checkpoint_id}: {one_line(arguments.message)}"

    async def act(self, arguments: DmailArguments, context: ToolContext) -> ToolOutcome:
        if not arguments.message.strip():
            raise ToolFailure("The message is empty: back there it is all you will have.")
        if self._mailbox.waiting is not None:
            raise ToolFailure("Only one D-Mail a step: the first one goes out.", "not sent ✗")
        known = reachable(self._session)
        if arguments.checkpoint_id not in known:
            there = ", ".join(map(str, known[-12:])) or "none yet"
            raise ToolFailure(
                f"Checkpoint {arguments.checkpoint_id} cannot be reached. There are: {there}.", "not sent ✗"
            )
        self._mailbox.waiting = Dmail(arguments.message, arguments.checkpoint_id)
        return ToolOutcome("Sent: it is delivered when this step ends.", brief="sent")


def reachable(session: Session) -> list[int]:
    """The checkpoints the model was shown since the newest compaction and that its view still leads to."""
    shown = {item.message.checkpoint for item in session.projection.view}
    compactions = session.projection.compactions()
    newest = compactions[-1].index if compactions else NEW
    places = (place for place in session.projection.checkpoints if place.index > newest)
    return [place.id for place in places if place.id in shown]


# --- todo ------------------------------------------------------------------------------------------------

Status = Literal["pending", "in_progress", "completed"]


def todo_lines(todos: Sequence[Todo]) -> list[str]:
    """The list as the model reads it."""

    def mark(todo: Todo) -> str:
        return "[x]" if todo.is_done else "[>]" if todo.is_begun else "[ ]" if todo.is_open else "[-]"

    return [f"{mark(todo)} {one_line(todo.text)}" for todo in todos]


class TodoItem(Arguments):
    # Models that know other todo tools add ids and priorities: no reason to refuse the list.
    model_config = ConfigDict(extra="ignore")

    content: str = Field(min_length=1, description="What is to do, in a few words that stay the same.")
    status: Status = Field(description="Where it stands.")


class TodoArguments(Arguments):
    todos: list[TodoItem] = Field(description="All items, done ones too, in working order.")


class TodoTool(BaseTool[TodoArguments]):
    name = "todo"
    description = (
        "Keep a list of what is to do; each call replaces all of it. For work of three or more steps, or "
        "several requests: write it before you begin, have one item in_progress, and mark it completed as "
        "soon as it is done and checked. Not for a single step or a question."
    )
    arguments = TodoArguments

    def headline(self, arguments: TodoArguments) -> str:
        return current_todo([Todo(item.content, item.status) for item in arguments.todos])

    async def act(self, arguments: TodoArguments, context: ToolContext) -> ToolOutcome:
        todos = arguments.todos
        if not todos:
            return ToolOutcome("The list is empty.", brief="empty")
        lines = todo_lines([Todo(item.content, item.status) for item in todos])
        started = sum(item.status == "in_progress" for item in todos)
        if started > 1:
            lines.append(f"({started} items are in progress: better finish one before the next.)")
        done = sum(item.status == "completed" for item in todos)
        text, full = await fitted("\n".join(lines), context, self.name)
        return ToolOutcome(text, brief=f"{done} of {len(todos)} done", full_output=full)
