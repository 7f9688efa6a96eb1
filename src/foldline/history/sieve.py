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
_ESCAPED: Final = re.compile(rb"\\u(?!00[01]|007f)")
"""A sign that JSON need not have escaped, and that may be any. Control characters, it must."""
_LABELS: Final = "answer"
"""What no record holds and its text does: `[answer]`, before the words of one that has thinking, too."""


class Sieve:
    """What must stand in the bytes of each record that holds all these terms, which are folded."""

    def __init__(self, terms: Iterable[str]) -> None:
        words = dict.fromkeys(word for term in terms for word in _WORDS.findall(term))
        self._words = [word.encode("utf-8", "replace") for word in words if word not in _LABELS]

    def lets_through(self, records: bytes) -> bool:
        """Whether these records, or pieces of JSON of any length, may hold all terms."""
        plain = records.lower()
        if all(word in plain for word in self._words):
            return True
        return bool(_ESCAPED.search(records)) or _has_guises(records)


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
