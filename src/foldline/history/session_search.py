"""Search across all sessions: what was ever said on this machine, found again, and in which session.

The index beside the sessions (`search.db`) knows what may match and where it stands in which event file;
whether it does is decided there, on the text. So the index can be thrown away at any time, and any piece of
any text is found, in any script.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from foldline.context.text_search import Query, casefolded, excerpt, marks, parse_query
from foldline.data import EVENTS
from foldline.files import opened

from . import search_index
from .catalog import tie_to
from .origin import Folder
from .paths import workdir_key
from .search import MessageKind, fused_scores
from .search_index import IndexedSession, IndexInUse, IndexLost, SessionPiece, Store

if TYPE_CHECKING:
    import sqlite3

SEARCH = "search.db"
_AT_A_TIME = 4 * 2**20
"""Bytes of event files that are taken in before others get their turn."""
_IN_VAIN = 3
"""Times in a row that another process was said to be quicker, and had changed nothing: it is damaged then."""
_MOST_TOGETHER = 100
"""Sessions taken in at once."""
_PER_SESSION = 20
"""Matches of one session that are looked at: more of them say nothing new about it."""
_SHOWN = 5
"""Hits of one session that are given."""
_MOST_READ = 50_000
"""Candidates that are looked at where few of them match."""
_SKIPPED = 100
"""Candidates in a row that nobody asked for, before the rest of their block is jumped over."""
_TRIGRAM = 3
_MOST = 48
"""Trigrams of a query that are looked up: enough to leave few candidates, few enough for SQLite's parser."""
_MOST_BEGINNINGS = 256
"""A short term that begins more trigrams than this is too common to leave anything out."""


class IndexProgress(NamedTuple):
    """How far the index is, in bytes of event files."""

    done: int
    total: int
    name: str
    """The session they were of."""


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
    clipped: int
    """Entries so long that only their beginnings and ends were searched, in all sessions."""


class SessionSearch:
    """The search across the sessions in one data folder. Both methods block, for any number of threads and
    processes; `find` finds what `refresh` has taken in so far."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._store = Store(home / SEARCH)

    @property
    def trouble(self) -> str:
        """Why the index could not be kept on disk, as a sentence; empty where it is."""
        if not self._store.trouble:
            return ""
        return (
            f"The search index cannot be kept in {self._store.path} ({self._store.trouble}): "
            "it was made in memory, and will be made anew next time."
        )

    def find(
        self,
        query: str,
        *,
        limit: int = 20,
        cwd: Path | str | None = None,
        kind: MessageKind | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> SessionsFound:
        """The sessions with an entry in which every word and "quoted phrase" of the query occurs, best first.

        Only those of the folder `cwd`, if one is given. Of very many matches, the newest are looked at. Once
        `stopped()` is true it gives up: its answer is of no use then. Raises IndexInUse.
        """
        if not self._home.is_dir():
            return SessionsFound((), complete=True, clipped=0)  # and no folder is made for it

        def search(database: "sqlite3.Connection") -> SessionsFound:
            with ExitStack() as files:
                asked = parse_query(query)
                belongs = _of_folder(self._home, cwd)
                return _Search(database, _Records(self._home, files), asked, kind, stopped).best(
                    limit, belongs
                )

        while True:
            try:
                return self._store.run(search)
            except IndexLost:
                self.refresh(stopped=stopped)

    def refresh(
        self,
        progress: Callable[[IndexProgress], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Take in what was appended to any session since the last time, the newest first; whether all is in.

        It is not where `stopped()` became true (what was taken in stays), or another process keeps the index
        to itself. Raises FoldlineError where the sessions cannot be listed.
        """
        in_vain, before = 0, None
        while not stopped() and self._home.is_dir():
            try:
                is_done, known = self._taken_in(progress, stopped)
                if is_done:
                    return True
                in_vain, before = in_vain + 1 if known == before else 0, known
                if in_vain >= _IN_VAIN:
                    self._store.run(search_index.give_up)
            except IndexLost:
                continue
            except IndexInUse:
                return False
        return not stopped()

    def _taken_in(
        self, progress: Callable[[IndexProgress], None], stopped: Callable[[], bool]
    ) -> tuple[bool, dict[str, IndexedSession]]:
        """One pass over all sessions: whether the index is up to date now, and what it knew before."""
        files = search_index.session_files(self._home)
        known = self._tidied(files.keys())
        behind = [
            (at, file)
            for folder, file in sorted(files.items(), key=lambda item: item[1].st_mtime_ns, reverse=True)
            if (at := known.get(folder, IndexedSession(folder)))
            and (at.size, at.mtime) != (file.st_size, search_index.changed_at(file))
        ]
        done, total = 0, sum(max(0, file.st_size - at.taken) for at, file in behind)
        refused = 0
        for pieces in _batches(self._pieces(behind, stopped)):
            refused += self._store.run(partial(search_index.add, pieces=pieces))
            done += sum(piece.bytes for piece in pieces)
            newest = pieces[-1].after
            progress(IndexProgress(min(done, total), total, newest.title or newest.prompt))
        return not refused and not stopped(), known

    def _pieces(
        self, behind: Sequence[tuple[IndexedSession, os.stat_result]], stopped: Callable[[], bool]
    ) -> Iterator[SessionPiece]:
        """What these files hold beyond the index, up to where they ended when they were listed."""
        for at, file in behind:
            while not stopped() and (piece := search_index.read_piece(self._home, at, _AT_A_TIME, stopped)):
                yield piece
                at = piece.after
                if at.size >= 0 or at.taken >= file.st_size:
                    break

    def _tidied(self, there: Collection[str]) -> dict[str, IndexedSession]:
        """What the index knows, after it was updated for sessions that were moved or deleted."""
        known = self._store.run(search_index.all_known)
        gone = [folder for folder in known if folder not in there]
        if not gone:
            return known
        new = {_tail(folder): folder for folder in there if folder not in known}
        moved = [(folder, new[_tail(folder)]) for folder in gone if _tail(folder) in new]
        deleted = [folder for folder in gone if _tail(folder) not in new]
        self._store.run(partial(search_index.move, moved=moved))
        self._store.run(partial(search_index.remove, folders=deleted))
        self._store.run(search_index.clear_if_mostly_dead)
        return self._store.run(search_index.all_known)


