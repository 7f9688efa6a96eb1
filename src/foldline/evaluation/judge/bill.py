"""What an exam will cost, before anything is sent (the formula of evaluation.md §6)."""

from dataclasses import dataclass
from typing import assert_never

from foldline.llm.models import Price

from .exam import Exam, question
from .probes import Absent, Action, Files, Ground, Place, Probe, Text
from .rubric import REPEATS, item

_SHORT, _PROSE, _PATH, _GRADES = 30, 350, 20, 120
"""Tokens of a short answer, of one in sentences, of a path in a list, of a judge's grades. Reasoning comes on
top of them and cannot be foreseen."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Bill:
    """Tokens. A view is fresh when its first probe is asked; a provider with a cache has it from then on."""

    requests: int
    fresh: int
    cached: int
    output: int
    judge_requests: int
    judge_input: int
    judge_output: int

    @property
    def tokens(self) -> int:
        return self.fresh + self.cached + self.output + self.judge_input + self.judge_output

    def dollars(self, price: Price, judge: Price | None = None, *, cache: bool = True) -> float:
        """In USD; `cache=False` is the most it can be: nothing is found in a cache."""
        judge = judge or price
        view = price.write * price.input * self.fresh + price.cached * self.cached
        asked = view if cache else price.input * (self.fresh + self.cached)
        judged = judge.input * self.judge_input + judge.output * self.judge_output
        return (asked + price.output * self.output + judged) / _MILLION


def estimate(exam: Exam) -> Bill:
    """What it takes to ask and grade everything, repairs and retries left out."""
    tokens = exam.meter.tokens
    fresh = cached = output = 0
    judge_requests = judge_input = 0
    for sheet in exam.sheets:
        for nth, probe in enumerate(sheet.probes):
            times = sheet.times(probe)
            fresh += times * tokens(question(probe))
            output += times * _answer(probe)
            views = times * sheet.tokens
            cached += views if nth else views - sheet.tokens
            fresh += 0 if nth else sheet.tokens
            if probe.is_judged:
                judge_requests += REPEATS
                judge_input += REPEATS * (sum(map(tokens, item(probe, ""))) + _PROSE)
    return Bill(
        requests=exam.answers,
        fresh=fresh,
        cached=cached,
        output=output,
        judge_requests=judge_requests,
        judge_input=judge_input,
        judge_output=judge_requests * _GRADES,
    )


def _answer(probe: Probe) -> int:
    match probe.truth:
        case Text() | Place() | Absent() | Action():
            return _SHORT
        case Files(files):
            return _SHORT + _PATH * len(files)
        case Ground():
            return _PROSE
        case _:
            assert_never(probe.truth)
