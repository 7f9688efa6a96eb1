"""What an answer is worth: marks by exact match, or the judge's grades. Pure."""

import json
import re
from dataclasses import dataclass
from typing import Literal, assert_never

from .normal import f1, gives, is_refusal, named_paths, said, same_file
from .probes import Absent, Action, Files, Ground, Place, Probe, Text
from .rubric import CRITERIA, HIGHEST


@dataclass(frozen=True, slots=True)
class Dimension:
    """Something that is scored. Only `exact` and `judged` ones have a mean over several of them."""

    name: str
    kind: Literal["exact", "judged", "behaviour", "count"]
    highest: int = 1

    @property
    def least_span(self) -> float:
        """Between ceiling and floor: below it nothing can be told apart (.5 of 5, evaluation.md §6)."""
        return 0.1 * self.highest


EXACT = tuple(
    Dimension(name, "exact") for name in ("recall", "artifact", "constraint", "superseded", "abstain")
)
JUDGED = {name: Dimension(f"graded {name}", "judged", HIGHEST) for name in CRITERIA}
"""By criterion. Not to be confused with `artifact`, which is counted."""
NEXT_TOOL, NEXT_PATH = Dimension("next tool", "behaviour"), Dimension("next path", "behaviour")
FALSE_REFUSALS, STALE = Dimension("false refusals", "count"), Dimension("stale answers", "count")
"""Shares of what should not be: lower is better."""
DIMENSIONS = (*EXACT, *JUDGED.values(), NEXT_TOOL, NEXT_PATH, FALSE_REFUSALS, STALE)

Marks = dict[str, float]
"""By name of the dimension."""


def marks(probe: Probe, answer: str) -> Marks:
    """The marks an answer gets without a judge; none for what only a judge can grade."""
    refused = float(is_refusal(answer))
    match probe.truth:
        case Text(text, stale):
            right = gives(answer, [text], stale)
            found = {probe.kind: float(right), FALSE_REFUSALS.name: refused}
            if stale:
                found[STALE.name] = float(not right and any(gives(answer, [old]) for old in stale))
            return found
        case Place():
            return {probe.kind: float(_names(answer, probe.truth)), FALSE_REFUSALS.name: refused}
        case Files(files):
            return {probe.kind: f1(named_paths(answer), files), FALSE_REFUSALS.name: refused}
        case Absent():
            return {"abstain": refused}
        case Action():
            return _next(answer, probe.truth)
        case Ground():
            return {}
        case _:
            assert_never(probe.truth)


def _names(answer: str, truth: Place) -> bool:
    """Whether an answer gives this path, and no other one beside it."""
    if is_refusal(answer):
        return False
    given = named_paths(answer) or [said(answer)]
    return all(_is_path(path.rstrip("/"), truth) for path in given)


def _is_path(path: str, truth: Place) -> bool:
    whole = path.replace("\\", "/")
    enough = len([part for part in whole.split("/") if part not in ("", ".", "~")]) >= truth.least
    return enough and same_file(whole, truth.path)


_OBJECT = re.compile(r"\{[^{}]*\}")


def next_call(answer: str) -> tuple[str, str] | None:
    """The tool and the path an answer names as the next call; None where it names none."""
    for found in _OBJECT.finditer(answer):
        try:
            value = json.loads(found[0])
        except ValueError:
            continue
        tool, path = value.get("tool"), value.get("path")
        if isinstance(tool, str) and tool.strip():
            return tool.strip(), path.strip() if isinstance(path, str) else ""
    return None


def _next(answer: str, truth: Action) -> Marks:
    tool, path = next_call(answer) or ("", "")
    found = {NEXT_TOOL.name: float(tool.casefold() == truth.tool.casefold())}
    if truth.path:
        found[NEXT_PATH.name] = float(bool(path) and same_file(path, truth.path))
    return found
