"""Asks: the probes of each view one after the other, so that the provider's cache serves the view; then the
judge, which never learns which strategy it grades. What has been answered is kept, however it ends.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from foldline.compaction.summary import answer_of
from foldline.context.tokens import Calibration
from foldline.llm import LLM, ContextOverflow, Request
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError, Usage

from .answers import Probe
from .exam import Exam, grading, question

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
