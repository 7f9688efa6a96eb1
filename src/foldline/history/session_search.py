"""Full-text search across all sessions.

There is no index. The newest session is read first, and each event file is read from its end. Most blocks are
excluded by looking at their bytes. The text of all other records is compared with the query
(docs/decisions/0018-search-across-sessions.md).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from foldline.data import EVENTS
from foldline.files import opened
from foldline.past.moments import entry_text
from foldline.protocol import (
    AssistantMessage,
    Entry,
    FoldlineError,
    Revert,
    Title,
    ToolResultMessage,
    UserMessage,
)
from foldline.sequences import grouped
from foldline.text.search import Query, casefolded, excerpt, marks, parse_query

from .catalog import SessionInfo, list_sessions, rebuilt
from .children import tree_of
from .log import BLANK, entry_in
from .search import ByteFilter, MessageKind, best_first

_BLOCK_BYTES = 2**20
"""Number of bytes that are read from an event file between two checks of `stopped`."""
_PER_SESSION = 20
"""Number of matches after which the search of a session stops."""
_MOST_HITS = 5
"""Maximum number of hits per session in a result.

Further hits are only counted.
"""
_RECALL_TOOLS = ("history_search", "history_read")
"""Tools whose results only repeat other entries."""


@dataclass(frozen=True, slots=True)
class SessionHit:
    """An entry that matches a query."""

    index: int
    kind: str
    """The entry's type: `user`, `assistant`, `tool_result`, `title` or `revert`."""
    line: int
    """Line number of the match in the entry's text, counted from 1."""
    excerpt: str
    """Text around the match, joined to one line."""
    marks: Sequence[tuple[int, int]]
    """Start and end of each match in the excerpt, as character positions."""


@dataclass(frozen=True, slots=True)
class SessionHits:
    """A session that contains matching entries."""

    path: Path
    """The session's event file."""
    id: str
    """Id of the session.

    For a subagent's session, this is `ID/CHILD`, which begins with the parent's id.
    """
    cwd: str
    title: str
    """Title as shown in lists. Empty before the first prompt."""
    updated_at: datetime
    archived: bool
    hits: Sequence[SessionHit]
    """The hits, best first; may be incomplete."""
    total: int
    """Number of matching entries found."""
    more: bool
    """Whether there may be more matching entries."""

    @property
    def root(self) -> Path:
        """Event file of the topmost ancestor session."""
        return self.path.parents[2 * self.id.count("/")] / EVENTS


@dataclass(frozen=True, slots=True)
class SessionsFound:
    """The result of a search across sessions."""

    sessions: Sequence[SessionHits]
    """The sessions, best first, up to the limit."""
    complete: bool
    """Whether the result is complete.

    False if old matches, or sessions beyond the limit, are missing.
    """


class _SessionMatch(NamedTuple):
    info: SessionInfo
    """The session in the list.

    For a subagent's entry, this is the topmost parent session.
    """
    path: Path
    hit: SessionHit
    is_exact: bool
    """Whether the entry contains the query as it was typed."""
    relevance: float


def sessions_to_search(home: Path, cwd: Path | str | None = None) -> list[SessionInfo]:
    """List readable sessions, most recently used first.

    Archived sessions are included.

    Raises:
        FoldlineError: the sessions cannot be listed.
    """
    infos = [*list_sessions(home, cwd), *list_sessions(home, cwd, archived=True)]
    readable = [info for info in infos if info.readable]
    return sorted(readable, key=lambda info: info.meta.updated_at, reverse=True)


