"""Search across all sessions: what was ever said on this machine, found again, and in which session.

Nothing is kept between two searches. Event files are read from their ends, the newest session first. The
bytes of most blocks tell that they hold nothing; whether a record matches is decided on its text, in any
script (docs/decisions/0018-search-across-sessions.md).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from foldline.context.moments import entry_text
from foldline.context.text_search import Query, casefolded, excerpt, marks, parse_query
from foldline.data import EVENTS
from foldline.files import opened
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

from .catalog import SessionInfo, list_sessions, read_snapshot, rebuilt
from .children import tree_of
from .log import BLANK, entry_in
from .search import ByteFilter, MessageKind, fused_scores

_AT_A_TIME = 2**20
"""Bytes of an event file that are looked at before anybody is asked whether to go on."""
_PER_SESSION = 20
"""Matches of one session that are looked at: more of them say nothing new about it."""
_SHOWN = 5
"""Hits of one session that are given."""
_RECALL = ("history_search", "history_read")
"""Tools that only repeat what the session says elsewhere."""


@dataclass(frozen=True, slots=True)
class SessionHit:
    """One entry that matches."""

    index: int
    kind: str
    """The entry's type: `user`, `assistant`, `tool_result`, `title` or `revert`."""
    line: int
    """The line of the match in what the entry says, counted from 1."""
    excerpt: str
    """The text around the match, on one line."""
    marks: Sequence[tuple[int, int]]
    """What matches in it: characters from, to."""


@dataclass(frozen=True, slots=True)
class SessionHits:
    """A session, and what matches in it."""

    path: Path
    """Its event file."""
    id: str
    """Of a subagent's session, behind that of its parent: `ID/CHILD`."""
    cwd: str
    title: str
    """As lists show it; empty where nothing was said yet."""
    updated_at: datetime
    archived: bool
    hits: Sequence[SessionHit]
    """Best first; some of them, where there are many."""
    total: int
    """How many entries were found to match."""
    more: bool
    """Whether there may be more than `total`."""

    @property
    def root(self) -> Path:
        """The event file of the session that lists show: of a subagent's, that which it belongs to."""
        return self.path.parents[2 * self.id.count("/")] / EVENTS


@dataclass(frozen=True, slots=True)
class SessionsFound:
    sessions: Sequence[SessionHits]
    """Best first, no more than were asked for."""
    complete: bool
    """Whether these are all. Otherwise the oldest matches were left out, or sessions beyond the limit."""


class _Match(NamedTuple):
    info: SessionInfo
    """Of the session, or of the one whose subagent said it."""
    path: Path
    hit: SessionHit
    whole: bool
    """Whether it holds the query as it was written."""
    relevance: float


def sessions_to_search(home: Path, cwd: Path | str | None = None) -> list[SessionInfo]:
    """Those of a folder, or all that can be read, archived ones, too; the one last written to first. Raises
    FoldlineError where they cannot be listed."""
    infos = [*list_sessions(home, cwd), *list_sessions(home, cwd, archived=True)]
    return sorted(
        (info for info in infos if info.readable), key=lambda info: info.meta.updated_at, reverse=True
    )


def search_sessions(
    sessions: Sequence[SessionInfo],
    query: str,
    *,
    limit: int = 20,
    kind: MessageKind | None = None,
    on_session: Callable[[SessionInfo], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> SessionsFound:
    """Those with an entry in which every word and "quoted phrase" of the query occurs, best first.

    Blocks, for a thread. Of very many matches, the newest are looked at.

    Args:
        sessions: the newest first; their subagents are searched with them.
        on_session: hears of each before it is searched.
        stopped: once it is true, the search gives up: its answer is of no use then.
    """
    asked = parse_query(query)
    matches: list[_Match] = []
    complete = True
    for info in sessions if asked.terms else ():
        on_session(info)
        for path in tree_of(info.path):
            entries = _matching(path, asked, kind, stopped)
            newest = islice(entries, _PER_SESSION)
            # Where an index was written twice, what stands first is the entry.
            matches += {found[0].index: _match(info, path, *found, asked) for found in newest}.values()
        complete = not stopped() and len(matches) < _PER_SESSION * limit
        if not complete:
            break
    newest_first = range(len(matches))
    scores = fused_scores([-at for at in sorted(newest_first, key=lambda at: -matches[at].relevance)])
    ranked = sorted(newest_first, key=lambda at: (not matches[at].whole, -scores[-at]))
    by_path = grouped((matches[at].path, matches[at]) for at in ranked)
    found = [_hits(own) for own in list(by_path.values())[:limit]]
    return SessionsFound(found, complete and len(by_path) <= limit)


def _matching(
    path: Path, asked: Query, kind: MessageKind | None, stopped: Callable[[], bool]
) -> Iterator[tuple[Entry, str]]:
    """The entries of an event file that match, the newest first, and what they say."""
    sieve = ByteFilter(asked.terms)
    for lines in _blocks_from_the_end(path):
        if stopped():
            return
        if not sieve.lets_through(lines):
            continue
        for line in reversed(lines.split(b"\n")):
            entry = entry_in(line.strip(BLANK)) if sieve.lets_through(line) else None
            if entry is not None and kind in (None, entry.type):
                text = searchable_text(entry)
                if text and asked.matches(casefolded(text)):
                    yield entry, text


def _blocks_from_the_end(path: Path) -> Iterator[bytes]:
    """Whole lines of a file, many at once; none of what cannot be read."""
    try:
        with opened(path) as file:
            end = file.seek(0, 2)
            begun: list[bytes] = []  # pieces of a line that begins before them, the last piece first
            while end > 0:
                start = max(0, end - _AT_A_TIME)
                file.seek(start)
                block = file.read(end - start)
                end = start
                first, newline, lines = block.partition(b"\n") if start else (b"", b"\n", block)
                if not newline:
                    begun.append(block)
                    continue
                yield b"".join([lines, *reversed(begun)])
                begun = [first]
    except OSError:
        return


def searchable_text(entry: Entry) -> str:
    """What of an entry can be found; empty where nothing. Summaries only repeat, and system prompts and
    instruction files are in every session."""
    match entry:
        case Title():
            return entry.title
        case ToolResultMessage() if entry.name in _RECALL:
            return ""
        case UserMessage() | AssistantMessage() | ToolResultMessage() | Revert():
            return entry_text(entry, without_calls=_RECALL) or ""
        case _:
            return ""


def _match(info: SessionInfo, path: Path, entry: Entry, text: str, asked: Query) -> _Match:
    lowered = casefolded(text)
    shown = excerpt(text, lowered, max(0, asked.place_in(lowered)))
    hit = SessionHit(entry.index, entry.type, shown.line, shown.text, marks(shown.text, asked))
    return _Match(info, path, hit, asked.whole in lowered, asked.relevance(lowered))


def _hits(matching: Sequence[_Match]) -> SessionHits:
    """All of one session, best first."""
    info, path = matching[0].info, matching[0].path
    meta = info.meta
    if path != info.path:
        with suppress(FoldlineError):  # of a subagent whose header is torn, what its parent's says
            meta = rebuilt(path, read_snapshot(path))
    below = path.relative_to(info.path.parent).parts[1::2]
    return SessionHits(
        path=path,
        id="/".join((info.id, *below)),
        cwd=meta.cwd,
        title=meta.title,
        updated_at=meta.updated_at,
        archived=info.archived,
        hits=[match.hit for match in matching[:_SHOWN]],
        total=len(matching),
        more=len(matching) >= _PER_SESSION,
    )
