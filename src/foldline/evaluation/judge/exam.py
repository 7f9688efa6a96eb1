"""What will be asked, and what that costs: at each point of a session the views that differ, and the probes
that all of them get. A point is a moment at which any strategy compacted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context.calls import paired
from foldline.context.conversation import delimited
from foldline.context.tokens import message_tokens
from foldline.context.view import is_summary
from foldline.llm.models import Price
from foldline.protocol import NEW, SystemMessage, ToolResultMessage, UserMessage, is_typed, text_parts
from foldline.sequences import grouped

from ..record import Compacted, Meter, Run, View
from .answers import REFUSAL, Ground, Probe
from .material import Material
from .questions import worded, write_probes

FLOOR, CEILING = "floor", "ceiling"
"""The arms that give the scale: as good as no context, and all of it."""
ENOUGH: Final = 30
"""Points below which no difference can be seen."""
SEED: Final = "1"
"""The same points give the same probes."""
MOST_OUTPUT: Final = 4_000
"""Tokens an answer may have: the answers are short, the reasoning before them is not always."""
WEIGHTS: Final = Meter("script weights", message_tokens)


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a session, and what each strategy's model would have seen at it."""

    session: str
    position: int
    """Index of the newest recorded message."""
    history: View
    """All recorded messages of the session, those after the point too."""
    views: Mapping[str, View]
    """By arm; without floor and ceiling."""

    @property
    def past(self) -> View:
        return tuple(message for message in self.history if message.index <= self.position)


def points_of(runs: Sequence[Run]) -> list[Point]:
    """Every moment at which any of these runs compacted, with the view of each of them then."""
    sessions = grouped((run.session, run) for run in runs)
    return [
        Point(session, position, of_it[0].history, {run.strategy: _view_at(run, position) for run in of_it})
        for session, of_it in sessions.items()
        for position in sorted({at for run in of_it for at, _ in _placed(run)})
    ]


def _placed(run: Run) -> list[tuple[int, Compacted]]:
    """The compactions of a run, each with the index of the newest recorded message in the view before it."""
    recorded = {message.index for message in run.history}
    found = []
    for compaction in run.compactions:
        seen = [m.index for m in compaction.before if m.index in recorded and not is_summary(m)]
        found += [(max(seen), compaction)] if seen else []
    return found


def _view_at(run: Run, position: int) -> View:
    """What the run's next request would have held once the message at `position` had been said."""
    before = [(at, compaction.after) for at, compaction in _placed(run) if at <= position]
    since, base = before[-1] if before else (NEW, ())
    later = (message for message in run.history if since < message.index <= position)
    return (*base, *(run.clipped.get(message.index, message) for message in later))


def _floor_view(point: Point) -> View:
    """The system prompt and the last user message: what an answer is worth that guesses."""
    prompts = [m for m in point.past if isinstance(m, SystemMessage) and m.origin == "prompt"]
    asked = [m for m in point.past if is_typed(m)]
    return (*prompts, *asked[-1:])


# --- the exam -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sheet:
    """One view, and the arms that have it at this point: what is the same is asked once."""

    point: int
    arms: tuple[str, ...]
    view: View
    """As it is sent: calls and results paired."""
    tokens: int
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class Exam:
    points: tuple[Point, ...]
    sheets: tuple[Sheet, ...]
    meter: Meter
    max_output: int
    notes: tuple[str, ...] = ()
    """What was left out, and why: sentences."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Floor first, ceiling last, the strategies between them in their order."""
        found = dict.fromkeys(arm for point in self.points for arm in point.views)
        return (FLOOR, *found, CEILING)


