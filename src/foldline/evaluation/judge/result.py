"""The result of a sitting: a table of arms and dimensions, and everything that tells how far to trust it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from random import Random
from statistics import fmean, stdev
from typing import Literal

from .answers import EXACT, FALSE_REFUSALS, NEXT_PATH, NEXT_TOOL, STALE, Ground, marks, next_call
from .exam import CEILING, ENOUGH, FLOOR, Exam
from .sitting import CRITERIA, HIGHEST, Record, Reply

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
    score: float | None
    """Mean over the points; None for a mean over dimensions, which have different scales."""
    half_width: float | None
    """1.96 sd / sqrt(n); None below two points."""
    norm: float | None
    """Where it lies between floor (0) and ceiling (1), over the points that have all three."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Noise:
    """How often the next action is the same when nothing differs: from the raw history, asked again."""

    points: int
    agreement: float | None
    """Share of pairs of repeats that name the same tool and path."""


@dataclass(frozen=True, slots=True)
class HandCheck:
    """A judged answer for a person to grade: like the judge, they do not see the strategy."""

    question: str
    record: str
    answer: str
    grades: tuple[Mapping[str, float | None] | None, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything, as far as it was asked."""

    answerer: str
    judge: str
    seed: str
    points: int
    sessions: int
    asked: Mapping[str, int]
    """Answers by kind of probe."""
    requests: int
    input_tokens: int
    """As the provider reports them; 0 where it does not."""
    cached_tokens: int
    output_tokens: int
    rows: tuple[Row, ...]
    noise: Noise
    spread: Mapping[str, float]
    """By criterion: highest minus lowest grade of one answer, on average."""
    unreadable: int
    """Judgements that could not be understood: missing, and no scores."""
    hand_check: tuple[HandCheck, ...]
    notes: tuple[str, ...]
    stopped: str

    @property
    def insufficient(self) -> bool:
        """Whether there are too few points for the differences to mean anything."""
        return self.points < ENOUGH

    @property
    def judges_itself(self) -> bool:
        return bool(self.judge) and self.judge == self.answerer

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "insufficient": self.insufficient, "judges_itself": self.judges_itself}


def judgement(record: Record) -> Judgement:
    """The result so far; also of a sitting that was cancelled or failed."""
    exam = record.exam
    scores = _scores(record)
    used = {record.exam.sheets[reply.sheet].point for reply in record.replies}
    return Judgement(
        answerer=record.answerer,
        judge=record.judge,
        seed=exam.seed,
        points=len(used),
        sessions=len({exam.points[point].session for point in used}),
        asked=dict(Counter(record.probe(reply).kind for reply in record.replies)),
        requests=record.requests,
        input_tokens=record.used.input,
        cached_tokens=record.used.cached,
        output_tokens=record.used.output,
        rows=tuple(_rows(exam, scores)),
        noise=_noise(record),
        spread=_spread(record),
        unreadable=sum(graded.grades is None for graded in record.graded),
        hand_check=_hand_check(record),
        notes=(*exam.notes, *_notes(record)),
        stopped=record.stopped,
    )


# -- scores ----------------------------------------------------------------------------------------

_Scores = dict[tuple[str, str], dict[int, float]]
"""By arm and dimension: the mean of each point."""


def _scores(record: Record) -> _Scores:
    single: dict[tuple[str, str], dict[int, list[float]]] = {}
    graded: dict[int, dict[str, list[float]]] = {}
    for judged in record.graded:
        for name, grade in (judged.grades or {}).items():
            if grade is not None:
                graded.setdefault(judged.reply, {}).setdefault(name, []).append(grade)
    for number, reply in enumerate(record.replies):
        sheet = record.exam.sheets[reply.sheet]
        found = marks(record.probe(reply), reply.text)
        found |= {JUDGED[name]: fmean(repeats) for name, repeats in graded.get(number, {}).items()}
        for arm in sheet.arms:
            for name, value in found.items():
                single.setdefault((arm, name), {}).setdefault(sheet.point, []).append(value)
    return {
        key: {point: fmean(values) for point, values in sorted(points.items())}
        for key, points in single.items()
    }


def _rows(exam: Exam, scores: _Scores) -> list[Row]:
    rows: list[Row] = []
    for arm in exam.arms:
        of_arm = [
            _row(arm, dimension, scores) for dimension in DIMENSIONS if scores.get((arm, dimension.name))
        ]
        rows += of_arm
        for name, kind in ((MEAN_OF_PROBES, "exact"), (MEAN_OF_GRADES, "judged")):
            names = {dimension.name for dimension in DIMENSIONS if dimension.kind == kind}
            norms = [row.norm for row in of_arm if row.dimension in names and row.norm is not None]
            if norms:
                rows.append(Row(arm, name, len(norms), None, None, fmean(norms)))
    return rows


def _row(arm: str, dimension: Dimension, scores: _Scores) -> Row:
    points = scores[arm, dimension.name]
    norm, remark = _norm(points, dimension, scores)
    values = list(points.values())
    return Row(arm, dimension.name, len(values), fmean(values), half_width(values), norm, remark)


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
    by_sheet: dict[int, list[Reply]] = {}
    for reply in record.replies:
        if record.probe(reply).kind == "action" and CEILING in record.exam.sheets[reply.sheet].arms:
            by_sheet.setdefault(reply.sheet, []).append(reply)
    agree = [
        float(next_call(one.text) == next_call(other.text))
        for replies in by_sheet.values()
        for one, other in combinations(replies, 2)
    ]
    return Noise(len(by_sheet), fmean(agree) if agree else None)


def _spread(record: Record) -> dict[str, float]:
    spread: dict[str, list[float]] = {name: [] for name in CRITERIA}
    by_reply: dict[int, list[Mapping[str, float | None]]] = {}
    for graded in record.graded:
        if graded.grades is not None:
            by_reply.setdefault(graded.reply, []).append(graded.grades)
    for repeats in by_reply.values():
        for name in CRITERIA:
            given = [grade for each in repeats if (grade := each[name]) is not None]
            if len(given) > 1:
                spread[name].append(max(given) - min(given))
    return {name: fmean(values) for name, values in spread.items() if values}


def _hand_check(record: Record) -> tuple[HandCheck, ...]:
    judged = list(dict.fromkeys(graded.reply for graded in record.graded))
    judged.sort(key=lambda number: record.replies[number][:3])
    count = math.ceil(HAND_SHARE * len(judged))
    checks = []
    for number in Random(f"{record.exam.seed} hand").sample(judged, count):
        reply = record.replies[number]
        probe = record.probe(reply)
        ground = probe.truth.text if isinstance(probe.truth, Ground) else ""
        given = tuple(each.grades for each in record.graded if each.reply == number)
        checks.append(HandCheck(probe.question, ground, reply.text, given))
    return tuple(checks)


def _notes(record: Record) -> list[str]:
    notes = []
    if record.cut_short:
        notes.append(
            f"The server reported far fewer tokens than were sent for {len(record.cut_short)} of "
            f"{len(record.exam.sheets)} views: it seems to cut them, and answers from these are worth little."
        )
    if record.refused:
        notes.append(
            f"Left out, as longer than the server's window: {len(record.refused)} of "
            f"{len(record.exam.sheets)} views."
        )
    silent = sum(not reply.text.strip() for reply in record.replies)
    if silent:
        notes.append(f"{silent} of {len(record.replies)} answers were empty.")
    return notes
