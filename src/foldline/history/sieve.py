"""Which records may hold what is looked for, by their bytes alone: far quicker than parsing them all.

A record that is let through may hold nothing; one that is held back holds nothing. What is compared are the
words of a query, letters and digits only: they stand in a record as they do in its text, whatever JSON does
to the signs between them.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from foldline.context.matching import fold

_WORDS: Final = re.compile(r"[^\W_]+")
_ASCII: Final = bytes(range(128))
_ESCAPED: Final = re.compile(rb"\\u(?!00(?:0[0-7bef]|1|7f))")
"""A sign that JSON need not have escaped so, and that may be any. Most control characters, it must."""
_OF_A_FLOAT: Final = re.compile(r"\d*e?\d*")
_REWRITTEN: Final = re.compile(rb"[:\[,](?:\s|\\[nrt])*-?(?:\d[\d.]*[eE][-+\d]|0\.0000|[\d.]{17})")
"""A number among the arguments of a call that may stand otherwise in its text: `1e5` is 100000.0 there."""
_LABELS: Final = "answer"
"""What no record holds and its text does: `[answer]`, before the words of one that has thinking, too."""


class Sieve:
    """What must stand in the bytes of each record that holds all these terms, which are folded."""

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
    """`é`, found by `e`, or `한`; not `文`, which is itself, nor `，`, which is a comma."""
    folded = fold(char)
    return folded != char and any(map(str.isalnum, folded))
