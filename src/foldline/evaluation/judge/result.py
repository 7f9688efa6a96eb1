"""The result of a sitting: a table of arms and dimensions, and everything that tells how far to trust it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from random import Random
from statistics import fmean, stdev
from typing import Literal

from .answers import EXACT, FALSE_REFUSALS, NEXT_PATH, NEXT_TOOL, STALE, Ground, marks, next_call
from .exam import CEILING, ENOUGH, FLOOR, Exam
from .sitting import CRITERIA, HIGHEST, Grades, Record

NOT_DISCRIMINATING = "not discriminating"
NO_SCALE = "no floor and ceiling to hold it against"
MEAN_OF_PROBES, MEAN_OF_GRADES = "mean of the probes", "mean of the grades"
HAND_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Dimension:
    """Something that is scored. Only `exact` and `judged` ones have a mean over several of them."""

    name: str
    kind: Literal["exact", "judged", "behaviour", "count"]
    highest: int = 1

    @property
    def least_span(self) -> float:
        """Between ceiling and floor: below a tenth of the scale nothing can be told apart."""
        return 0.1 * self.highest


JUDGED = {name: f"graded {name}" for name in CRITERIA}
"""Dimension by criterion. Not to be confused with `artifact`, which is counted."""
DIMENSIONS = (
    *(Dimension(name, "exact") for name in EXACT),
    *(Dimension(name, "judged", HIGHEST) for name in JUDGED.values()),
    *(Dimension(name, "behaviour") for name in (NEXT_TOOL, NEXT_PATH)),
    *(Dimension(name, "count") for name in (FALSE_REFUSALS, STALE)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the table."""

    arm: str
    dimension: str
    n: int
    """Points that were scored: probes of one point are not independent of each other. For a mean over
    dimensions, how many these are."""
    score: float | None  # mean over the points; None for a mean over dimensions, which have different scales
    half_width: float | None  # 1.96 sd / sqrt(n); None below two points
    norm: float | None  # where it lies between floor (0) and ceiling (1), of the points that have all three
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Noise:
    """How often the next action is the same when nothing differs: from the raw history, asked again."""

    points: int
    agreement: float | None  # share of pairs of repeats that name the same tool and path


@dataclass(frozen=True, slots=True)
class HandCheck:
    """A judged answer for a person to grade: like the judge, they do not see the strategy."""

    question: str
    record: str
    answer: str
    grades: tuple[Grades | None, ...]


class Judgement:
    """Everything, as far as it was asked; also of a sitting that was cancelled or failed."""

    def __init__(self, record: Record) -> None:
        exam, used = record.exam, {record.exam.sheets[reply.sheet].point for reply in record.replies}
        self.answerer, self.judge, self.seed = record.answerer, record.judge, exam.seed
        self.points = len(used)
        self.sessions = len({exam.points[point].session for point in used})
        self.asked = dict(Counter(record.probe(reply).kind for reply in record.replies))
        self.requests = record.requests
        self.input_tokens = record.used.input
        """As the provider reports them; 0 where it does not."""
        self.cached_tokens, self.output_tokens = record.used.cached, record.used.output
        self.rows = tuple(_rows(exam, _scores(record)))
        self.noise = _noise(record)
        self.spread = _spread(record)
        """By criterion: highest minus lowest grade of one answer, on average."""
        self.unreadable = sum(graded.grades is None for graded in record.graded)
        """Judgements that could not be understood: missing, and no scores."""
        self.hand_check = _hand_check(record)
        self.notes = (*exam.notes, *_notes(record))
        self.stopped = record.stopped
        self.insufficient = self.points < ENOUGH
        """Whether there are too few points for the differences to mean anything."""
        self.judges_itself = bool(self.judge) and self.judge == self.answerer

    def as_json(self) -> dict[str, object]:
        parts = {name: tuple(map(asdict, vars(self)[name])) for name in ("rows", "hand_check")}
        return {**vars(self), **parts, "noise": asdict(self.noise)}


# -- scores ----------------------------------------------------------------------------------------

_Scores = dict[tuple[str, str], dict[int, float]]
"""By arm and dimension: the mean of each point."""