def exam_of(points: Sequence[Point], *, window: int, meter: Meter = WEIGHTS) -> Exam:
    """The exam of these points for a model with this window, in tokens. Asks nobody anything."""
    room = min(MOST_OUTPUT, window // 4)
    known: dict[int, Material] = {}
    sheets: list[Sheet] = []
    left_out: Counter[str] = Counter()
    for number, point in enumerate(points):
        if id(point.history) not in known:
            known[id(point.history)] = Material(point.history)
        probes = write_probes(known[id(point.history)], point.position, seed=f"{SEED} {point.session}")
        longest = max((meter.tokens(question(probe)) for probe in probes), default=0)
        for arms, view in _views(point):
            sent = tuple(paired(view))
            tokens = sum(map(meter.tokens, sent))
            if tokens + longest + room <= window:
                sheets.append(Sheet(number, arms, sent, tokens, probes))
            else:
                left_out.update(arms)
    notes = tuple(
        f"{arm} does not fit the model's window of {window:,} tokens at {count} of {len(points)} points."
        for arm, count in left_out.items()
    )
    return Exam(tuple(points), tuple(sheets), meter, room, notes)


_ArmsAndView = tuple[tuple[str, ...], View]


def _views(point: Point) -> list[_ArmsAndView]:
    """The views of a point that read differently, each with its arms; by what is sent of a message."""
    found: dict[tuple[object, ...], _ArmsAndView] = {}
    for arm, view in ((FLOOR, _floor_view(point)), *point.views.items(), (CEILING, point.past)):
        sent = tuple((m.type, m.call_id if isinstance(m, ToolResultMessage) else "", m.parts) for m in view)
        arms, first = found.get(sent, ((), view))
        found[sent] = ((*arms, arm), first)
    return list(found.values())


def question(probe: Probe) -> UserMessage:
    """A probe as the model gets it, behind the view."""
    text = worded("ask", refusal=REFUSAL, question=probe.question)
    return UserMessage(origin="machine", parts=text_parts(text))


def grading(probe: Probe, answer: str) -> View:
    """The request for the grades of one answer. It does not say which strategy it comes from."""
    assert isinstance(probe.truth, Ground)
    text = worded(
        "item",
        question=delimited("question", probe.question),
        record=delimited("record", probe.truth.text),
        answer=delimited("answer", answer),
    )
    return (
        SystemMessage(parts=text_parts(worded("rubric"))),
        UserMessage(origin="machine", parts=text_parts(text)),
    )


# --- what it costs ------------------------------------------------------------------------------------

_SHORT, _PROSE, _GRADES = 30, 350, 120
"""Tokens of a short answer, of one in sentences, of a judge's grades. Reasoning comes on top of them and
cannot be foreseen."""


@dataclass(slots=True)
class Bill:
    """Tokens. A view is fresh when its first probe is asked; a provider with a cache has it from then on."""

    requests: int = 0
    fresh: int = 0
    cached: int = 0
    output: int = 0
    judge_requests: int = 0
    judge_input: int = 0
    judge_output: int = 0

    @property
    def tokens(self) -> int:
        return self.fresh + self.cached + self.output + self.judge_input + self.judge_output

    def dollars(self, price: Price, judge: Price | None = None, *, cache: bool = True) -> float:
        """In USD; `cache=False` is the most it can be: nothing is found in a cache."""
        judge = judge or price
        view = price.write * price.input * self.fresh + price.cached * self.cached
        asked = view if cache else price.input * (self.fresh + self.cached)
        judged = judge.input * self.judge_input + judge.output * self.judge_output
        return (asked + price.output * self.output + judged) / 1_000_000


def estimate(exam: Exam) -> Bill:
    """What it takes to ask and grade everything, retries left out."""
    tokens, bill = exam.meter.tokens, Bill()
    for sheet in exam.sheets:
        for nth, probe in enumerate(sheet.probes):
            bill.requests += 1
            bill.fresh += tokens(question(probe)) + (0 if nth else sheet.tokens)
            bill.cached += sheet.tokens if nth else 0
            bill.output += _PROSE if probe.is_judged else _SHORT
            if probe.is_judged:
                bill.judge_requests += 1
                bill.judge_input += sum(map(tokens, grading(probe, ""))) + _PROSE
                bill.judge_output += _GRADES
    return bill
