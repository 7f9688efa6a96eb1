"""Recall probes: a gap in a sentence of the session, the folder of a file, the file a name was put into, a
number a command reported. Each has one answer in the raw history, and its question does not hold it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from foldline.context import facts
from foldline.context.audit import path_parts

from .changes import GAP
from .material import Material, Ran, Saying, Touched, squeezed
from .normal import normal, same_file
from .probes import Place, Probe, Text, Truth, leaks
from .rubric import worded


class Candidate(NamedTuple):
    probe: Probe
    key: str
    """What it asks for, as the history spells it: one probe a key."""
    form: str


def recall_candidates(material: Material, position: int) -> list[Candidate]:
    """All recall probes that can be written for a point."""
    return [
        *gaps(material, position),
        *folders(material, position),
        *places_of_names(material, position),
        *outcomes(material, position),
    ]


# -- gaps ------------------------------------------------------------------------------------------


def gaps(material: Material, position: int) -> list[Candidate]:
    """Sentences with one fact left out, where no other sentence differs from them in that fact alone."""
    found: dict[str, set[str]] = defaultdict(set)
    cut: list[tuple[Saying, str, str]] = []
    for saying in material.sayings:
        if saying.index <= position:
            for line, answer in _cloze(saying.text):
                found[normal(line)].add(normal(answer))
                cut.append((saying, line, answer))
    return [
        Candidate(Probe("recall", question, truth, saying.index), answer, "gap")
        for saying, line, answer in cut
        if len(found[normal(line)]) == 1
        and not leaks(
            question := worded("recall", speaker=saying.speaker, sentence=line), truth := _truth(answer)
        )
    ]


@lru_cache(maxsize=8192)
def _cloze(sentence: str) -> tuple[tuple[str, str], ...]:
    return tuple(_cuts(sentence))


def _cuts(sentence: str) -> Iterator[tuple[str, str]]:
    """The sentence with a gap, and what stood there, for each fact that stands in it once."""
    for answer in _facts(sentence):
        around = sentence.replace(answer, GAP)
        stem = squeezed(path_parts(answer)[-1].partition(".")[0] if facts.is_path(answer) else answer)
        if around.count(GAP) == 1 and len(around) >= _AROUND and stem and stem not in squeezed(around):
            yield around, answer


_AROUND = 30
"""Characters of a sentence that are left when a fact is taken out of it."""
_FIGURE = re.compile(r"\d{2,}(?:[.,_]\d+)*")


def _facts(sentence: str) -> Iterator[str]:
    for path in facts.paths(sentence):
        if "." in path_parts(path)[-1].strip("."):
            yield path
    runs = set(facts.paths(sentence))
    for name in facts.identifiers(sentence):
        if not any(name in run for run in runs):
            yield name
    for number in facts.numbers(sentence):
        if not facts.is_path(number.split(":")[0]):
            yield from _FIGURE.findall(number)[-1:]
    yield from facts.hashes(sentence)


def _truth(answer: str) -> Truth:
    if not facts.is_path(answer):
        return Text(answer)
    return Place(answer)


# -- files -----------------------------------------------------------------------------------------


def folders(material: Material, position: int) -> list[Candidate]:
    """Where the files lie that the session read or changed, by their names; only names that are unique."""
    named = by_name(touch for touch in material.touches if touch.index <= position)
    found = []
    for name, touches in named.items():
        folder = max((touch.path for touch in touches), key=len).rpartition("/")[0]
        parts = path_parts(folder) if folder else ()
        if len(parts) < 2 or not all(same_file(folder + "/" + name, touch.path) for touch in touches):
            continue
        truth = Place(folder, least=2)
        question = worded("folder", name=name)
        if not leaks(question, truth):
            found.append(Candidate(Probe("recall", question, truth, touches[0].index), name, "folder"))
    return found


def by_name(touches: Iterable[Touched]) -> Mapping[str, list[Touched]]:
    """The touches of files, by the last name of their paths."""
    named: dict[str, list[Touched]] = defaultdict(list)
    for touch in touches:
        named[path_parts(touch.path)[-1]].append(touch)
    return named


def places_of_names(material: Material, position: int) -> list[Candidate]:
    """Names of code that edits put into one file and no other."""
    found = []
    for name, files in edited_names(material, position).items():
        path = max(files, key=len)
        stem = squeezed(path_parts(path)[-1].partition(".")[0])
        if not all(same_file(path, other) for other in files) or stem in squeezed(name):
            continue
        index = min(files.values())
        found.append(Candidate(Probe("recall", worded("name", name=name), Place(path), index), name, "name"))
    return found


def edited_names(material: Material, position: int) -> Mapping[str, Mapping[str, int]]:
    """By name of code: the files that edits put it into, each with the entry that did so first."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for edit in material.edits:
        if edit.index <= position:
            for name in _names(edit.block.added):
                found[name].setdefault(edit.block.path, edit.index)
    return found


@lru_cache(maxsize=8192)
def _names(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in facts.identifiers("\n".join(lines)) if len(name) >= _NAME)


_NAME = 8
"""Letters of a name that is not everywhere."""


# -- commands --------------------------------------------------------------------------------------


def reports(material: Material, position: int) -> Iterator[tuple[Ran, str, list[str]]]:
    """What the newest run of each command reports: the run, the unit, and its number in all runs so far."""
    runs: dict[str, list[Ran]] = defaultdict(list)
    for run in material.runs:
        if run.index <= position:
            runs[run.command].append(run)
    for same in runs.values():
        for unit in same[-1].numbers:
            yield same[-1], unit, [run.numbers[unit] for run in same if unit in run.numbers]


def outcomes(material: Material, position: int) -> list[Candidate]:
    """Numbers that all runs of a command report alike."""
    found = []
    for run, unit, numbers in reports(material, position):
        question = worded("outcome", command=run.command, unit=unit)
        truth = Text(numbers[-1])
        if len(set(numbers)) == 1 and len(truth.text) > 1 and not leaks(question, truth):
            found.append(Candidate(Probe("recall", question, truth, run.index), truth.text, "outcome"))
    return found
