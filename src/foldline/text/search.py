"""Full-text search: casefolding, queries, and the positions of hits.

The search ignores differences between upper and lower case, between full and half width, and between composed
and decomposed accents. Every character is casefolded separately, so that casefolding a substring gives a
substring of the casefolded text.
"""

import re
from typing import NamedTuple
from unicodedata import normalize

from foldline.sequences import merged_spans

_BEFORE = 60
_AFTER = 120
"""Maximum length of an excerpt after a hit, in characters; `_BEFORE` is the limit before it.

Together, they fill two terminal lines, and take fewer than 200 tokens.
"""
_TYPICAL = 1000
"""Length of a typical entry, in characters.

Hits in longer entries are considered less relevant.
"""


class _Casefolded(dict[int, str]):
    """Casefolded forms of the characters seen so far, for `str.translate`.

    The dictionary is never empty.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        # SQLite ends a string at NUL, and UTF-8 has no surrogates.
        if code == 0 or 0xD800 <= code < 0xE000:
            char = "\ufffd"
        self[code] = normalize("NFKD", normalize("NFKD", char).casefold())
        return self[code]


_CASEFOLDED = _Casefolded()
_ASCII = bytes(range(128))
_FEW = 24
"""Maximum number of distinct characters that are replaced one by one.

For more characters, `translate` is faster.
"""


def casefolded(text: str) -> str:
    """Return the casefolded form of a string, for comparisons."""
    # Most text is ASCII or already casefolded, so few characters have to be replaced.
    encoded = text.encode("utf-8", "surrogatepass")
    lowered = encoded.lower().decode("utf-8", "surrogatepass")
    if len(encoded) != len(text):
        beyond = encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")
        changed = [char for char in set(beyond) if _CASEFOLDED[ord(char)] != char]
        if len(changed) > _FEW:
            lowered = text.translate(_CASEFOLDED)
        else:
            for char in changed:
                lowered = lowered.replace(char, _CASEFOLDED[ord(char)])
    return lowered.replace("\0", "\ufffd")


_TERM = re.compile(r'(?<!\S)"([^"]+)"(?!\S)|\S+')


class Query(NamedTuple):
    """A search query."""

    terms: tuple[str, ...]
    """Casefolded terms, all of which must occur in matching text.

    Empty for an empty query.
    """
    phrase: str
    """The query as one casefolded phrase.

    Texts that contain the phrase match best.
    """

    def matches(self, lowered: str) -> bool:
        """Return whether a casefolded string contains all terms."""
        return bool(self.terms) and all(term in lowered for term in self.terms)

    def relevance(self, lowered: str) -> float:
        """Return the BM25 relevance of a matching casefolded string.

        Unlike in BM25, the rarity of the terms is ignored.
        """
        length = 0.25 + 0.75 * len(lowered) / _TYPICAL
        counts = map(lowered.count, self.terms)
        return sum(count / (count + 1.2 * length) for count in counts)

    def place_in(self, lowered: str) -> int:
        """Return the position of the best hit in a matching casefolded string.

        The best hit is the phrase or, if that does not occur, the term that occurs least often.
        """
        place = lowered.find(self.phrase)
        if place >= 0:
            return place
        rarest = min(self.terms, key=lambda term: (lowered.count(term), -len(term)))
        return lowered.find(rarest)


def parse_query(query: str) -> Query:
    """Parse words and "quoted phrases". Every query is valid."""
    terms = [match[1] or match[0] for match in _TERM.finditer(query)]
    if not terms and query:
        terms = [query]  # a search for spaces
    unique_terms = dict.fromkeys(map(casefolded, terms))
    return Query(tuple(unique_terms), casefolded(query.strip() or query))


class Excerpt(NamedTuple):
    """The text around a hit."""

    text: str
    """The excerpt, with line ends removed."""
    line: int
    """Line number of the hit, counted from 1."""


def excerpt(text: str, lowered: str, place: int) -> Excerpt:
    """Return an excerpt of the text around a hit.

    Args:
        place: the position of the hit in the casefolded text.
    """
    hit = _in_text(text, lowered, place)
    start = max(0, hit - _BEFORE)
    end = hit + _AFTER
    quoted = " ".join(text[start:end].split())
    if start:
        quoted = f"…{quoted}"
    if end < len(text):
        quoted = f"{quoted}…"
    return Excerpt(quoted, text.count("\n", 0, hit) + 1)


def marks(text: str, query: Query) -> list[tuple[int, int]]:
    """Return the spans of all hits in a short string.

    The spans are sorted and do not overlap.
    """
    if not query.terms:
        return []
    lowered = casefolded(text)
    terms = (query.phrase,) if query.phrase in lowered else query.terms
    hits = sorted(
        hit.span() for term in terms for hit in re.finditer(re.escape(term), lowered)
    )
    return merged_spans(
        (_in_text(text, lowered, first), _in_text(text, lowered, last - 1) + 1)
        for first, last in hits
    )


def _in_text(text: str, lowered: str, place: int) -> int:
    """Convert a position in the casefolded text to a position in the original text."""
    if len(text) == len(lowered):
        return place  # no character became longer
    length = 0
    for position, char in enumerate(text):
        length += len(casefolded(char))
        if length > place:
            return position
    return len(text)
