"""Asks: the probes of each view one after the other, so that the provider's cache serves the view; then the
judge. What has been answered is kept, however it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from foldline.compaction.summary import answer_of
from foldline.context.tokens import Calibration
from foldline.llm import LLM, ContextOverflow, Request
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError, Usage

from .exam import Exam, Sheet, question
from .probes import Probe
from .rubric import NOTHING_SAID, REPEATS, Grades, Unreadable, grades, item, repair

CONCURRENCY = 4
"""Views that are asked at a time."""


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
    used: Usage = field(default_factory=Usage)
    """Of all requests, the judge's included."""
    cut_short: set[int] = field(default_factory=set)
    """Sheets whose server reported far fewer tokens than were sent: it saw a part of the view only."""
    refused: set[int] = field(default_factory=set)
    """Sheets that were longer than the server's window after all."""
    stopped: str = ""
    """Why it ended early; empty where it did not."""

    def probe(self, reply: Reply) -> Probe:
        return self.exam.sheets[reply.sheet].probes[reply.probe]

    def judged(self) -> list[int]:
        """The replies a judge grades, in an order that says nothing about where they come from."""
        numbers = [at for at, reply in enumerate(self.replies) if self.probe(reply).is_judged]
        numbers.sort(key=lambda at: self.replies[at][:3])  # they come in as they are ready
        Random(f"{self.exam.seed} judge").shuffle(numbers)
        return numbers


@dataclass(frozen=True, slots=True)
class Progress:
    phase: Literal["asking", "judging"]
    done: int
    total: int


class Sitting:
    """One run of an exam. `record` holds what is done, also after a cancel or a failure."""

    def __init__(
        self,
        exam: Exam,
        *,
        answerer: LLM,
        judge: LLM | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Without a judge of its own, the answerer judges itself: the result says so."""
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
            await _side_by_side([self._asks(number) for number in range(len(self._exam.sheets))])
            await _side_by_side([self._grades(number) for number in record.judged()])
        except* FoldlineError as failed:
            record.stopped = str(_first(failed))
        finally:  # a client may learn its model's name from the first answer
            record.answerer, record.judge = self._answerer.info.id, self._judge.info.id

    # --- the probes -------------------------------------------------------------------------------

    def _asks(self, number: int) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            sheet = self._exam.sheets[number]
            for at, probe in enumerate(sheet.probes):
                for nth in range(sheet.times(probe)):
                    try:
                        answer = await self._answer(sheet, number, probe)
                    except ContextOverflow:
                        self.record.refused.add(number)
                        return
                    self.record.replies.append(Reply(number, at, nth, answer.text))
                    self._progress(Progress("asking", len(self.record.replies), self._exam.answers))

        return ask

    async def _answer(self, sheet: Sheet, number: int, probe: Probe) -> AssistantMessage:
        asked = question(probe)
        answer = await self._send(self._answerer, (*sheet.view, asked))
        estimated = sheet.tokens + self._exam.meter.tokens(asked)
        if answer.usage and answer.usage.input:
            model = self._answerer.info.id
            if not Calibration().plausible(model, answer.usage.input, estimated):
                self.record.cut_short.add(number)
        return answer

    # --- the judge --------------------------------------------------------------------------------

    def _grades(self, number: int) -> Callable[[], Awaitable[None]]:
        async def grade() -> None:
            record = self.record
            reply = record.replies[number]
            for nth in range(REPEATS):
                found: Grades | None = NOTHING_SAID
                if reply.text.strip():
                    found = await self._judged(item(record.probe(reply), reply.text))
                record.graded.append(Graded(number, nth, found))
                total = REPEATS * sum(record.probe(each).is_judged for each in record.replies)
                self._progress(Progress("judging", len(record.graded), total))

        return grade

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
        record = self.record
        record.requests += 1
        if usage := answer.usage:
            record.used = Usage(
                input=record.used.input + usage.input,
                cached=record.used.cached + usage.cached,
                output=record.used.output + usage.output,
                reasoning=record.used.reasoning + usage.reasoning,
            )
        return answer


async def _side_by_side(jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Does all jobs, a few at a time. The first one that fails ends the others."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await job()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CONCURRENCY, len(jobs))):
            group.create_task(work())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