def _scores(record: Record) -> _Scores:
    graded: dict[int, dict[str, list[float]]] = {}
    for judged in record.graded:
        for name, grade in (judged.grades or {}).items():
            if grade is not None:
                graded.setdefault(judged.reply, {}).setdefault(JUDGED[name], []).append(grade)
    single: dict[tuple[str, str], dict[int, list[float]]] = {}
    for number, reply in enumerate(record.replies):
        sheet = record.exam.sheets[reply.sheet]
        found = marks(record.probe(reply), reply.text)
        found |= {name: fmean(repeats) for name, repeats in graded.get(number, {}).items()}
        for arm, (name, value) in product(sheet.arms, found.items()):
            single.setdefault((arm, name), {}).setdefault(sheet.point, []).append(value)
    return {
        key: {point: fmean(values) for point, values in sorted(points.items())}
        for key, points in single.items()
    }


def _rows(exam: Exam, scores: _Scores) -> Iterator[Row]:
    for arm in exam.arms:
        norms: dict[str, list[float]] = {}
        for dimension in DIMENSIONS:
            if points := scores.get((arm, dimension.name)):
                norm, remark = _norm(points, dimension, scores)
                values = list(points.values())
                yield Row(arm, dimension.name, len(values), fmean(values), half_width(values), norm, remark)
                if norm is not None:
                    norms.setdefault(dimension.kind, []).append(norm)
        for name, kind in ((MEAN_OF_PROBES, "exact"), (MEAN_OF_GRADES, "judged")):
            if found := norms.get(kind):
                yield Row(arm, name, len(found), None, None, fmean(found))


def half_width(values: Sequence[float]) -> float | None:
    """Of the 95 % interval around their mean."""
    return 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _norm(points: Mapping[int, float], dimension: Dimension, scores: _Scores) -> tuple[float | None, str]:
    if dimension.kind == "count":
        return None, "lower is better"
    floor = scores.get((FLOOR, dimension.name), {})
    ceiling = scores.get((CEILING, dimension.name), {})
    shared = [point for point in points if point in floor and point in ceiling]
    if not shared:
        return None, NO_SCALE
    low, high = fmean(floor[point] for point in shared), fmean(ceiling[point] for point in shared)
    if high - low < dimension.least_span:
        return None, NOT_DISCRIMINATING
    return (fmean(points[point] for point in shared) - low) / (high - low), ""


# -- how far to trust it ---------------------------------------------------------------------------


def _noise(record: Record) -> Noise:
    by_sheet: dict[int, list[tuple[str, str] | None]] = {}
    for reply in record.replies:
        if record.probe(reply).kind == "action" and CEILING in record.exam.sheets[reply.sheet].arms:
            by_sheet.setdefault(reply.sheet, []).append(next_call(reply.text))
    agree = [one == other for calls in by_sheet.values() for one, other in combinations(calls, 2)]
    return Noise(len(by_sheet), fmean(agree) if agree else None)


def _spread(record: Record) -> dict[str, float]:
    given: dict[tuple[str, int], list[float]] = {}
    for graded in record.graded:
        for name, grade in (graded.grades or {}).items():
            if grade is not None:
                given.setdefault((name, graded.reply), []).append(grade)
    spread = {
        name: [max(grades) - min(grades) for (of, _), grades in given.items() if of == name and grades[1:]]
        for name in CRITERIA
    }
    return {name: fmean(values) for name, values in spread.items() if values}


def _hand_check(record: Record) -> tuple[HandCheck, ...]:
    judged = list(dict.fromkeys(graded.reply for graded in record.graded))
    judged.sort(key=lambda number: record.replies[number][:3])
    checks = []
    for number in Random(f"{record.exam.seed} hand").sample(judged, math.ceil(HAND_SHARE * len(judged))):
        reply = record.replies[number]
        probe = record.probe(reply)
        ground = probe.truth.text if isinstance(probe.truth, Ground) else ""
        given = tuple(each.grades for each in record.graded if each.reply == number)
        checks.append(HandCheck(probe.question, ground, reply.text, given))
    return tuple(checks)


def _notes(record: Record) -> Iterator[str]:
    views, answers = len(record.exam.sheets), len(record.replies)
    if short := len(record.cut_short):
        yield (
            f"The server reported far fewer tokens than were sent for {short} of {views} views: "
            "it seems to cut them, and answers from these are worth little."
        )
    if refused := len(record.refused):
        yield f"Left out, as longer than the server's window: {refused} of {views} views."
    if silent := sum(not reply.text.strip() for reply in record.replies):
        yield f"{silent} of {answers} answers were empty."
