"""The tools that work on the session itself: `history_search`, `history_read`, `send_dmail` and `todo`.

The first two retrieve compacted messages. With a D-Mail, the model rewinds the session to an earlier
checkpoint and leaves itself a message there. The turn delivers the D-Mail once the other calls of the step
have results.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field

from foldline.history import (
    EntrySearch,
    Hit,
    MessageKind,
    SearchResult,
    Session,
    children_of,
    short_id,
)
from foldline.memory.clip import fits
from foldline.memory.todos import Todo, current_todo
from foldline.past.moments import entry_text
from foldline.protocol import NEW, BaseMessage, Entry, ImagePart, ToolResultMessage
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many
from foldline.view.items import Fate
from foldline.view.tokens import estimate_tokens

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
from .text import FullText, clipped, line_span, with_notes

RECALL_TOOLS = ("history_search", "history_read")
NO_ENTRY = "No entry contains this."
NO_COMMON_ENTRY = "No entry contains all of these words. Each by itself: {counts}."
MORE_ENTRIES = "[{entries}: add a word or a kind to narrow the search.]"
NO_SUBAGENT = "There is no child {name}. Available: {names}."
NO_MESSAGE = (
    "There is no message with the number {number}. history_search shows the numbers."
)
EMPTY_DMAIL = "The message is empty: it is all you will have at the checkpoint."
ONE_DMAIL = "Only one D-Mail can be sent per step: the first one is delivered."
UNREACHABLE = "Checkpoint {number} cannot be reached. Available: {numbers}."
SENT = "Sent: it is delivered when this step ends."
NO_TODOS = "The list is empty."
SEVERAL_STARTED = (
    "({count} items are in progress: it is better to finish one before the next.)"
)
_NOTE_TOKENS = 30
"""Tokens reserved for the note on entries that are not shown."""


class HistorySearchArguments(Arguments):
    query: str = Field(
        min_length=1,
        description='Words to find, or "several words in quotes" that stand together.',
    )
    kind: MessageKind | None = Field(
        None,
        description="Only messages of the user, your messages and calls, or tool results.",
    )
    limit: int = Field(20, ge=1, le=100, description="Maximum number of entries.")


class EntryArguments(Arguments):
    index: int = Field(
        description="Number of the entry, as given by history_search or a placeholder."
    )
    offset: int | None = Field(None, ge=1, description="First line, from 1.")
    limit: int | None = Field(
        None, ge=1, description="Number of lines; by default, all to the end."
    )
    child: str | None = Field(None, description="Name of a child of `task`.")


class HistorySearchTool(BaseTool[HistorySearchArguments]):
    """Searches all messages of the session, including compacted ones."""

    name = RECALL_TOOLS[0]
    description = (
        "Search all messages, calls and results of this session, including compacted ones. Lists the entries "
        "that contain all words of the query: paths, commands, numbers, parts of words, in any language. "
        "Special characters are literal; case is ignored. Each entry comes with its number, its state and "
        "the text around the hit. Entries that you still have in view come last. history_read shows a full "
        "entry."
    )
    arguments = HistorySearchArguments

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._search = EntrySearch(session.entries, without_tools=RECALL_TOOLS)

    def headline(self, arguments: HistorySearchArguments) -> str:
        return f'"{arguments.query}"'

    async def act(
        self, arguments: HistorySearchArguments, context: ToolContext
    ) -> ToolOutcome:
        projection = self._session.projection
        seen = {
            item.index
            for item in projection.view
            if item.fate == "live" and not item.written
        }
        result = await in_thread(
            lambda stopped: self._search.find(
                arguments.query,
                limit=arguments.limit,
                kind=arguments.kind,
                seen=seen,
                stopped=stopped,
            )
        )
        lines = [
            _hit_line(hit, projection.fate(hit.entry.index)) for hit in result.hits
        ]
        text, full = await fitted(
            _hit_list(result, lines, context.max_tokens), context, self.name
        )
        brief = many(result.total, "match", "matches")
        return ToolOutcome(text, brief=brief, full_output=full)


def _hit_line(hit: Hit, fate: Fate) -> str:
    """Format a hit, such as `212 (tool_result of bash, line 40, summarised by 240): …`."""
    entry = hit.entry
    details: list[str] = [entry.type]
    if isinstance(entry, ToolResultMessage):
        details = [f"{entry.type} of {entry.name}"]
    if hit.line > 1:
        details.append(f"line {hit.line}")
    details.append(_where(fate))
    return f"{entry.index} ({', '.join(details)}): {hit.snippet}"


def _where(fate: Fate) -> str:
    match fate.kind:
        case "live":
            return "in view"
        case "aside":
            return "never in view"
        case kind:
            return kind if fate.by is None else f"{kind} by {fate.by}"


def _hit_list(result: SearchResult, lines: Sequence[str], room: int) -> str:
    """Return the best hits that fit, but at least one.

    A note states the number of the others.
    """
    if not result.total:
        apart = ", ".join(f"{term} in {count}" for term, count in result.apart)
        if not apart:
            return NO_ENTRY
        return NO_COMMON_ENTRY.format(counts=apart)
    shown: list[str] = []
    room -= _NOTE_TOKENS
    for line in lines:
        room -= estimate_tokens(line) + 1
        if shown and room < 0:
            break
        shown.append(line)
    more = result.total - len(shown)
    if more:
        entries = f"{many(more, 'more entry', 'more entries')} match{'es' if more == 1 else ''}"
        shown.append(MORE_ENTRIES.format(entries=entries))
    return "\n".join(shown)


class HistoryReadTool(BaseTool[EntryArguments]):
    """Shows one entry of the history verbatim, or some of its lines."""

    name = RECALL_TOOLS[1]
    description = (
        "Show one entry of this session's history in its original form, even if it has been compacted, "
        "hidden or clipped. From a long entry, request only the lines you need."
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
        text, full = await in_thread(lambda _: _entry_lines(entry, arguments, context))
        images: tuple[ImagePart, ...] = ()
        if isinstance(entry, BaseMessage) and arguments.offset is None:
            images = tuple(part for part in entry.parts if isinstance(part, ImagePart))
        return ToolOutcome(
            text, brief=f"entry {arguments.index}", full_output=full, images=images
        )


def _child(session: Session, name: str) -> Session:
    """Return a subagent's session, given the subagent's id or short id."""
    events = [] if session.path is None else children_of(session.path)
    for path in events:
        if name in (path.parent.name, short_id(path.parent.name)):
            return Session.open(path)
    names = ", ".join(short_id(path.parent.name) for path in events) or "none"
    raise ToolFailure(
        NO_SUBAGENT, "not found ✗", name=repr(escaped_line(name)), names=names
    )


def _entry_lines(
    entry: Entry | None, arguments: EntryArguments, context: ToolContext
) -> tuple[str, str | None]:
    """Return the requested lines, and the path of the full entry if they had to be clipped."""
    text = None if entry is None else entry_text(entry)
    if text is None:
        raise ToolFailure(NO_MESSAGE, "not found ✗", number=arguments.index)
    text = context.mask(text)
    piece, first, note = lines_of(
        text, f"Entry {arguments.index}", arguments.offset, arguments.limit
    )
    room = context.max_tokens - estimate_tokens(note)
    if fits(piece, room):
        return with_notes(piece, note), None
    path = spilled(text, context.spill_dir, HistoryReadTool.name)
    full = FullText(
        named(path, context), first, by=f"`{HistoryReadTool.name}` {arguments.index}"
    )
    return with_notes(clipped(piece, room, full), note), str(path)


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
        dmail = self.waiting
        self.waiting = None
        return dmail


class DmailArguments(Arguments):
    message: str = Field(
        min_length=1,
        description="Everything you need to know there: what you found and changed, what to do next.",
    )
    checkpoint_id: int = Field(description="Number of a CHECKPOINT message.")


class DmailTool(BaseTool[DmailArguments]):
    name = "send_dmail"
    description = (
        "Send a message to yourself at an earlier CHECKPOINT. You forget everything after it, and continue "
        "from there with the message and the user's request. Files keep their current content. Use it if the "
        "steps since then were long and only their outcome matters: a large file read for one line, a search "
        "with one hit, an approach that failed. The user still sees everything."
    )
    arguments = DmailArguments

    def __init__(self, session: Session, mailbox: Mailbox) -> None:
        super().__init__()
        self._session = session
        self._mailbox = mailbox

    def headline(self, arguments: DmailArguments) -> str:
        return f"to checkpoint {arguments.checkpoint_id}: {escaped_line(arguments.message)}"

    async def act(self, arguments: DmailArguments, context: ToolContext) -> ToolOutcome:
        if not arguments.message.strip():
            raise ToolFailure(EMPTY_DMAIL)
        if self._mailbox.waiting is not None:
            raise ToolFailure(ONE_DMAIL, "not sent ✗")
        checkpoints = reachable(self._session)
        if arguments.checkpoint_id not in checkpoints:
            newest = ", ".join(map(str, checkpoints[-12:])) or "none yet"
            number = arguments.checkpoint_id
            raise ToolFailure(UNREACHABLE, "not sent ✗", number=number, numbers=newest)
        self._mailbox.waiting = Dmail(arguments.message, arguments.checkpoint_id)
        return ToolOutcome(SENT, brief="sent")


def reachable(session: Session) -> list[int]:
    """Return the ids of the checkpoints in the view that are newer than the last compaction."""
    projection = session.projection
    shown = {item.message.checkpoint for item in projection.view}
    compactions = projection.compactions()
    last_compaction = compactions[-1].index if compactions else NEW
    return [
        checkpoint.id
        for checkpoint in projection.checkpoints
        if checkpoint.index > last_compaction and checkpoint.id in shown
    ]


# --- todo ------------------------------------------------------------------------------------------------

Status = Literal["pending", "in_progress", "completed"]


def todo_lines(todos: Sequence[Todo]) -> list[str]:
    """Return the to-do list as shown to the model."""
    return [f"{_mark(todo)} {escaped_line(todo.text)}" for todo in todos]


def _mark(todo: Todo) -> str:
    if todo.is_done:
        return "[x]"
    if todo.is_begun:
        return "[>]"
    return "[ ]" if todo.is_open else "[-]"


class TodoItem(Arguments):
    # Ignore ids and priorities, which models add because other to-do tools have them.
    model_config = ConfigDict(extra="ignore")

    content: str = Field(
        min_length=1, description="The task, in a few words that stay the same."
    )
    status: Status = Field(description="State of the task.")


class TodoArguments(Arguments):
    todos: list[TodoItem] = Field(
        description="All items, including completed ones, in the order in which to do them."
    )


class TodoTool(BaseTool[TodoArguments]):
    name = "todo"
    description = (
        "Keep a to-do list; each call replaces the whole list. For work of three or more steps, or several "
        "requests: write the list before you begin, have one item in_progress, and mark it completed as soon "
        "as it is done and checked. Not for a single step or a question."
    )
    arguments = TodoArguments

    def headline(self, arguments: TodoArguments) -> str:
        return current_todo(
            [Todo(item.content, item.status) for item in arguments.todos]
        )

    async def act(self, arguments: TodoArguments, context: ToolContext) -> ToolOutcome:
        todos = arguments.todos
        if not todos:
            return ToolOutcome(NO_TODOS, brief="empty")
        lines = todo_lines([Todo(item.content, item.status) for item in todos])
        started = sum(item.status == "in_progress" for item in todos)
        if started > 1:
            lines.append(SEVERAL_STARTED.format(count=started))
        completed = sum(item.status == "completed" for item in todos)
        text, full = await fitted("\n".join(lines), context, self.name)
        return ToolOutcome(
            text, brief=f"{completed} of {len(todos)} done", full_output=full
        )
