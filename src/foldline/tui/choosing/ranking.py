"""Choices by how well they fit what was typed, and which of their letters that was. Pure.

Not `textual.fuzzy`: it looks at every way a word can be spread over a text, which for some words takes longer
than anybody waits. Here a word costs the length of the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SLICE: Final = 400
"""Choices that are looked at between two keys: well below a millisecond each ten."""

_START, _WHOLE, _WORD, _INSIDE, _SPREAD, _NOTE = 100.0, 90.0, 80.0, 60.0, 20.0, 1.0
"""Where a word was found, best first: at the start, as a whole word, at the start of one, inside one, spread
over the label from the start of a word on, in the note."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose. `id` is what is handed back; the texts may be foreign."""

    id: str
    label: str
    note: str = ""
    keys: str = ""
    """What reaches it without the list."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A choice that fits."""

    choice: Choice
    letters: frozenset[int] = frozenset()
    """Places in its label of what was typed."""


def ranking(typed: str, choices: Sequence[Choice]) -> Iterator[tuple[Ranked, ...] | None]:
    """The choices that hold every word typed, best first; of equal ones the first. None after each slice of
    them, then the result."""
    words = typed.lower().split()
    found: list[tuple[float, int, Ranked]] = []
    for at, choice in enumerate(choices):
        if at and at % SLICE == 0:
            yield None
        if (fits := _fit(words, choice)) is not None:
            found.append((-fits[0], at, Ranked(choice, fits[1])))
    if words:
        found.sort(key=lambda each: each[:2])
    yield tuple(ranked for _, _, ranked in found)


def ranked(typed: str, choices: Sequence[Choice]) -> tuple[Ranked, ...]:
    """The same, at once."""
    return next(result for result in ranking(typed, choices) if result is not None)


def _fit(words: Sequence[str], choice: Choice) -> tuple[float, frozenset[int]] | None:
    if not words:
        return 0.0, frozenset()
    label = choice.label.lower()
    if len(label) != len(choice.label):  # a letter that is two in lower case
        label = choice.label
    note = f"{choice.note} {choice.keys}".lower()
    score, letters = 0.0, set[int]()
    for word in words:
        worth, places = _in_label(word, label)
        if not worth and word in note:
            worth = _NOTE
        if not worth:
            return None
        score += worth
        letters.update(places)
    return score, frozenset(letters)


def _in_label(word: str, label: str) -> tuple[float, Sequence[int]]:
    at = label.find(word)
    if at < 0:
        return _spread(word, label)
    while at > 0 and label[at - 1].isalnum():
        later = label.find(word, at + 1)
        if later < 0:
            first = label.find(word)
            return _INSIDE, range(first, first + len(word))
        at = later
    stop = at + len(word)
    whole = stop == len(label) or not label[stop].isalnum()
    return (_START if at == 0 else _WHOLE if whole else _WORD), range(at, stop)


def _spread(word: str, label: str) -> tuple[float, Sequence[int]]:
    """The letters one after the other, the first of them at the start of a word; best where they hang
    together."""
    best, places = 0.0, list[int]()
    start = label.find(word[0])
    while start >= 0:
        if start == 0 or not label[start - 1].isalnum():
            found = _from(start, word, label)
            if found:
                gaps = sum(two != one + 1 for one, two in pairwise(found))
                worth = _SPREAD * (1 - gaps / (len(word) + 1))
                if worth > best:
                    best, places = worth, found
        start = label.find(word[0], start + 1)
    return best, places


def _from(start: int, word: str, label: str) -> list[int]:
    found = [start]
    for letter in word[1:]:
        at = label.find(letter, found[-1] + 1)
        if at < 0:
            return []
        found.append(at)
    return found
