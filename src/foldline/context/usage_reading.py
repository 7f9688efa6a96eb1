"""What a reported usage counts: servers leave parts of a request out, or count cached tokens otherwise.

Recorded on 28 November 2026: templates forget the reasoning of earlier turns (Qwen 3.6, GLM 4.7 and 5.2) or
the tools; bridges between two APIs report cached tokens inside the input and beside it (ant2oai 0.1.6,
agent-wire-proxy 0.2.0) or beside it alone; others report zeros (claude-code-router, llama.cpp's Messages).
A server that cuts a request is accused only if no such habit explains the gap.
"""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, Literal, get_args

from .tokens import Scripts

CountedReasoning = Literal["all", "turn", "none"]
"""Which reasoning that is sent back counts: all, that of this turn, or none."""
CachedCount = Literal["inside", "beside", "twice"]
"""Where a report counts cached tokens: in the input, as it should; apart from it; or both."""


@dataclass(frozen=True, slots=True)
class CountingHabits:
    """How the server of a model counts the input of a request."""

    tools: bool = True
    """False if its template leaves them out."""
    reasoning: CountedReasoning = "all"
    cached: CachedCount = "inside"

    def changes_from(self, known: "CountingHabits") -> int:
        """In how many ways they differ from those that are known: the fewest explain a report best."""
        steps = {"all": 0, "turn": 1, "none": 2}
        reasoning = abs(steps[self.reasoning] - steps[known.reasoning])
        return reasoning + (self.tools != known.tools) + (self.cached != known.cached)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A usage that still describes the view: reported tokens, and the estimate they stand for."""

    reported: int
    estimated: int
    scripts: Scripts = field(default_factory=Scripts)
    """Of what they stand for."""


_PART_UNCERTAINTY: Final = 0.25
"""Share by which the estimate of a part that an anchored size is to be without may be off."""
PLAIN: Final = CountingHabits()
_HABITS: Final = tuple(
    CountingHabits(*each)
    for each in product((True, False), get_args(CountedReasoning), get_args(CachedCount))
)


@dataclass(frozen=True, slots=True)
class ExpectedInput:
    """What a request should take, in tokens as its model counts them."""

    whole: float
    """All that was sent."""
    tools: float = 0
    earlier_reasoning: float = 0
    """Of the turns before this one."""
    turn_reasoning: float = 0
    uncertainty: float = 0
    """Share by which this may be off."""
    estimated: float = 1
    """`whole` by the estimate alone."""
    least: float = 0
    """A report below it is not that of the whole request."""
    anchored: bool = False
    """Whether an earlier usage stands behind `whole`: then it is known whether tools count."""
    doubted: bool = False
    """Whether the report before was unexplained: then what fits now is chance, and no habit."""
    cached_apart: bool = False
    """Whether the API reports cached tokens beside the input, as Anthropic's Messages do: only there can they
    be read twice, and only elsewhere be missing."""

    def least_under(self, habits: CountingHabits) -> float:
        """A report below it is not that of a request whose server has these habits."""
        return self.least * (1 - self.left_out(habits) / self.estimated)

    def left_out(self, habits: CountingHabits) -> float:
        """What a server with these habits does not count."""
        tokens = 0.0
        if not habits.tools:
            tokens += self.tools
        if habits.reasoning != "all":
            tokens += self.earlier_reasoning
        if habits.reasoning == "none":
            tokens += self.turn_reasoning
        return tokens


@dataclass(frozen=True, slots=True)
class UsageReading:
    """What a reported input means."""

    input: int
    """All input tokens, each counted once; 0 if the server reported none."""
    habits: CountingHabits
    outcome: Literal["trusted", "missing", "cut"]
    """`cut`: below all that a whole request can take, whatever its server leaves out."""


def read_usage(reported: int, cached: int, expected: ExpectedInput, known: CountingHabits) -> UsageReading:
    """Explain a report of input tokens by the habits `known` of its server, else by the fewest others.

    Args:
        reported: the input as its API defines it, cached tokens included.
        cached: of them those read from a cache; in Anthropic's API also those written to it.
    """
    if not reported:
        return UsageReading(0, known, "missing")
    explained: list[tuple[int, float, UsageReading]] = []
    for habits in (known,) if expected.doubted else _HABITS:
        total = _once(reported, cached, habits.cached, expected.cached_apart)
        left_out = expected.left_out(habits)
        misfit = abs(total - (expected.whole - left_out))
        tolerance = expected.uncertainty * (expected.whole - left_out)
        if expected.anchored:
            tolerance += _PART_UNCERTAINTY * left_out  # else the size is the sum of the other parts
        if expected.anchored and habits.tools != known.tools:
            continue
        if total >= max(1, expected.least_under(habits)) and misfit <= tolerance:
            explained.append((habits.changes_from(known), misfit, UsageReading(total, habits, "trusted")))
    if explained:
        return min(explained, key=lambda candidate: candidate[:2])[2]
    total, habits = reported, known
    if cached > reported:  # it cannot be inside
        total, habits = reported + cached, replace(known, cached="beside")
    return UsageReading(total, habits, "cut" if total < expected.least_under(habits) else "trusted")


def _once(reported: int, cached: int, counted: CachedCount, apart: bool) -> int:
    """The input with each cached token once; 0 if a report of this kind cannot be."""
    match counted:
        case "inside":
            return reported if cached <= reported else 0
        case "beside":
            return 0 if apart or not cached else reported + cached
        case "twice":
            return reported - cached if apart and cached and 2 * cached <= reported else 0
