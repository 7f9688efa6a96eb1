"""`history_search` and `history_read`: the agent's own full history. What was folded can be fetched again."""

import re
from collections.abc import Callable, Iterator, Sequence

from pydantic import Field

from foldline.history import Session
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ImagePart,
    ToolResultMessage,
)

from .base import Arguments, BaseTool, Tool, ToolContext, ToolFailure, ToolOutcome
from .clip import fitted
from .offload import in_thread

_MOST_HITS = 30
_AROUND = 100
"""Characters shown on each side of a hit."""


class _Search(Arguments):
    query: str = Field(min_length=1, description="Text to find, upper and lower case alike.")


class _Read(Arguments):
    index: int = Field(description="Number of the entry, as history_search or a stub names it.")


class HistorySearch(BaseTool[_Search]):
    """Finds text in every message since the session began, folded or not."""

    name = "history_search"
    description = (
        "Search the whole history of this session, folded parts included. Returns entry numbers with "
        "the text around each hit; history_read shows an entry whole."
    )
    level = "read"

    def __init__(self, session: Session) -> None:
        super().__init__(_Search)
        self._session = session

    def headline(self, arguments: _Search) -> str:
        return f'"{arguments.query}"'

    async def act(self, arguments: _Search, context: ToolContext) -> ToolOutcome:
        entries = tuple(self._session.entries)
        hits = await in_thread(lambda stopped: list(_hits(entries, arguments.query, stopped)))
        shown = hits[-_MOST_HITS:]
        left_out = f"({len(hits) - len(shown)} older hits not shown)\n" if len(hits) > len(shown) else ""
        text = left_out + "\n".join(shown) if hits else "No entry contains this."
        text, whole = await fitted(text, context, self.name)
        brief = f"{len(hits)} match{'' if len(hits) == 1 else 'es'}"
        return ToolOutcome(text, brief=brief, full_output=whole)


def _hits(entries: Sequence[Entry], query: str, stopped: Callable[[], bool]) -> Iterator[str]:
    """One line an entry that holds the query; what these tools said themselves is left out."""
    wanted = re.compile(re.escape(query), re.IGNORECASE)
    for entry in entries:
        if stopped():
            return
        if not isinstance(entry, BaseMessage) or _is_recall(entry):
            continue
        text = original(entry)
        found = wanted.search(text)
        if found:
            around = text[max(0, found.start() - _AROUND) : found.end() + _AROUND]
            yield f"{entry.index} ({entry.type}): …{' '.join(around.split())}…"


def _is_recall(message: BaseMessage) -> bool:
    names = (HistorySearch.name, HistoryRead.name)
    if isinstance(message, AssistantMessage) and message.calls:
        return all(call.name in names for call in message.calls)
    return isinstance(message, ToolResultMessage) and message.name in names


def original(message: BaseMessage) -> str:
    """What a message says, nothing shortened: its text, and its calls as they were made."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    pieces = [message.text, *(f"{call.name}({call.arguments})" for call in calls)]
    return "\n".join(piece for piece in pieces if piece)


class HistoryRead(BaseTool[_Read]):
    """Shows one entry of the history exactly as it was."""

    name = "history_read"
    description = "Show one entry of this session's history whole, as it was before it was folded."
    level = "read"

    def __init__(self, session: Session) -> None:
        super().__init__(_Read)
        self._session = session

    def headline(self, arguments: _Read) -> str:
        return f"entry {arguments.index}"

    async def act(self, arguments: _Read, context: ToolContext) -> ToolOutcome:
        match self._session.projection.entry(arguments.index):
            case BaseMessage() as message:
                text, images = original(message), message.parts
            case Compaction() as fold:
                text, images = fold.summary, ()
            case _:
                sentence = f"There is no message with the number {arguments.index}."
                raise ToolFailure(sentence, "not found ✗")
        text, whole = await fitted(text, context, self.name)
        return ToolOutcome(
            text,
            brief=f"entry {arguments.index}",
            full_output=whole,
            images=tuple(part for part in images if isinstance(part, ImagePart)),
        )


def recall_tools(session: Session) -> tuple[Tool, ...]:
    return (HistorySearch(session), HistoryRead(session))
