"""What will be asked: at each point the views that differ, and the probes that all of them get."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.calls import paired
from foldline.context.tokens import message_tokens
from foldline.protocol import BaseMessage, ToolResultMessage, UserMessage, text_parts

from ..record import Meter
from .material import Material, material
from .normal import REFUSAL
from .points import CEILING, FLOOR, Point, floor_view
from .probes import Probe
from .rubric import worded
from .writing import write_probes

NOISE_REPEATS = 3
"""How often the next action is asked for from the raw history: what differs there is noise."""
MOST_OUTPUT = 4_000
"""Tokens an answer may have: the answers are short, the reasoning before them is not always."""
WEIGHTS = Meter("script weights", message_tokens)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One view, and the arms that have it at this point: what is the same is asked once."""

    point: int
    arms: tuple[str, ...]
    view: tuple[BaseMessage, ...]
    """As it is sent: calls and results paired."""
    tokens: int
    probes: tuple[Probe, ...]

    def times(self, probe: Probe) -> int:
        """How often a probe is asked from this view."""
        return NOISE_REPEATS if probe.kind == "action" and CEILING in self.arms else 1

    @property
    def answers(self) -> int:
        return sum(map(self.times, self.probes))


@dataclass(frozen=True, slots=True)
class Exam:
    points: tuple[Point, ...]
    sheets: tuple[Sheet, ...]
    seed: str
    meter: Meter
    max_output: int
    notes: tuple[str, ...] = ()
    """What was left out, and why: sentences."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Floor first, ceiling last, the strategies between them in their order."""
        found = dict.fromkeys(arm for point in self.points for arm in point.views)
        return (FLOOR, *found, CEILING)

    @property
    def answers(self) -> int:
        return sum(sheet.answers for sheet in self.sheets)


def exam_of(points: Sequence[Point], *, window: int, seed: str = "1", meter: Meter = WEIGHTS) -> Exam:
    """The exam of these points for a model with this window, in tokens. Asks nobody anything."""
    room = min(MOST_OUTPUT, window // 4)
    known: dict[int, Material] = {}
    sheets: list[Sheet] = []
    left_out: dict[str, int] = {}
    for number, point in enumerate(points):
        if id(point.history) not in known:
            known[id(point.history)] = material(point.history)
        offered = known[id(point.history)]
        probes = write_probes(offered, point.position, seed=f"{seed} {point.session}")
        longest = max((meter.tokens(question(probe)) for probe in probes), default=0)
        for arms, view in _views(point):
            sent = tuple(paired(view))
            tokens = sum(map(meter.tokens, sent))
            if tokens + longest + room <= window:
                sheets.append(Sheet(number, arms, sent, tokens, probes))
            else:
                left_out.update({arm: left_out.get(arm, 0) + 1 for arm in arms})
    notes = tuple(
        f"{arm} does not fit the model's window of {window:,} tokens at {count} of {len(points)} points."
        for arm, count in left_out.items()
    )
    return Exam(tuple(points), tuple(sheets), seed, meter, room, notes)


def _views(point: Point) -> list[tuple[tuple[str, ...], tuple[BaseMessage, ...]]]:
    """The views of a point that differ, each with its arms."""
    found: list[tuple[tuple[str, ...], tuple[BaseMessage, ...]]] = []
    for arm, view in ((FLOOR, floor_view(point)), *point.views.items(), (CEILING, point.past)):
        same = next((at for at, (_, other) in enumerate(found) if _alike(other, view)), None)
        if same is None:
            found.append(((arm,), view))
        else:
            found[same] = ((*found[same][0], arm), view)
    return found


def _alike(one: Sequence[BaseMessage], other: Sequence[BaseMessage]) -> bool:
    """Whether two views read the same. What was noted about a message, such as its usage, is not sent."""
    return len(one) == len(other) and all(
        a is b or _sent(a) == _sent(b) for a, b in zip(one, other, strict=True)
    )


def _sent(message: BaseMessage) -> tuple[object, ...]:
    call_id = message.call_id if isinstance(message, ToolResultMessage) else None
    return (message.type, call_id, message.parts)


def question(probe: Probe) -> UserMessage:
    """A probe as the model gets it, behind the view."""
    text = worded("ask", refusal=REFUSAL, question=probe.question)
    return UserMessage(origin="machine", parts=text_parts(text))
