"""The result of a sitting: a table of arms and dimensions, and everything that tells how far to trust it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean, stdev
from typing import Final

from .answers import EXACT, FALSE_REFUSALS, STALE, marks
from .exam import CEILING, ENOUGH, FLOOR, SEED, Exam
from .sitting import CRITERIA, HIGHEST, Record

NOT_DISCRIMINATING = "not discriminating"
NO_SCALE = "no floor and ceiling to hold it against"
MEANS: Final = {"exact": "mean of the probes", "judged": "mean of the grades"}

JUDGED = {name: f"graded {name}" for name in CRITERIA}
"""Dimension by criterion."""
DIMENSIONS: Final = {
    **dict.fromkeys(EXACT, "exact"),
    **dict.fromkeys(JUDGED.values(), "judged"),
    **dict.fromkeys((FALSE_REFUSALS, STALE), "count"),
}
"""All that is scored, and how: counts have no mean over several of them."""


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


class Judgement:
    """Everything, as far as it was asked; also of a sitting that was cancelled or failed."""

    def __init__(self, record: Record) -> None:
        exam, used = record.exam, {record.exam.sheets[reply.sheet].point for reply in record.replies}
        self.answerer, self.judge, self.seed = record.answerer, record.judge, SEED
        self.points = len(used)
        self.sessions = len({exam.points[point].session for point in used})
        self.asked = dict(Counter(record.probe(reply).kind for reply in record.replies))
        self.requests = record.requests
        self.input_tokens = record.used.input
        """As the provider reports them; 0 where it does not."""
        self.cached_tokens, self.output_tokens = record.used.cached, record.used.output
        self.rows = tuple(_rows(exam, _scores(record)))
        self.unreadable = sum(grades is None for grades in record.graded.values())
        """Judgements that could not be understood: missing, and no scores."""
        self.notes = (*exam.notes, *_notes(record))
        self.stopped = record.stopped
        self.insufficient = self.points < ENOUGH
        """Whether there are too few points for the differences to mean anything."""
        self.judges_itself = bool(self.judge) and self.judge == self.answerer

    def as_json(self) -> dict[str, object]:
        return {**vars(self), "rows": tuple(map(asdict, self.rows))}


# -- scores ----------------------------------------------------------------------------------------

_Scores = dict[tuple[str, str], dict[int, float]]
"""By arm and dimension: the mean of each point."""


def _scores(record: Record) -> _Scores:
    single: dict[tuple[str, str], dict[int, list[float]]] = {}
    for number, reply in enumerate(record.replies):
        sheet, given = record.exam.sheets[reply.sheet], record.graded.get(number) or {}
        found = marks(record.probe(reply), reply.text)
        found |= {JUDGED[name]: grade for name, grade in given.items() if grade is not None}
        for arm, (name, value) in product(sheet.arms, found.items()):
            single.setdefault((arm, name), {}).setdefault(sheet.point, []).append(value)
    return {
        key: {point: fmean(values) for point, values in sorted(points.items())}
        for key, points in single.items()
    }


def _rows(exam: Exam, scores: _Scores) -> Iterator[Row]:
    for arm in exam.arms:
        norms: dict[str, list[float]] = {}
        for dimension, kind in DIMENSIONS.items():
            if points := scores.get((arm, dimension)):
                norm, remark = _norm(points, dimension, scores)
                values = list(points.values())
                yield Row(arm, dimension, len(values), fmean(values), half_width(values), norm, remark)
                if norm is not None:
                    norms.setdefault(kind, []).append(norm)
        for kind, name in MEANS.items():
            if found := norms.get(kind):
                yield Row(arm, name, len(found), None, None, fmean(found))


def half_width(values: Sequence[float]) -> float | None:
    """Of the 95 % interval around their mean."""
    return 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _norm(points: Mapping[int, float], dimension: str, scores: _Scores) -> tuple[float | None, str]:
    if DIMENSIONS[dimension] == "count":
        return None, "lower is better"
    floor, ceiling = scores.get((FLOOR, dimension), {}), scores.get((CEILING, dimension), {})
    shared = [point for point in points if point in floor and point in ceiling]
    if not shared:
        return None, NO_SCALE
    low, high = fmean(floor[point] for point in shared), fmean(ceiling[point] for point in shared)
    # Below a tenth of the scale no difference can be seen.
    if high - low < 0.1 * (HIGHEST if DIMENSIONS[dimension] == "judged" else 1):
        return None, NOT_DISCRIMINATING
    return (fmean(points[point] for point in shared) - low) / (high - low), ""


def _notes(record: Record) -> Iterator[str]:
    views, answers = len(record.exam.sheets), len(record.replies)
    if short := len(record.cut_short):
        yield (
            f"The server reported far fewer tokens than were sent for {short} of {views} views: "
            "it seems to cut them, and answers from these are worth little."
        )
    if refused := len(record.refused):
        yield f"Left out, as longer than the server's window: {refused} of {views} views."
    if empty := sum(not reply.text.strip() for reply in record.replies):
        yield f"{empty} of {answers} answers were empty."
    if unreadable := sum(grades is None for grades in record.graded.values()):
        yield f"{unreadable} of {len(record.graded)} judgements could not be read."
