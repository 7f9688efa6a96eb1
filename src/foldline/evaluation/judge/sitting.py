"""Asks the probes of each view one after the other, so that the provider's cache serves the view; then the
judge, which never learns which strategy it grades. What has been answered is kept, however it ends: a table
of arms and dimensions, and everything that tells how far to trust it.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from statistics import fmean, stdev
from typing import Final, NamedTuple

from foldline.compaction.summary import answer_of
from foldline.context.tokens import Calibration
from foldline.evaluation.record import View
from foldline.llm import LLM, ContextOverflow, Request
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError, Usage

from .answers import EXACT, FALSE_REFUSALS, STALE, Probe, marks
from .exam import CEILING, ENOUGH, FLOOR, SEED, Exam, grading, question

CONCURRENCY: Final = 4
"""Views that are asked at a time."""
CRITERIA: Final = ("accuracy", "context", "artifact", "completeness", "continuity", "instruction")
"""Factory's six; each from 0 to `HIGHEST`."""
HIGHEST: Final = 5
Grades = Mapping[str, float | None]
"""By criterion; None where the question leaves nothing to grade."""
NOTHING_SAID: Final[Grades] = dict.fromkeys(CRITERIA, 0.0)
"""What an empty answer gets: a judge need not be asked."""


class Reply(NamedTuple):
    """One answer to one probe."""

    sheet: int
    probe: int
    text: str


@dataclass
class Record:
    """What was answered and graded so far."""

    exam: Exam
    answerer: str = ""
    judge: str = ""
    replies: list[Reply] = field(default_factory=list)
    graded: dict[int, Grades | None] = field(default_factory=dict)
    """By number of the reply; None where the judge could not be understood."""
    requests: int = 0
    used: Usage = field(default_factory=Usage)  # of all requests, the judge's included
    cut_short: set[int] = field(default_factory=set)
    """Sheets whose server reported far fewer tokens than were sent: it saw a part of the view only."""
    refused: set[int] = field(default_factory=set)
    """Sheets that were longer than the server's window after all."""
    stopped: str = ""  # why it ended early; empty where it did not

    def probe(self, reply: Reply) -> Probe:
        return self.exam.sheets[reply.sheet].probes[reply.probe]

    def judged(self) -> list[int]:
        """The replies that a judge grades."""
        return [number for number, reply in enumerate(self.replies) if self.probe(reply).is_judged]


class Sitting:
    """One run of an exam. `record` holds what is done, also after a cancel or a failure."""

    def __init__(
        self,
        exam: Exam,
        *,
        answerer: LLM,
        judge: LLM | None = None,
        progress: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Without a judge of its own, the answerer judges itself: the result says so.

        `progress` gets `asking` after each answer, and `judging` after each judgement.
        """
        self._exam = exam
        self._answerer = answerer
        self._judge = judge or answerer
        self._progress = progress
        self.record = Record(exam)

    async def run(self) -> None:
        """Asks everything. A failure of a model ends it and is said in `record.stopped`; cancelling is at
        once."""
        record = self.record
        try:
            await _side_by_side(self._ask, range(len(self._exam.sheets)))
            await _side_by_side(self._grade, record.judged())
        except* FoldlineError as failed:
            record.stopped = str(failed.exceptions[0])
        finally:  # a client may learn its model's name from the first answer
            record.answerer, record.judge = self._answerer.info.id, self._judge.info.id

    async def _ask(self, number: int) -> None:
        """Asks all probes of one view."""
        try:
            for at, probe in enumerate(self._exam.sheets[number].probes):
                text = await self._answer(number, question(probe))
                self.record.replies.append(Reply(number, at, text))
                self._progress("asking")
        except ContextOverflow:
            self.record.refused.add(number)

    async def _answer(self, number: int, asked: BaseMessage) -> str:
        sheet = self._exam.sheets[number]
        answer = await self._send(self._answerer, (*sheet.view, asked))
        if answer.usage and answer.usage.input:
            estimated = sheet.tokens + self._exam.meter.tokens(asked)
            if not Calibration().plausible(self._answerer.info.id, answer.usage.input, estimated):
                self.record.cut_short.add(number)
        return answer.text

    async def _grade(self, number: int) -> None:
        """Has one reply graded."""
        reply = self.record.replies[number]
        found: Grades | None = NOTHING_SAID
        if reply.text.strip():
            judged = await self._send(self._judge, grading(self.record.probe(reply), reply.text))
            found = grades(judged.text)
        self.record.graded[number] = found
        self._progress("judging")

    async def _send(self, llm: LLM, messages: View) -> AssistantMessage:
        answer = await answer_of(llm, Request(messages=messages, max_output=self._exam.max_output))
        self.record.requests += 1
        if answer.usage:
            self.record.used += answer.usage
        return answer


async def _side_by_side(do: Callable[[int], Awaitable[None]], numbers: Sequence[int]) -> None:
    """Does all of them, a few at a time. The first one that fails ends the others."""
    waiting = iter(numbers)

    async def work() -> None:
        for number in waiting:
            await do(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CONCURRENCY, len(numbers))):
            group.create_task(work())


def grades(answer: str) -> Grades | None:
    """The grades in a judge's answer, one JSON object, whatever stands around it; None where it has none."""
    try:
        value = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    given = {name: value.get(name, -1) for name in CRITERIA}
    return given if all(grade is None or _is_grade(grade) for grade in given.values()) else None


def _is_grade(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= HIGHEST


# --- the result ---------------------------------------------------------------------------------------

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