def _batches(pieces: Iterator[SessionPiece]) -> Iterator[list[SessionPiece]]:
    """Small sessions together: each batch is one transaction."""
    batch: list[SessionPiece] = []
    for piece in pieces:
        batch.append(piece)
        if sum(one.bytes for one in batch) >= _AT_A_TIME or len(batch) >= _MOST_TOGETHER:
            yield batch
            batch = []
    if batch:
        yield batch


def _tail(folder: str) -> str:
    """Workdir key and id: the same in the archive."""
    return folder.split("/", 1)[1]


# --- one search -----------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """An entry that may match, and where it stands."""

    id: int
    """Higher is newer."""
    session: IndexedSession
    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    kind: str
    offset: int


class _Match(NamedTuple):
    candidate: Candidate
    whole: bool
    """Whether it holds the query as it was written."""
    relevance: float


@dataclass(frozen=True, slots=True)
class _Search:
    """A query over the index: which candidates match, and the best of them by session."""

    database: "sqlite3.Connection"
    records: "_Records"
    asked: Query
    kind: MessageKind | None
    stopped: Callable[[], bool]

    def best(self, limit: int, belongs: Callable[[IndexedSession], bool]) -> SessionsFound:
        per_session: Counter[str] = Counter()
        matches: list[_Match] = []
        complete = True

        def wanted(session: IndexedSession) -> bool:
            return per_session[session.folder] < _PER_SESSION and belongs(session)

        for read, candidate in enumerate(candidates(self.database, self.asked.terms, self.kind, wanted)):
            if self.stopped() or len(matches) >= _PER_SESSION * limit or read >= _MOST_READ:
                complete = False
                break
            text = casefolded(self.records.text(candidate))
            if text and self.asked.matches(text):
                matches.append(_Match(candidate, self.asked.whole in text, self.asked.relevance(text)))
                per_session[candidate.session.folder] += 1
        relevant_first = sorted(matches, key=lambda match: -match.relevance)
        scores = fused_scores([match.candidate.id for match in relevant_first])
        by_session: dict[IndexedSession, list[Candidate]] = {}
        for match in sorted(matches, key=lambda match: (not match.whole, -scores[match.candidate.id])):
            by_session.setdefault(match.candidate.session, []).append(match.candidate)
        found = [
            self._hits(session, own, more=not complete or len(own) >= _PER_SESSION)
            for session, own in list(by_session.items())[:limit]
        ]
        [clipped] = self.database.execute("SELECT coalesce(sum(clipped), 0) FROM sessions").fetchone()
        return SessionsFound(found, complete and len(by_session) <= limit, clipped)

    def _hits(self, session: IndexedSession, matching: Sequence[Candidate], more: bool) -> SessionHits:
        return SessionHits(
            path=self.records.home / session.folder / EVENTS,
            id="/".join(session.folder.split("/")[2::2]),
            cwd=session.cwd,
            title=session.title or session.prompt,
            updated_at=datetime.fromisoformat(session.updated),
            archived=session.folder.startswith(f"{search_index.ARCHIVE}/"),
            hits=[self._hit(candidate) for candidate in matching[:_SHOWN]],
            total=len(matching),
            more=more,
        )

    def _hit(self, found: Candidate) -> SessionHit:
        text = self.records.text(found)
        lowered = casefolded(text)
        shown = excerpt(text, lowered, max(0, self.asked.place_in(lowered)))
        return SessionHit(found.index, found.kind, shown.line, shown.text, marks(shown.text, self.asked))