def search_sessions(
    sessions: Sequence[SessionInfo],
    query: str,
    *,
    limit: int = 20,
    kind: MessageKind | None = None,
    on_session: Callable[[SessionInfo], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> SessionsFound:
    """Find sessions with entries that match a query.

    An entry matches if it contains every word and every "quoted phrase" in the query. If there are very many
    matches, only the newest ones are ranked. This function blocks, so call it in another thread.

    Args:
        sessions: sessions to search, newest first, together with their subagents.
        limit: maximum number of sessions to return.
        kind: type of message to search. By default, all types are searched.
        on_session: called with each session before it is searched.
        stopped: called frequently. As soon as it returns true, the search stops with an incomplete result.
    """
    parsed_query = parse_query(query)
    matches: list[_SessionMatch] = []
    is_complete = True
    for info in sessions if parsed_query.terms else ():
        on_session(info)
        for path in tree_of(info.path):
            entries = _matching_entries(path, parsed_query, kind, stopped)
            by_index: dict[int, _SessionMatch] = {}
            for entry, text in islice(entries, _PER_SESSION):
                # If an index was written twice, the first record is the valid one. It is read last.
                by_index[entry.index] = _match(info, path, entry, text, parsed_query)
            matches += by_index.values()
        is_complete = not stopped() and len(matches) < _PER_SESSION * limit
        if not is_complete:
            break
    by_path = grouped((match.path, match) for match in best_first(matches))
    results = [_hits(own_matches) for own_matches in islice(by_path.values(), limit)]
    return SessionsFound(results, is_complete and len(by_path) <= limit)


def _matching_entries(
    path: Path, query: Query, kind: MessageKind | None, stopped: Callable[[], bool]
) -> Iterator[tuple[Entry, str]]:
    """Yield matching entries with their text, newest first."""
    sieve = ByteFilter(query.terms)
    for lines in _blocks_from_the_end(path):
        if stopped():
            return
        if not sieve.lets_through(lines):
            continue
        for line in reversed(lines.split(b"\n")):
            if not sieve.lets_through(line):
                continue
            entry = entry_in(line.strip(BLANK))
            if entry is None or kind not in (None, entry.type):
                continue
            text = searchable_text(entry)
            if text and query.matches(casefolded(text)):
                yield entry, text


def _blocks_from_the_end(path: Path) -> Iterator[bytes]:
    """Yield blocks of complete lines, the last block first.

    The iteration ends at the first read error.
    """
    try:
        with opened(path) as file:
            end = file.seek(0, 2)
            # Pieces of a line that begins before the current block, the last piece first.
            pieces: list[bytes] = []
            while end > 0:
                start = max(0, end - _BLOCK_BYTES)
                file.seek(start)
                block = file.read(end - start)
                end = start
                first_piece, newline, lines = block.partition(b"\n")
                if start == 0:
                    lines = block
                elif not newline:
                    pieces.append(block)
                    continue
                yield b"".join([lines, *reversed(pieces)])
                pieces = [first_piece]
    except OSError:
        return


def searchable_text(entry: Entry) -> str:
    """Return an entry's searchable text.

    Returns an empty string for summaries, because they repeat other entries, and for system prompts and
    instruction files, because every session has them.
    """
    match entry:
        case Title():
            return entry.title
        case ToolResultMessage() if entry.name in _RECALL_TOOLS:
            return ""
        case UserMessage() | AssistantMessage() | ToolResultMessage() | Revert():
            return entry_text(entry, without_calls=_RECALL_TOOLS) or ""
        case _:
            return ""


def _match(
    info: SessionInfo, path: Path, entry: Entry, text: str, query: Query
) -> _SessionMatch:
    lowered = casefolded(text)
    place = max(0, query.place_in(lowered))
    shown = excerpt(text, lowered, place)
    hit = SessionHit(
        index=entry.index,
        kind=entry.type,
        line=shown.line,
        excerpt=shown.text,
        marks=marks(shown.text, query),
    )
    return _SessionMatch(
        info=info,
        path=path,
        hit=hit,
        is_exact=query.phrase in lowered,
        relevance=query.relevance(lowered),
    )


def _hits(matches: Sequence[_SessionMatch]) -> SessionHits:
    """Return one session's hits, best first."""
    info = matches[0].info
    path = matches[0].path
    meta = info.meta
    if path != info.path:
        with suppress(FoldlineError):  # if its header is damaged, show the parent's
            meta = rebuilt(path)
    child_ids = path.relative_to(info.path.parent).parts[1::2]
    return SessionHits(
        path=path,
        id="/".join((info.id, *child_ids)),
        cwd=meta.cwd,
        title=meta.title,
        updated_at=meta.updated_at,
        archived=info.archived,
        hits=[match.hit for match in matches[:_MOST_HITS]],
        total=len(matches),
        more=len(matches) >= _PER_SESSION,
    )
