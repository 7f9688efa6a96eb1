"""`history_search` and `history_read`: the agent's own full history. What was folded can be fetched again."""

from collections.abc import Iterator

from pydantic import Field

from foldline.context.serialise import serialise
from foldline.history import Session
from foldline.protocol import BaseMessage

from .base import Arguments, BaseTool, Tool, ToolContext, ToolFailure, ToolOutcome
from .clip import fitted

_MOST_HITS = 30
_AROUND = 100
"""Characters shown on each side of a hit."""


class _Search(Arguments):
    query: str = Field(description="Text to find, upper and lower case alike.")


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
        hits = list(self._hits(arguments.query))
        shown = hits[-_MOST_HITS:]
        left_out = f"({len(hits) - len(shown)} older hits not shown)\n" if len(hits) > len(shown) else ""
        text = left_out + "\n".join(shown) if hits else "No entry contains this."
        return ToolOutcome(text, brief=f"{len(hits)} match{'' if len(hits) == 1 else 'es'}")

    def _hits(self, query: str) -> Iterator[str]:
        wanted = query.casefold()
        for message in _messages(self._session):
            text = serialise([message])
            place = text.casefold().find(wanted)
            if wanted and place >= 0:
                around = text[max(0, place - _AROUND) : place + len(wanted) + _AROUND]
                yield f"{message.index}: …{' '.join(around.split())}…"


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
        entry = self._session.projection.entry(arguments.index)
        if not isinstance(entry, BaseMessage):
            raise ToolFailure(f"There is no message with the number {arguments.index}.", "not found ✗")
        text, whole = await fitted(entry.text or serialise([entry]), context, self.name)
        return ToolOutcome(text, brief=f"entry {entry.index}", full_output=whole)


def _messages(session: Session) -> Iterator[BaseMessage]:
    return (entry for entry in session.entries if isinstance(entry, BaseMessage))


def recall_tools(session: Session) -> tuple[Tool, ...]:
    return (HistorySearch(session), HistoryRead(session))
