"""Full-text search in one session.

The search finds any substring of any message, in any script. There is no index, so each search reads all
records. Most records are excluded by looking at their bytes. Only the others are parsed, and their text is
compared with the query (docs/decisions/0036-search-without-an-index.md).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from foldline.past.moments import entry_text
from foldline.protocol import BaseMessage, Entry, Revert, ToolResultMessage
from foldline.text.search import Query, casefolded, excerpt, parse_query

from .stored import StoredEntries

MessageKind = Literal["user", "assistant", "tool_result"]

_MOST_COUNTED_TERMS = 8
"""Maximum number of words in a query that are counted separately.

They are counted if the query has no hits.
"""


class Hit(NamedTuple):
    """An entry that matches a query."""

    entry: Entry
    snippet: str
    """Text around the match, joined to one line."""
    line: int
    """Line number of the match in the entry's text, counted from 1."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search in one session."""

    hits: Sequence[Hit]
    """The hits, best first, up to the limit."""
    total: int
    """Number of matching entries."""
    apart: Sequence[tuple[str, int]] = ()
    """The number of entries that contain each word of the query.

    Set only if there are no hits.
    """


class _EntryMatch(NamedTuple):
    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    position: int
    """Position of the entry in the history."""
    is_exact: bool
    """Whether the entry contains the query as it was typed."""
    relevance: float


class _Stopped(Exception):
    """Raised to stop a cancelled search."""


class EntrySearch:
    """Searches a growing list of entries.

    `find` blocks, so call it in another thread.
    """

    def __init__(
        self, entries: Sequence[Entry], *, without_tools: Collection[str] = ()
    ) -> None:
        """Prepare to search `entries`.

        The calls and results of the tools in `without_tools` are left out.
        """
        self._entries = entries
        self._without_tools = frozenset(without_tools)

    def find(
        self,
        query: str,
        *,
        limit: int,
        kind: MessageKind | None = None,
        seen: Collection[int] = frozenset(),
        stopped: Callable[[], bool] = lambda: False,
    ) -> SearchResult:
        """Find entries that contain all terms of a query.

        Terms are words and "quoted phrases". Entries that contain the query as typed come first; the others
        are sorted by relevance and recency.

        Args:
            limit: maximum number of hits to return.
            kind: type of message to search. By default, all types are searched.
            seen: indices of entries to rank last.
            stopped: called frequently. As soon as it returns true, the search stops with an empty result.
        """
        parsed_query = parse_query(query)
        if not parsed_query.terms:
            return SearchResult((), 0)
        try:
            matches: list[_EntryMatch] = []
            for position, entry, text in self._texts(parsed_query.terms, kind, stopped):
                if parsed_query.matches(text):
                    match = _EntryMatch(
                        index=entry.index,
                        position=position,
                        is_exact=parsed_query.phrase in text,
                        relevance=parsed_query.relevance(text),
                    )
                    matches.append(match)
            counts: list[tuple[str, int]] = []
            if not matches and len(parsed_query.terms) > 1:
                terms = parsed_query.terms[:_MOST_COUNTED_TERMS]
                counts = [(term, self._count(term, kind, stopped)) for term in terms]
        except _Stopped:
            return SearchResult((), 0)
        ranked = best_first(matches[::-1])
        ranked.sort(key=lambda match: match.index in seen)
        hits = [
            self._hit(self._entries[match.position], parsed_query)
            for match in ranked[:limit]
        ]
        return SearchResult(hits, len(matches), counts or ())

    def _count(
        self, term: str, kind: MessageKind | None, stopped: Callable[[], bool]
    ) -> int:
        """Count the entries that contain a term."""
        return sum(term in text for _, _, text in self._texts([term], kind, stopped))

    def _texts(
        self,
        terms: Sequence[str],
        kind: MessageKind | None,
        stopped: Callable[[], bool],
    ) -> Iterator[tuple[int, Entry, str]]:
        """Yield entries that may contain these terms.

        Each is returned with its position and its casefolded text.
        """
        sieve = ByteFilter(terms)

        def may_match(records: bytes) -> bool:
            if stopped():
                raise _Stopped
            return sieve.lets_through(records)

        candidates: Iterable[tuple[int, Entry]] = enumerate(self._entries)
        if isinstance(self._entries, StoredEntries):
            candidates = self._entries.sifted(may_match)
        for position, entry in candidates:
            if stopped():
                raise _Stopped
            if kind is not None and entry.type != kind:
                continue
            text = self._text(entry)
            if text:
                yield position, entry, casefolded(text)

    def _text(self, entry: Entry) -> str | None:
        if not isinstance(entry, BaseMessage | Revert):
            return None  # a summary only repeats other entries
        if isinstance(entry, ToolResultMessage) and entry.name in self._without_tools:
            return None
        return entry_text(entry, without_calls=self._without_tools)

    def _hit(self, entry: Entry, query: Query) -> Hit:
        text = self._text(entry) or ""
        lowered = casefolded(text)
        place = query.place_in(lowered)
        shown = excerpt(text, lowered, place)
        return Hit(entry, shown.text, shown.line)


