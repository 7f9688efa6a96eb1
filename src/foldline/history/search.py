"""Full-text search over one session: any piece of any message, in any script.

SQLite's FTS5 with trigrams finds the candidates and weighs them (bm25); whether a candidate matches is then
decided on its text. So what is too short for trigrams (`C#`, most Chinese words) is found all the same, and
everything is where SQLite is older than they are. The index lives in memory, about four times the size of
the text, and can be thrown away at any time.
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from foldline.context.matching import Query, excerpt, fold, parse_query
from foldline.context.original import original
from foldline.protocol import BaseMessage, Entry, Revert, ToolResultMessage

if TYPE_CHECKING:
    import sqlite3

MessageKind = Literal["user", "assistant", "tool_result"]

LARGEST_NUMBER = 2**63 - 1
"""Of SQLite's integers. An index of ours never comes near it; that of a record of anybody's may."""
_AT_A_TIME = 256
_TERMS_APART = 8
"""Of a query that finds nothing, how many words are counted by themselves."""


class Hit(NamedTuple):
    entry: Entry
    snippet: str
    """The text around the hit, on one line."""
    line: int
    """The line of the hit in what the entry says, counted from 1."""


@dataclass(frozen=True, slots=True)
class Found:
    hits: Sequence[Hit]
    """Best first, no more than were asked for."""
    total: int
    """How many entries match."""
    apart: Sequence[tuple[str, int]] = ()
    """Where no entry holds all words of several: each word, and how many entries hold it."""


class SearchIndex:
    """An index over a list that entries are appended to. `find` blocks, for threads; one at a time works."""

    def __init__(self, entries: Sequence[Entry], *, without_tools: Collection[str] = ()) -> None:
        """`entries` is looked at again by each search. What the tools in `without_tools` were asked and
        what they answered is left out."""
        self._entries = entries
        self._without_tools = frozenset(without_tools)
        self._taken = 0
        """How many of the entries the index covers."""
        self._indexed: dict[int, tuple[int, str]] = {}
        """Where each entry with a text stands among the entries, and its type."""
        self._texts: dict[int, str] = {}
        """What each of them says, folded; both by index, in order."""
        self._lock = threading.Lock()

    def find(
        self,
        query: str,
        *,
        limit: int,
        kind: MessageKind | None = None,
        seen: Collection[int] = frozenset(),
        stopped: Callable[[], bool] = lambda: False,
    ) -> Found:
        """The entries in which every word and "quoted phrase" of the query occurs.

        Those in `seen`, by index, come last; before that, those that hold the query as it was written, then
        the relevant and recent. Once `stopped()` is true it gives up: its answer is of no use then.
        """
        asked = parse_query(query)
        with self._lock:
            self._extend(stopped)
            matching = [
                index
                for index in self._candidates(asked)
                if not stopped() and self._is(index, kind) and asked.matches(self._texts[index])
            ]
            scores = fused_scores(matching)
            best_first = sorted(
                matching,
                key=lambda index: (index in seen, asked.whole not in self._texts[index], -scores[index]),
            )
            hits = [self._hit(index, asked) for index in best_first[:limit]]
            several = len(asked.terms) > 1
            apart = self._apart(asked.terms, kind, stopped) if several and not matching else ()
        return Found(hits, len(matching), apart)

    # --- building ------------------------------------------------------------------------------------

    @cached_property
    def _trigrams(self) -> "_Trigrams | None":
        return _Trigrams.open()

    def _extend(self, stopped: Callable[[], bool]) -> None:
        """Take in what was appended since the last search, or as much of it as there is time for."""
        taken, trigrams = self._taken, self._trigrams
        with trigrams.database if trigrams else nullcontext():
            for entry in _some_at_a_time(self._entries, taken):
                if stopped():
                    break
                text = self._text(entry)
                if text and entry.index <= LARGEST_NUMBER:
                    self._indexed[entry.index] = taken, entry.type
                    self._texts[entry.index] = fold(text)
                    if trigrams:
                        trigrams.add(entry.index, self._texts[entry.index])
                taken += 1
        self._taken = taken

    def _text(self, entry: Entry) -> str | None:
        if not isinstance(entry, BaseMessage | Revert):
            return None  # a summary only repeats what stands here already
        if isinstance(entry, ToolResultMessage) and entry.name in self._without_tools:
            return None
        return original(entry, without_calls=self._without_tools)

    # --- finding -------------------------------------------------------------------------------------

    def _candidates(self, asked: Query) -> list[int]:
        """Entries, among them all that match, the most relevant first; the newest where nothing tells."""
        relevant = self._trigrams.candidates(asked.terms) if self._trigrams else None
        return list(reversed(self._texts)) if relevant is None else relevant

    def _is(self, index: int, kind: MessageKind | None) -> bool:
        return kind is None or self._indexed[index][1] == kind

    def _hit(self, index: int, asked: Query) -> Hit:
        entry, folded = self._entries[self._indexed[index][0]], self._texts[index]
        return Hit(entry, *excerpt(self._text(entry) or "", folded, asked.place_in(folded)))

    def _apart(
        self, terms: Sequence[str], kind: MessageKind | None, stopped: Callable[[], bool]
    ) -> list[tuple[str, int]]:
        """How many entries hold each of the first few terms."""
        texts = [text for index, text in self._texts.items() if self._is(index, kind)]
        return [(term, sum(term in text for text in texts)) for term in terms[:_TERMS_APART] if not stopped()]


def _some_at_a_time(entries: Sequence[Entry], start: int) -> Iterator[Entry]:
    """The entries from this place on, without all of them in memory: they may be on disk."""
    while batch := entries[start : start + _AT_A_TIME]:
        yield from batch
        start += len(batch)


def fused_scores(by_relevance: Sequence[int]) -> dict[int, float]:
    """A score for each index from its rank by relevance and its rank by age: higher is newer.

    Reciprocal rank fusion, with the 60 of its authors (Cormack, Clarke, Büttcher 2009): ranks need no
    common scale.
    """
    scores = {index: 1 / (60 + rank) for rank, index in enumerate(sorted(by_relevance, reverse=True))}
    for rank, index in enumerate(by_relevance):
        scores[index] += 1 / (60 + rank)
    return scores


class _Trigrams:
    """The trigrams of folded texts, in an SQLite database of their own."""

    SIZE = 3
    MOST_TERMS, LONGEST_TERM = 16, 200
    """Of a query, what is looked up: enough to leave few candidates, few enough for SQLite's parser."""

    def __init__(self, database: "sqlite3.Connection") -> None:
        self.database = database
        """As a context manager, it commits."""
        weakref.finalize(self, database.close)

    @classmethod
    def open(cls) -> "_Trigrams | None":
        """An empty one; None where this SQLite has no FTS5, or no trigrams (they came with 3.34)."""
        import sqlite3

        database = sqlite3.connect(":memory:", check_same_thread=False)  # The index has a lock.
        try:
            # The texts are folded already, and kept by the index.
            tokenize = "trigram case_sensitive 1"
            database.execute(
                f"CREATE VIRTUAL TABLE said USING fts5(text, content = '', tokenize = '{tokenize}')"
            )
        except sqlite3.OperationalError:
            database.close()
            return None
        return cls(database)

    def add(self, index: int, text: str) -> None:
        self.database.execute("INSERT INTO said (rowid, text) VALUES (?, ?)", (index, text))

    def candidates(self, terms: Sequence[str]) -> list[int] | None:
        """What may hold all terms, by bm25; None where no term is long enough to tell."""
        known = sorted((term for term in terms if len(term) >= self.SIZE), key=len, reverse=True)
        if not known:
            return None
        # In double quotes, nothing is an operator.
        phrases = (term[: self.LONGEST_TERM].replace('"', '""') for term in known[: self.MOST_TERMS])
        expression = " AND ".join(f'"{phrase}"' for phrase in phrases)
        # Equal weights in a fixed order: the live session and the reloaded one answer alike.
        rows = self.database.execute(
            "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank, rowid DESC", (expression,)
        )
        return [index for (index,) in rows]
