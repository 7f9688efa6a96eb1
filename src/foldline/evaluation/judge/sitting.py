"""Asks: the probes of each view one after the other, so that the provider's cache serves the view; then the
judge, which never learns which strategy it grades. What has been answered is kept, however it ends.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from foldline.compaction.summary import answer_of
from foldline.context.tokens import Calibration
from foldline.llm import LLM, ContextOverflow, Request
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError, Usage, UserMessage, text_parts

from .answers import Probe
from .exam import GRADED, Exam, grading, question
from .questions import worded

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
    nth: int
    """Which of the times it was asked."""
    text: str


@dataclass(frozen=True, slots=True)
class Graded:
    """One judgement of one reply; None where the judge could not be understood."""

    reply: int
    nth: int
    grades: Grades | None


@dataclass
class Record:
    """What was answered and graded so far."""

    exam: Exam
    answerer: str = ""
    judge: str = ""
    replies: list[Reply] = field(default_factory=list)
    graded: list[Graded] = field(default_factory=list)
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
        """The replies a judge grades, in an order that says nothing about where they come from."""
        numbers = [at for at, reply in enumerate(self.replies) if self.probe(reply).is_judged]
        numbers.sort(key=lambda at: self.replies[at][:3])  # they come in as they are ready
        Random(f"{self.exam.seed} judge").shuffle(numbers)
        return numbers


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
        sheet = self._exam.sheets[number]
        try:
            for at, probe in enumerate(sheet.probes):
                for nth in range(sheet.times(probe)):
                    text = await self._answer(number, question(probe))
                    self.record.replies.append(Reply(number, at, nth, text))
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
        for nth in range(GRADED):
            found: Grades | None = NOTHING_SAID
            if reply.text.strip():
                found = await self._judged(grading(self.record.probe(reply), reply.text))
            self.record.graded.append(Graded(number, nth, found))
            self._progress("judging")

    async def _judged(self, request: tuple[BaseMessage, ...]) -> Grades | None:
        """The judge's grades, after one repair where that is needed; None where they cannot be had."""
        try:
            answer = await self._send(self._judge, request)
            read = grades(answer.text)
            if isinstance(read, Unreadable):
                again = await self._send(self._judge, repair(request, answer.text, read))
                read = grades(again.text)
        except ContextOverflow:
            return None
        return None if isinstance(read, Unreadable) else read

    async def _send(self, llm: LLM, messages: tuple[BaseMessage, ...]) -> AssistantMessage:
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


# --- the judge's answers ------------------------------------------------------------------------------

_FENCED: Final = re.compile(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An answer of the judge that is no grades."""

    reason: str


def grades(answer: str) -> Grades | Unreadable:
    """The grades in a judge's answer: one JSON object, at most with a fence around it."""
    text = answer.strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return Unreadable("it is not one JSON object")
    if not isinstance(value, dict):
        return Unreadable("it is not a JSON object")
    for name in CRITERIA:
        if name not in value:
            return Unreadable(f"`{name}` is missing")
        if not (value[name] is None or _is_grade(value[name])):
            return Unreadable(f"`{name}` is no number from 0 to {HIGHEST}")
    return {name: None if value[name] is None else float(value[name]) for name in CRITERIA}


def _is_grade(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= HIGHEST


def repair(request: tuple[BaseMessage, ...], answer: str, fault: Unreadable) -> tuple[BaseMessage, ...]:
    """The request once more, with what was wrong with the first answer."""
    first = AssistantMessage(parts=text_parts(answer.strip() or "…"))
    text = worded("repair", reason=fault.reason)
    return (*request, first, UserMessage(origin="machine", parts=text_parts(text)))
