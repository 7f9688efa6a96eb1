"""How well a text fits what was typed of it: the ranker of palette, lists and completion. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

START: Final = 100.0
WHOLE: Final = 90.0
WORD: Final = 80.0
INSIDE: Final = 60.0
SPREAD: Final = 20.0
NOTE: Final = 1.0
"""What a place is worth: the start of the text, a whole word, the start of a word, inside one, letters spread
over the text from the start of a word on (at most), something beside the text."""


def fit(typed: str, text: str) -> tuple[float, Sequence[int]]:
    """What the best place of `typed` in `text` is worth, 0 where it has none, and the places of its letters.
    Both are given in the same case."""
    at = text.find(typed)
    if at < 0:
        return _spread(typed, text) if _in_order(typed, text) else (0.0, ())
    while at > 0 and text[at - 1].isalnum():
        later = text.find(typed, at + 1)
        if later < 0:
            first = text.find(typed)
            return INSIDE, range(first, first + len(typed))
        at = later
    stop = at + len(typed)
    whole = stop == len(text) or not text[stop].isalnum()
    return (START if at == 0 else WHOLE if whole else WORD), range(at, stop)


def fit_words(words: Sequence[str], label: str, note: str) -> tuple[float, frozenset[int]] | None:
    """What all of the words are worth together, and the places of their letters in the label; None where one
    of them is in neither. The words are in lower case."""
    lowered = label.lower()
    if len(lowered) != len(label):  # a letter that is two in lower case
        lowered = label
    worth, letters = 0.0, set[int]()
    for word in words:
        own, places = fit(word, lowered)
        if not own and word in note.lower():
            own = NOTE
        if not own:
            return None
        worth += own
        letters.update(places)
    return worth, frozenset(letters)


def _in_order(letters: str, text: str) -> bool:
    at = -1
    for letter in letters:
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True


def _spread(typed: str, text: str) -> tuple[float, Sequence[int]]:
    """The letters one after the other, the first of them at the start of a word; best where they hang
    together."""
    best, places = 0.0, list[int]()
    start = text.find(typed[0])
    while start >= 0:
        if start == 0 or not text[start - 1].isalnum():
            found = _from(start, typed, text)
            if not found:
                break  # nor is there any further on
            gaps = sum(two != one + 1 for one, two in pairwise(found))
            worth = SPREAD * (1 - gaps / (len(typed) + 1))
            if worth > best:
                best, places = worth, found
        start = text.find(typed[0], start + 1)
    return best, places


def _from(start: int, typed: str, text: str) -> list[int]:
    found = [start]
    for letter in typed[1:]:
        at = text.find(letter, found[-1] + 1)
        if at < 0:
            return []
        found.append(at)
    return found