class _Records:
    """What entries say, from the event files. Keeps the last one open."""

    def __init__(self, home: Path, files: ExitStack) -> None:
        self.home = home
        self._files = files
        self._folder = ""
        self._file: BinaryIO | None = None

    def text(self, candidate: Candidate) -> str:
        """What is searched of this entry; empty where its file does not hold it any more."""
        if candidate.session.folder != self._folder:
            self._open(candidate.session.folder)
        try:
            entry = search_index.entry_at(self._file, candidate.offset) if self._file else None
        except OSError:
            return ""
        return (
            search_index.searchable_text(entry)[1]
            if entry is not None and entry.index == candidate.index
            else ""
        )

    def _open(self, folder: str) -> None:
        self._files.close()
        self._folder, self._file = folder, None
        # It may have been moved since the index was looked at.
        for place in (folder, *(f"{root}/{_tail(folder)}" for root in search_index.ROOTS)):
            try:
                self._file = self._files.enter_context(opened(self.home / place / EVENTS))
                return
            except OSError:
                continue


def _of_folder(home: Path, cwd: Path | str | None) -> Callable[[IndexedSession], bool]:
    """Whether a session belongs to a folder, as it does for lists; all do where none is given."""
    key, folder = (None, None) if cwd is None else (workdir_key(cwd), Folder(cwd))

    @cache
    def belongs(session: IndexedSession) -> bool:
        if folder is None or session.folder.split("/")[1] == key:
            return True
        return tie_to(folder, home / session.folder / EVENTS) is not None

    return belongs


# --- candidates -----------------------------------------------------------------------------------


def candidates(
    database: "sqlite3.Connection",
    terms: Sequence[str],
    kind: str | None,
    wanted: Callable[[IndexedSession], bool],
) -> Iterator[Candidate]:
    """What may hold all these terms, the newest first. Once a session is not `wanted`, it never is again.
    Raises sqlite3.DatabaseError where the index holds what nobody wrote."""
    import sqlite3

    expression = _match_expression(database, terms) if search_index.has_trigrams(database) else None
    if not terms or expression == "":
        return
    session_of = cache(partial(search_index.session_of, database))
    last = 1 << 62
    below: int | None = last
    while below is not None:
        rows = _rows(database, expression, kind, below)
        below, skipped = None, 0
        for row in rows:
            number, index, of_kind, offset = search_index.sound(row, (int, int, str, int))
            if number >= last:
                raise sqlite3.DatabaseError("not in order")  # it could go round in circles
            last = number
            session = session_of(number >> search_index.BLOCK_BITS)
            if session is not None and wanted(session):
                skipped = 0
                yield Candidate(number, session, index, of_kind, offset)
                continue
            skipped += 1
            if skipped > _SKIPPED:
                below = number >> search_index.BLOCK_BITS << search_index.BLOCK_BITS
                break
        rows.close()


def _match_expression(database: "sqlite3.Connection", terms: Sequence[str]) -> str | None:
    """An expression for `MATCH`; empty where nothing can match, None where everything may."""
    long = [term for term in terms if len(term) >= _TRIGRAM]
    trigrams = dict.fromkeys(
        term[at : at + _TRIGRAM] for term in long for at in range(len(term) - _TRIGRAM + 1)
    )
    step = -(-len(trigrams) // _MOST) or 1  # at most so many of them, from all over the query
    parts = [_quoted(trigram) for trigram in [*trigrams][::step]]
    for term in terms:
        if len(term) >= _TRIGRAM:
            continue
        longer = _beginning_with(database, term)
        if not longer:
            return ""
        if len(longer) <= _MOST_BEGINNINGS and len(parts) < _MOST:
            parts.append(f"({' OR '.join(map(_quoted, longer))})")
    return " AND ".join(parts) or None


def _beginning_with(database: "sqlite3.Connection", term: str) -> list[str]:
    """The trigrams of the index that begin with this term, and one too many where there are too many."""
    database.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.known USING fts5vocab('main', 'said', 'row')")
    rows = database.execute(
        "SELECT term FROM temp.known WHERE term >= ? AND term < ? LIMIT ?",
        (term, f"{term}\U0010ffff", _MOST_BEGINNINGS + 1),
    )
    return [known for (known,) in rows]


def _quoted(trigram: str) -> str:
    """In double quotes, nothing is an operator."""
    return '"' + trigram.replace('"', '""') + '"'


def _rows(
    database: "sqlite3.Connection", expression: str | None, kind: str | None, below: int
) -> "sqlite3.Cursor":
    of_kind = "" if kind is None else "AND kind = :kind"
    given = {"match": expression, "below": below, "kind": kind}
    if expression is None:
        return database.execute(
            f"SELECT id, entry, kind, offset FROM entries WHERE id < :below {of_kind} ORDER BY id DESC",  # noqa: S608 (ours)
            given,
        )
    return database.execute(
        "SELECT said.rowid, entry, kind, offset FROM said CROSS JOIN entries ON entries.id = said.rowid "  # noqa: S608 (ours)
        f"WHERE said MATCH :match AND said.rowid < :below {of_kind} ORDER BY said.rowid DESC",
        given,
    )
