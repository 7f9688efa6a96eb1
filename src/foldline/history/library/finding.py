"""One search across sessions: which candidates match, and the best of them by session."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from foldline.context.matching import Query, excerpt, fold, marks
from foldline.data import EVENTS
from foldline.files import opened

from ..search import MessageKind, fused_scores
from .candidates import Candidate, Shelf, candidates, of_folder
from .intake import ARCHIVE, ROOTS, entry_at, searched

if TYPE_CHECKING:
    import sqlite3

_PER_SESSION = 20
"""Matches of one session that are looked at: more of them say nothing new about it."""
_SHOWN = 5
"""Hits of one session that are given."""
_MOST_READ = 50_000
"""Candidates that are looked at where few of them match."""


@dataclass(frozen=True, slots=True)
class SessionHit:
    """One entry that matches."""

    index: int
    kind: str
    """The entry's type: `user`, `assistant`, `tool_result`, `title` or `revert`."""
    excerpt: str
    """The text around the match, on one line."""
    marks: Sequence[tuple[int, int]]
    """What matches in it: characters from, to."""
    line: int
    """The line of the match in what the entry says, counted from 1."""


@dataclass(frozen=True, slots=True)
class SessionHits:
    """A session, and what matches in it."""

    path: Path
    """Its event file."""
    id: str
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


@dataclass(frozen=True, slots=True)
class SessionsFound:
    sessions: Sequence[SessionHits]
    """Best first, no more than were asked for."""
    complete: bool
    """Whether these are all. Otherwise the oldest matches were left out, or sessions beyond the limit."""
    clipped: int
    """Entries so long that only their beginnings and ends were searched, in all sessions."""


class _Match(NamedTuple):
    candidate: Candidate
    whole: bool
    """Whether it holds the query as it was written."""
    relevance: float


@dataclass(frozen=True, slots=True)
class Find:
    """What is looked for; called with a connection to the index, it answers."""

    home: Path
    asked: Query
    limit: int
    cwd: Path | str | None
    kind: MessageKind | None
    stopped: Callable[[], bool]

    def __call__(self, database: "sqlite3.Connection") -> SessionsFound:
        with ExitStack() as files:
            records = _Records(self.home, files)
            matches, per_session, complete = self._matches(database, records)
            best_first = self._best_first(matches)
            by_session: dict[Shelf, list[_Match]] = {}
            for match in best_first:
                by_session.setdefault(match.candidate.shelf, []).append(match)
            found = [
                self._hits(session, own, records, not complete or per_session[session.id] >= _PER_SESSION)
                for session, own in list(by_session.items())[: self.limit]
            ]
        [clipped] = database.execute("SELECT coalesce(sum(clipped), 0) FROM sessions").fetchone()
        return SessionsFound(found, complete and len(by_session) <= self.limit, clipped)

    # --- what matches --------------------------------------------------------------------------------

    def _matches(
        self, database: "sqlite3.Connection", records: "_Records"
    ) -> tuple[list[_Match], Counter[int], bool]:
        """The newest matches, how many they are by session, and whether they are all (but for sessions that
        have enough of them)."""
        matches: list[_Match] = []
        per_session: Counter[int] = Counter()
        asked_for = of_folder(self.home, self.cwd)
        found = candidates(
            database,
            self.asked.terms,
            self.kind,
            lambda shelf: per_session[shelf.id] < _PER_SESSION and asked_for(shelf),
        )
        for read, candidate in enumerate(found):
            if self.stopped() or len(matches) >= _PER_SESSION * self.limit or read >= _MOST_READ:
                return matches, per_session, False
            match = self._match(candidate, records)
            if match is not None:
                matches.append(match)
                per_session[candidate.shelf.id] += 1
        return matches, per_session, True

    def _match(self, candidate: Candidate, records: "_Records") -> _Match | None:
        text = records.text(candidate)
        folded = fold(text) if text else ""
        if not folded or not self.asked.matches(folded):
            return None
        return _Match(candidate, self.asked.whole in folded, self.asked.relevance(folded))

    # --- the best of it ------------------------------------------------------------------------------

    @staticmethod
    def _best_first(matches: Sequence[_Match]) -> list[_Match]:
        relevant_first = sorted(matches, key=lambda match: -match.relevance)
        scores = fused_scores([match.candidate.id for match in relevant_first])
        return sorted(matches, key=lambda match: (not match.whole, -scores[match.candidate.id]))

    def _hits(
        self, session: Shelf, matches: Sequence[_Match], records: "_Records", more: bool
    ) -> SessionHits:
        hits = [self._hit(match.candidate, records) for match in matches[:_SHOWN]]
        return SessionHits(
            path=self.home / session.folder / EVENTS,
            id=session.name,
            cwd=session.cwd,
            title=session.title or session.prompt,
            updated_at=datetime.fromisoformat(session.updated),
            archived=session.folder.startswith(f"{ARCHIVE}/"),
            hits=hits,
            total=len(matches),
            more=more,
        )

    def _hit(self, candidate: Candidate, records: "_Records") -> SessionHit:
        text = records.text(candidate) or ""
        folded = fold(text)
        shown = excerpt(text, folded, max(0, self.asked.place_in(folded)))
        return SessionHit(
            candidate.index, candidate.kind, shown.text, marks(shown.text, self.asked), shown.line
        )


# --- reading what is there ------------------------------------------------------------------------


class _Records:
    """What entries say, from the event files. Keeps the last one open."""

    def __init__(self, home: Path, files: ExitStack) -> None:
        self._home = home
        self._files = files
        self._folder = ""
        self._file: BinaryIO | None = None

    def text(self, candidate: Candidate) -> str | None:
        """What is searched of this entry; None where its file does not hold it any more."""
        file = self._open(candidate.shelf.folder)
        if file is None:
            return None
        try:
            entry = entry_at(file, candidate.offset)
        except OSError:
            return None
        if entry is None or entry.index != candidate.index:
            return None
        return searched(entry)[1]

    def _open(self, folder: str) -> BinaryIO | None:
        if folder != self._folder:
            self._files.close()
            self._folder, self._file = folder, None
            tail = folder.split("/", 1)[1]
            # It may have been moved since the index was looked at.
            for place in (folder, *(f"{root}/{tail}" for root in ROOTS)):
                try:
                    self._file = self._files.enter_context(opened(self._home / place / EVENTS))
                    break
                except OSError:
                    continue
        return self._file
