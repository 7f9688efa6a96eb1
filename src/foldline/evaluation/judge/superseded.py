"""Superseded values: what changed in the course of a session. The right answer is the newest one."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from foldline.context.mentions import path_parts

from .changes import Block, Change, change
from .material import Edited, Material
from .normal import normal
from .probes import Probe, Text, leaks
from .recall import Candidate, reports
from .wording import worded


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
