"""Full-text search over one session: any piece of any message, in any script.

Nothing is kept between two searches. Each goes through the session from its beginning: the bytes of most
records tell that they hold nothing, the others are parsed, and whether they match is decided on their text.
An index in memory took four times the size of the text, and longer to make than hundreds of such searches
(docs/decisions/0036-search-without-an-index.md).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from foldline.context.moments import entry_text
from foldline.context.text_search import Query, casefolded, excerpt, parse_query
from foldline.protocol import BaseMessage, Entry, Revert, ToolResultMessage

from .stored import StoredEntries

MessageKind = Literal["user", "assistant", "tool_result"]

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


class _Match(NamedTuple):
    index: int  # type: ignore[assignment]  # tuple's method of that name is not used
    position: int
    """Of the entry among all."""
    whole: bool
    """Whether it holds the query as it was written."""
    relevance: float


class _Stopped(Exception):
    """Nobody waits for the answer any more."""


class EntrySearch:
    """Searches in a list that entries are appended to. `find` blocks, for threads."""

    def __init__(self, entries: Sequence[Entry], *, without_tools: Collection[str] = ()) -> None:
        """What the tools in `without_tools` were asked and what they answered is left out."""
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
    ) -> Found:
        """The entries in which every word and "quoted phrase" of the query occurs.

        Those in `seen`, by index, come last; before that, those that hold the query as it was written, then
        the relevant and recent. Once `stopped()` is true it gives up: its answer is of no use then.
        """
        asked = parse_query(query)
        if not asked.terms:
            return Found((), 0)
        try:
            matching = [
                _Match(entry.index, position, asked.whole in text, asked.relevance(text))
                for position, entry, text in self._texts(asked.terms, kind, stopped)
                if asked.matches(text)
            ]
            # Where nothing holds all of several words: how many entries hold each of the first few.
            apart = [
                (term, sum(term in text for _, _, text in self._texts([term], kind, stopped)))
                for term in (asked.terms[:_TERMS_APART] if len(asked.terms) > 1 and not matching else ())
            ]
        except _Stopped:
            return Found((), 0)
        # Simple keys, one after the other: while tuples are compared, no other thread runs.
        relevant_first = matching[::-1]  # of equals, the newest first
        relevant_first.sort(key=lambda match: match.relevance, reverse=True)
        scores = fused_scores([match.index for match in relevant_first])
        best_first = sorted(matching, key=lambda match: scores[match.index], reverse=True)
        best_first.sort(key=lambda match: 2 * (match.index in seen) + (not match.whole))
        hits = [self._hit(self._entries[match.position], asked) for match in best_first[:limit]]
        return Found(hits, len(matching), apart or ())

    def _texts(
        self, terms: Sequence[str], kind: MessageKind | None, stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, Entry, str]]:
        """Position, entry and casefolded text of all whose bytes may hold these terms, in order."""
        sieve = ByteFilter(terms)

        def may_count(records: bytes) -> bool:
            if stopped():
                raise _Stopped
            return sieve.lets_through(records)

        entries = self._entries
        for position, entry in (
            entries.sifted(may_count) if isinstance(entries, StoredEntries) else enumerate(entries)
        ):
            if stopped():
                raise _Stopped
            if (kind is None or entry.type == kind) and (text := self._text(entry)):
                yield position, entry, casefolded(text)

    def _text(self, entry: Entry) -> str | None:
        if not isinstance(entry, BaseMessage | Revert):
            return None  # a summary only repeats what stands here already
        if isinstance(entry, ToolResultMessage) and entry.name in self._without_tools:
            return None
        return entry_text(entry, without_calls=self._without_tools)

    def _hit(self, entry: Entry, asked: Query) -> Hit:
        text = self._text(entry) or ""
        lowered = casefolded(text)
        return Hit(entry, *excerpt(text, lowered, asked.place_in(lowered)))


def fused_scores(by_relevance: Sequence[int]) -> dict[int, float]:
    """A score for each index from its ranks by relevance and by age, higher is newer: reciprocal rank fusion,
    with the 60 of its authors (Cormack, Clarke, Büttcher 2009). Ranks need no common scale."""
    scores = {index: 1 / (60 + rank) for rank, index in enumerate(sorted(by_relevance, reverse=True))}
    for rank, index in enumerate(by_relevance):
        scores[index] += 1 / (60 + rank)
    return scores


# --- what the bytes of a record say -----------------------------------------------------------------------

_WORDS: Final = re.compile(r"[^\W_]+")
_ASCII: Final = bytes(range(128))
_ESCAPED: Final = re.compile(rb"\\u(?!00(?:0[0-7bef]|1|7f))")
"""A sign that JSON need not have escaped so, and that may be any. Most control characters, it must."""
_OF_A_FLOAT: Final = re.compile(r"\d*e?\d*")
_REWRITTEN: Final = re.compile(rb"[:\[,](?:\s|\\[nrt])*-?(?:\d[\d.]*[eE][-+\d]|0\.0000|[\d.]{17})")
"""A number among the arguments of a call that may stand otherwise in its text: `1e5` is 100000.0 there."""
_LABELS: Final = "answer"
"""What no record holds and its text does: `[answer]`, before the words of one that has thinking, too."""


class ByteFilter:
    """What must stand in the bytes of each record that holds all these terms, which are casefolded."""

    def __init__(self, terms: Iterable[str]) -> None:
        words = dict.fromkeys(word for term in terms for word in _WORDS.findall(term))
        self._words: list[bytes] = []
        self._of_floats: list[bytes] = []
        for word in words:
            if word not in _LABELS:
                of_float = _OF_A_FLOAT.fullmatch(word) or word in "infinity"
                (self._of_floats if of_float else self._words).append(word.encode("utf-8", "replace"))

    def lets_through(self, records: bytes) -> bool:
        """Whether these records, or pieces of JSON of any length, may hold all terms."""
        plain = records.lower()
        has_words = all(word in plain for word in self._words)
        if has_words and all(word in plain for word in self._of_floats):
            return True
        if _ESCAPED.search(records) or _has_guises(records):
            return True
        return has_words and bool(_REWRITTEN.search(records))


def _has_guises(records: bytes) -> bool:
    """Whether signs beyond ASCII stand there that are looked for under letters other than themselves."""
    if records.isascii():
        return False
    beyond = records.translate(None, _ASCII).decode("utf-8", "replace")
    return any(map(_is_guise, set(beyond)))


@cache
def _is_guise(char: str) -> bool:
    lowered = casefolded(char)
    return lowered != char and any(map(str.isalnum, lowered))
