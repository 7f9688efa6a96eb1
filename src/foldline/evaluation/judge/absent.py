"""Absent facts: names that could well be of this session and are not. The right answer is to say so.

They are asked for in the words in which names that exist are asked for (`recall`): only the session tells
the two apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random

from foldline.context.audit import path_parts

from .changes import Block, Change, change
from .material import Edited, Material
from .normal import normal
from .probes import Absent, Probe, Text, leaks
from .recall import Candidate, by_name, edited_names, reports
from .rubric import worded

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


def superseded_candidates(material: Material, position: int) -> list[Candidate]:
    """All that changed up to a point and stands as it was changed last."""
    return [*_lines(material, position), *_outcomes(material, position)]


# -- lines of files --------------------------------------------------------------------------------


def _lines(material: Material, position: int) -> list[Candidate]:
    by_file: dict[str, list[Edited]] = defaultdict(list)
    for edit in material.edits:
        if edit.index <= position:
            by_file["/".join(path_parts(edit.block.path))].append(edit)
    return [candidate for edits in by_file.values() for candidate in _of_file(edits)]


def _of_file(edits: Sequence[Edited]) -> list[Candidate]:
    values: dict[str, list[tuple[int, Change]]] = defaultdict(list)
    for nth, edit in enumerate(edits):
        for made in _changes(edit.block):
            values[made.line].append((nth, made))
    found = []
    for line, changes in values.items():
        nth, newest = changes[-1]
        shown = f"{newest.head.strip()}{newest.after}{newest.tail.strip()}"
        if not _stands(edits[nth + 1 :], _squashed(shown)):
            continue
        stale = dict.fromkeys(value for _, made in changes for value in (made.before, made.after))
        truth = Text(newest.after, tuple(old for old in stale if normal(old) != normal(newest.after)))
        file = edits[nth].block.path
        question = worded("superseded", file=file, line=line.strip())
        if truth.stale and not leaks(question, truth):
            found.append(
                Candidate(Probe("superseded", question, truth, edits[nth].index), newest.after, "line")
            )
    return found


@lru_cache(maxsize=8192)
def _changes(block: Block) -> tuple[Change, ...]:
    return tuple(made for old, new in block.pairs() if (made := change(old, new)) is not None)


def _stands(later: Sequence[Edited], line: str) -> bool:
    """Whether no later edit of the file takes a line away."""
    for edit in later:
        kept = any(_squashed(added) == line for added in edit.block.added)
        taken = edit.block.whole or any(_squashed(removed) == line for removed in edit.block.removed)
        if taken and not kept:
            return False
    return True


@lru_cache(maxsize=8192)
def _squashed(line: str) -> str:
    """A line without its quotation marks and blanks, which a value is given without."""
    return "".join(line.split()).replace('"', "").replace("'", "")


# -- what commands report --------------------------------------------------------------------------


def _outcomes(material: Material, position: int) -> list[Candidate]:
    found = []
    for run, unit, numbers in reports(material, position):
        stale = tuple(dict.fromkeys(number for number in numbers if number != numbers[-1]))
        question = worded("outcome", command=run.command, unit=unit)
        truth = Text(numbers[-1], stale)
        if stale and not leaks(question, truth):
            key = f"{run.command} {unit}"
            found.append(Candidate(Probe("superseded", question, truth, run.index), key, "outcome"))
    return found
