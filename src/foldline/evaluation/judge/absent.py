"""Absent facts: names that could well be of this session and are not. The right answer is to say so.

They are asked for in the words in which names that exist are asked for (`recall`): only the session tells
the two apart.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

from foldline.context.mentions import path_parts

from .material import Material
from .probes import Absent, Probe
from .recall import Candidate, by_name, edited_names
from .wording import worded

_TRIES = 40
"""Made-up names that are looked for before it is given up: most combinations exist nowhere."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SHORTEST = 3


def absent_candidates(material: Material, position: int, dice: Random) -> list[Candidate]:
    """A made-up file and a made-up name of code, where there are real ones to make them of."""
    files = sorted(by_name(touch for touch in material.touches if touch.index <= position))
    names = sorted(edited_names(material, position))
    found = []
    for real, question in ((files, "folder"), (names, "name")):
        made = _made_up(real, [*files, *names], material, position, dice)
        found += [
            Candidate(Probe("absent", worded(question, name=name), Absent(name)), name, question)
            for name in dict.fromkeys(made)
        ]
    return found


def _made_up(
    real: Sequence[str], donors: Sequence[str], material: Material, position: int, dice: Random
) -> Iterator[str]:
    """Real names with one word of another, that stand nowhere in the session so far."""
    words = sorted({word.lower() for name in donors for word in _WORD.findall(_stem(name))})
    words = [word for word in words if len(word) >= _SHORTEST and word.isalpha()]
    for _ in range(_TRIES if real and len(words) > 1 else 0):
        name = dice.choice(real)
        made = _with_another_word(name, dice.choice(words), dice)
        if made != name and not material.mentions(_stem(made), position):
            yield made


def _with_another_word(name: str, word: str, dice: Random) -> str:
    """The name with one of its words replaced, in its own way of writing."""
    stem = _stem(name)
    found = [match for match in _WORD.finditer(stem) if len(match[0]) >= _SHORTEST]
    if len(found) < 2:  # of a name of one word nothing would be left
        return name
    old = dice.choice(found)
    match old[0]:
        case text if text.isupper():
            word = word.upper()
        case text if text[0].isupper():
            word = word.capitalize()
    return stem[: old.start()] + word + stem[old.end() :] + name[len(stem) :]


def _stem(name: str) -> str:
    """A name without its folder and extension."""
    last = path_parts(name)[-1]
    return last[: last.index(".", 1)] if "." in last[1:] else last
