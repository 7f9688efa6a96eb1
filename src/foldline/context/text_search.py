"""Text as searches see it, what a query asks for, and where in a text it is.

Every character is casefolded by itself, so that any piece of a text is a piece of its casefolded form.
Upper and lower case, full and half width, composed and decomposed accents are alike.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from unicodedata import normalize

_BEFORE, _AFTER = 60, 120
"""Characters shown before a hit, and from its beginning on: two lines of a terminal, under 200 tokens."""


_TYPICAL = 1000
"""Characters of a typical entry: what is said in a longer one says less about it."""


class _Casefolded(dict[int, str]):
    """The casefolded form of each character met so far, for `str.translate`. Never empty."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        # What ends a text for SQLite, and what no UTF-8 can hold.
        stands_for = "\ufffd" if code == 0 or 0xD800 <= code < 0xE000 else char
        self[code] = normalize("NFKD", normalize("NFKD", stands_for).casefold())
        return self[code]


_CASEFOLDED = _Casefolded()


_ASCII = bytes(range(128))
_FEW = 24
"""Different signs of a text that are replaced one after the other; more are looked up sign by sign."""


def casefolded(text: str) -> str:
    """The text as it is compared."""
    # Most of most texts is ASCII, or stays as it is: nothing of that is looked at sign by sign.
    encoded = text.encode("utf-8", "surrogatepass")
    lowered = encoded.lower().decode("utf-8", "surrogatepass")
    if len(encoded) != len(text):
        beyond = encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")
        changed = [sign for sign in set(beyond) if _CASEFOLDED[ord(sign)] != sign]
        if len(changed) > _FEW:
            lowered = text.translate(_CASEFOLDED)
        else:
            for sign in changed:
                lowered = lowered.replace(sign, _CASEFOLDED[ord(sign)])
    return lowered.replace("\0", "\ufffd")


_TERM = re.compile(r'(?<!\S)"([^"]+)"(?!\S)|\S+')


class Query(NamedTuple):
    terms: tuple[str, ...]
    """Casefolded; each must occur. Empty for an empty query."""
    whole: str
    """The whole query, casefolded: a text that holds it as it is matches best."""

    def matches(self, lowered: str) -> bool:
        return bool(self.terms) and all(term in lowered for term in self.terms)

    def relevance(self, lowered: str) -> float:
        """How much a text is about the terms: BM25 without the rarity of each, for all of them are in it."""
        length = 0.25 + 0.75 * len(lowered) / _TYPICAL
        counts = map(lowered.count, self.terms)
        return sum(count / (count + 1.2 * length) for count in counts)

    def place_in(self, lowered: str) -> int:
        """Where a text that matches is best looked at: at the whole query, else at its rarest term there."""
        at = lowered.find(self.whole)
        if at >= 0:
            return at
        return lowered.find(min(self.terms, key=lambda term: (lowered.count(term), -len(term))))


def parse_query(query: str) -> Query:
    """Words, and "quoted phrases" taken as they are. Every other sign is text; no query is an error."""
    terms = [phrase[1] or phrase[0] for phrase in _TERM.finditer(query)]
    if not terms and query:
        terms = [query]  # only spaces: then it is these that are looked for
    return Query(tuple(dict.fromkeys(map(casefolded, terms))), casefolded(query.strip() or query))


class Excerpt(NamedTuple):
    text: str
    """On one line."""
    line: int
    """The line of the hit, counted from 1."""


def excerpt(text: str, lowered: str, place: int) -> Excerpt:
    """What is around a place of the casefolded text, in the words of the text itself."""
    at = _in_text(text, lowered, place)
    start, end = max(0, at - _BEFORE), at + _AFTER
    around = " ".join(text[start:end].split())
    shown = ("…" if start else "") + around + ("…" if end < len(text) else "")
    return Excerpt(shown, text.count("\n", 0, at) + 1)


def marks(text: str, asked: Query) -> list[tuple[int, int]]:
    """Where what was asked for stands in a short text: from and to, in order, none overlapping."""
    lowered = casefolded(text)
    terms = (asked.whole,) if asked.whole in lowered else asked.terms
    places = sorted((at, at + len(term)) for term in terms if term for at in _places(lowered, term))
    spans: list[tuple[int, int]] = []
    for first, last in places:
        start, end = _in_text(text, lowered, first), _in_text(text, lowered, last - 1) + 1
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _places(lowered: str, term: str) -> Iterator[int]:
    at = lowered.find(term)
    while at >= 0:
        yield at
        at = lowered.find(term, at + len(term))


def _in_text(text: str, lowered: str, place: int) -> int:
    """Which character of the text a place of its casefolded form comes from."""
    if len(text) == len(lowered):
        return place  # none became longer
    length = 0
    for at, char in enumerate(text):
        length += len(casefolded(char))
        if length > place:
            return at
    return len(text)
