"""Fuzzy matching of typed text, for the palette, lists and completion.

Pure functions.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

START: Final = 100.0
"""Score of a match at the start of the text."""
WHOLE: Final = 90.0
"""Score of a match of a whole word."""
WORD: Final = 80.0
"""Score of a match at the start of a word."""
INSIDE: Final = 60.0
"""Score of a match inside a word."""
SPREAD: Final = 20.0
"""Maximum score if the typed letters are spread over the text."""
NOTE: Final = 1.0
"""Score of a match in an item's note, not in its text."""


def fit(typed: str, text: str) -> tuple[float, Sequence[int]]:
    """Return the score and the letter positions of the best match.

    The score is 0 if there is no match. Case matters.
    """
    first = text.find(typed)
    if first < 0:
        return _spread(typed, text)
    at = first
    while at > 0 and text[at - 1].isalnum():
        at = text.find(typed, at + 1)
        if at < 0:
            return INSIDE, range(first, first + len(typed))
    positions = range(at, at + len(typed))
    if at == 0:
        return START, positions
    is_whole_word = not text[positions.stop : positions.stop + 1].isalnum()
    return (WHOLE if is_whole_word else WORD), positions


def fit_words(
    words: Sequence[str], label: str, note: str
) -> tuple[float, frozenset[int]] | None:
    """Return the total score and the letter positions of all words in the label.

    Returns None if a word is neither in the label nor in the note. The words must be in lower case.
    """
    lowered = label.lower()
    if len(lowered) != len(label):  # a letter may become two letters in lower case
        lowered = label
    score = 0.0
    letters = set[int]()
    for word in words:
        word_score, places = fit(word, lowered)
        if not word_score and word in note.lower():
            word_score = NOTE
        if not word_score:
            return None
        score += word_score
        letters.update(places)
    return score, frozenset(letters)


def _spread(typed: str, text: str) -> tuple[float, Sequence[int]]:
    """Match the typed letters in order, from the start of a word.

    Fewer gaps give a higher score.
    """
    best = 0.0
    places = list[int]()
    start = text.find(typed[0])
    while start >= 0:
        if start == 0 or not text[start - 1].isalnum():
            letters = _from(start, typed, text)
            if not letters:
                break  # a later start will not match either
            gaps = sum(right != left + 1 for left, right in pairwise(letters))
            score = SPREAD * (1 - gaps / (len(typed) + 1))
            if score > best:
                best = score
                places = letters
        start = text.find(typed[0], start + 1)
    return best, places


def _from(start: int, typed: str, text: str) -> list[int]:
    letters = [start]
    for letter in typed[1:]:
        at = text.find(letter, letters[-1] + 1)
        if at < 0:
            return []
        letters.append(at)
    return letters