class _Rankable(Protocol):
    """A match that can be ranked."""

    @property
    def is_exact(self) -> bool: ...
    @property
    def relevance(self) -> float: ...


_MatchT = TypeVar("_MatchT", bound=_Rankable)


def best_first(newest_first: Sequence[_MatchT]) -> list[_MatchT]:
    """Sort matches: exact ones first, the others by relevance and recency.

    Both ranks count equally, by reciprocal rank fusion. The method's constant is 60, as proposed by its
    authors (Cormack, Clarke, Büttcher 2009). The matches are sorted several times by simple keys, which
    blocks other threads for a shorter time than one sort by tuples would.
    """
    by_recency = range(len(newest_first))
    by_relevance = sorted(by_recency, key=lambda at: -newest_first[at].relevance)
    scores = [0.0] * len(newest_first)
    for positions in (by_recency, by_relevance):
        for rank, position in enumerate(positions):
            scores[position] += 1 / (60 + rank)
    ranked = sorted(by_relevance, key=scores.__getitem__, reverse=True)
    ranked.sort(key=lambda at: not newest_first[at].is_exact)
    return [newest_first[position] for position in ranked]


# --- filter by bytes --------------------------------------------------------------------------------------

_WORDS: Final = re.compile(r"[^\W_]+")
_ASCII: Final = bytes(range(128))
_ESCAPED: Final = re.compile(rb"\\u(?!00(?:0[0-7bef]|1|7f))")
"""Matches an escape sequence that JSON does not require."""
_OF_A_FLOAT: Final = re.compile(r"\d*e?\d*")
_REWRITTEN: Final = re.compile(
    rb"[:\[,](?:\s|\\[nrt])*-?(?:\d[\d.]*[eE][-+\d]|0\.0000|[\d.]{17})"
)
"""Matches a number in a call's arguments that may be written differently in the text.

For example, `1e5` becomes 100000.0.
"""
_LABELS: Final = "answer"
"""Word that may occur in an entry's text, but not in its record.

It comes from the label `[answer]`, which follows reasoning.
"""


class ByteFilter:
    """Excludes records that cannot contain all casefolded terms.

    The records need not be parsed for this.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        words: dict[str, None] = {}
        for term in terms:
            words.update(dict.fromkeys(_WORDS.findall(term)))
        self._words: list[bytes] = []
        self._of_floats: list[bytes] = []
        for word in words:
            if word in _LABELS:
                continue
            data = word.encode("utf-8", "replace")
            if _OF_A_FLOAT.fullmatch(word) or word in "infinity":
                self._of_floats.append(data)
            else:
                self._words.append(data)

    def lets_through(self, records: bytes) -> bool:
        """Return whether records may contain all terms.

        Args:
            records: any part of a log.
        """
        plain = records.lower()
        has_words = all(word in plain for word in self._words)
        if has_words and all(word in plain for word in self._of_floats):
            return True
        if _ESCAPED.search(records) or _has_casefolded_letters(records):
            return True
        return has_words and bool(_REWRITTEN.search(records))


def _has_casefolded_letters(records: bytes) -> bool:
    """Return whether records contain non-ASCII letters that casefolding replaces."""
    if records.isascii():
        return False
    letters = records.translate(None, _ASCII).decode("utf-8", "replace")
    return any(map(_is_replaced, set(letters)))


@cache
def _is_replaced(char: str) -> bool:
    lowered = casefolded(char)
    return lowered != char and any(map(str.isalnum, lowered))
