"""`history_search` and `history_read`: the agent's own full history. What was folded can be fetched again."""

from collections.abc import Sequence

from pydantic import Field

from foldline.context.moments import entry_text
from foldline.context.tokens import estimate_tokens
from foldline.context.view import Fate
from foldline.history import EntrySearch, Found, Hit, MessageKind, Session
from foldline.protocol import BaseMessage, Entry, ImagePart, ToolResultMessage

from .base import Arguments, BaseTool, Tool, ToolContext, ToolOutcome
from .clip import Whole, clipped, fits, fitted, in_thread, spilled, with_notes
from .failure import ToolFailure
from .paths import named
from .text import counted, line_count, lines_from

_NAMES = ("history_search", "history_read")
_NOTE_TOKENS = 30
"""Room for the line that says how many entries are not shown."""


class _Search(Arguments):
    # The query comes first: the offline model fills in the first text it finds.
    query: str = Field(
        min_length=1, description='Words to find, or "several words in quotes" as they stand together.'
    )
    kind: MessageKind | None = Field(
        None, description="Only what the user said, what you said and called, or what tools returned."
    )
    limit: int = Field(20, ge=1, le=100, description="The most entries to list.")


class _Read(Arguments):
    index: int = Field(description="Number of the entry, as history_search or a stub names it.")
    offset: int | None = Field(None, ge=1, description="First line, from 1.")
    limit: int | None = Field(None, ge=1, description="How many lines; all to the end if left out.")


class HistorySearch(BaseTool[_Search]):
    """Finds text in every message since the session began, folded or not."""

    name = _NAMES[0]
    description = (
        "Search everything said, called and returned in this session, folded parts included. Lists entries "
        "that hold all words of the query: paths, commands, numbers, parts of words, any language; signs "
        "are taken as they are, upper and lower case alike. Each comes with its number, where it is now "
        "and the text around the hit; those you still have in view come last. history_read shows one whole."
    )
    level = "read"

    def __init__(self, session: Session) -> None:
        super().__init__(_Search)
        self._session = session
        self._search = EntrySearch(session.entries, without_tools=_NAMES)

    def headline(self, arguments: _Search) -> str:
        return f'"{arguments.query}"'

    async def act(self, arguments: _Search, context: ToolContext) -> ToolOutcome:
        projection = self._session.projection
        seen = {item.index for item in projection.view if item.fate == "live" and not item.written}
        found = await in_thread(
            lambda stopped: self._search.find(
                arguments.query, limit=arguments.limit, kind=arguments.kind, seen=seen, stopped=stopped
            )
        )
        lines = [_line(hit, projection.fate(hit.entry.index)) for hit in found.hits]
        text, whole = await fitted(_listed(found, lines, context.max_tokens), context, self.name)
        brief = counted(found.total, "match", "matches")
        return ToolOutcome(text, brief=brief, full_output=whole)


def _line(hit: Hit, fate: Fate) -> str:
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
        entries = "1 more entry matches" if more == 1 else f"{more} more entries match"
        shown.append(f"[{entries}: add a word or a kind to narrow it down.]")
    return "\n".join(shown)


class HistoryRead(BaseTool[_Read]):
    """Shows one entry of the history exactly as it was, or some of its lines."""

    name = _NAMES[1]
    description = (
        "Show one entry of this session's history as it was, folded, hidden or clipped since or not. Of a "
        "long one, ask for the lines you need."
    )
    level = "read"

    def __init__(self, session: Session) -> None:
        super().__init__(_Read)
        self._session = session

    def headline(self, arguments: _Read) -> str:
        first = arguments.offset or 1
        match arguments.offset, arguments.limit:
            case None, None:
                return f"entry {arguments.index}"
            case _, None:
                return f"entry {arguments.index}:{first}-"
            case _, limit:
                return f"entry {arguments.index}:{first}-{first + (limit or 1) - 1}"

    async def act(self, arguments: _Read, context: ToolContext) -> ToolOutcome:
        entry = self._session.projection.entry(arguments.index)
        text, whole = await in_thread(lambda _: _shown(entry, arguments, context))
        parts = entry.parts if isinstance(entry, BaseMessage) and arguments.offset is None else ()
        return ToolOutcome(
            text,
            brief=f"entry {arguments.index}",
            full_output=whole,
            images=tuple(part for part in parts if isinstance(part, ImagePart)),
        )


def _shown(entry: Entry | None, arguments: _Read, context: ToolContext) -> tuple[str, str | None]:
    """The lines asked for, within the room; and a file with the whole entry, where they do not fit."""
    text = None if entry is None else entry_text(entry)
    if text is None:
        sentence = f"There is no message with the number {arguments.index}."
        raise ToolFailure(f"{sentence} history_search tells the numbers.", "not found ✗")
    text = context.mask(text)
    total, first = line_count(text), arguments.offset or 1
    if first > max(total, 1):
        beyond = f"line {first} is beyond its end"
        raise ToolFailure(f"Entry {arguments.index} has only {counted(total, 'line')}; {beyond}.")
    piece = lines_from(text, first, arguments.limit)
    count = line_count(piece)
    note = "" if count == total else f"[lines {first}–{first + count - 1} of {total}]"
    room = context.max_tokens - estimate_tokens(note)
    if fits(piece, room):
        return with_notes(piece, note), None
    path = spilled(text, context.spill_dir, HistoryRead.name)
    whole = Whole(named(path, context), first, by=f"`{HistoryRead.name}` {arguments.index}")
    return with_notes(clipped(piece, room, whole), note), str(path)


def recall_tools(session: Session) -> tuple[Tool, ...]:
    return (HistorySearch(session), HistoryRead(session))
