"""How well something fits what was typed of it. Pure."""

from typing import Final

STARTS: Final = 0
HOLDS: Final = 1
IN_ORDER: Final = 2


def fit(typed: str, text: str) -> int | None:
    """`STARTS` with it, `HOLDS` it, has its letters `IN_ORDER`; None where it does none of these. Both are
    given in the same case."""
    if text.startswith(typed):
        return STARTS
    if typed in text:
        return HOLDS
    return IN_ORDER if in_order(typed, text) else None


def in_order(letters: str, text: str) -> bool:
    """Whether a text has these letters one after the other, with others between them."""
    at = -1
    for letter in letters:
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True
