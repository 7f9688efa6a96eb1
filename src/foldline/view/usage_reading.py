"""Interprets reported usage.

Servers leave out parts of a request, or count cached tokens differently. These habits were recorded on 28
November 2026. Templates drop the reasoning of earlier turns (Qwen 3.6, GLM 4.7 and 5.2) or the tools. Bridges
between two APIs report cached tokens both inside the input and next to it (ant2oai 0.1.6, agent-wire-proxy
0.2.0) or only next to it. Other servers report zeros (claude-code-router, llama.cpp's Messages). A server is
suspected of truncating a request only if no such habit explains the gap.
"""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, Literal, get_args

from .tokens import Scripts

CountedReasoning = Literal["all", "turn", "none"]
"""The reasoning that the server counts: all, only that of the newest turn, or none."""
CachedCount = Literal["inside", "beside", "twice"]
"""Where a report counts cached tokens: inside the input (correct), next to the input, or in both places."""


@dataclass(frozen=True, slots=True)
class CountingHabits:
    """How a model's server counts the input of a request."""

    tools: bool = True
    """Whether the server counts the tool schemas. If not, its chat template leaves them out."""
    reasoning: CountedReasoning = "all"
    cached: CachedCount = "inside"

    def changes_from(self, other: "CountingHabits") -> int:
        """Count the differences between two sets of habits.

        The habits with the fewest differences explain a report best.
        """
        steps = {"all": 0, "turn": 1, "none": 2}
        reasoning = abs(steps[self.reasoning] - steps[other.reasoning])
        return reasoning + (self.tools != other.tools) + (self.cached != other.cached)


@dataclass(frozen=True, slots=True)
class Anchor:
    """Reported usage that still describes the view, and the estimate for the same content."""

    reported: int
    estimated: int
    scripts: Scripts = field(default_factory=Scripts)
    """The script counts for the same content."""


_PART_UNCERTAINTY: Final = 0.25
"""Relative error in the estimated size of a part that has to be subtracted from an anchored size."""
PLAIN: Final = CountingHabits()
_ALL_HABITS: Final = tuple(
    CountingHabits(*habits)
    for habits in product(
        (True, False), get_args(CountedReasoning), get_args(CachedCount)
    )
)


@dataclass(frozen=True, slots=True)
class ExpectedInput:
    """The expected input of a request, in tokens as counted by its model."""

    total: float
    """Total number of tokens sent."""
    tools: float = 0
    earlier_reasoning: float = 0
    """Number of reasoning tokens before the newest turn."""
    turn_reasoning: float = 0
    uncertainty: float = 0
    """Relative error of `total`."""
    estimated: float = 1
    """The total, estimated without an anchor."""
    least: float = 0
    """Smallest plausible number of tokens that a provider reports for the full request."""
    anchored: bool = False
    """Whether `total` is based on earlier usage, which shows whether tools are counted."""
    doubted: bool = False
    """Whether the previous report could not be explained.

    If so, habits that fit the next report may fit by chance.
    """
    cached_apart: bool = False
    """Whether the API reports cached tokens apart from the input, as Anthropic's Messages API does.

    If so, a server may count them in both figures. If not, they may be missing from the input.
    """

    def least_under(self, habits: CountingHabits) -> float:
        """Return the smallest plausible report from a server with these habits, in tokens."""
        return self.least * (1 - self.left_out(habits) / self.estimated)

    def left_out(self, habits: CountingHabits) -> float:
        """Return how many tokens a server with these habits leaves out."""
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
    """The meaning of a reported number of input tokens."""

    input: int
    """All input tokens, each counted once; 0 if the server reported none."""
    habits: CountingHabits
    outcome: Literal["trusted", "missing", "cut"]
    """The verdict on the report.

    `cut` means that the number is too small for a complete request, even if the server leaves parts out.
    """


def read_usage(
    reported: int, cached: int, expected: ExpectedInput, known: CountingHabits
) -> UsageReading:
    """Explain reported input tokens by a server's counting habits.

    The `known` habits are preferred. Otherwise, those that differ least from them are chosen.

    Args:
        reported: the input as defined by the API, including cached tokens.
        cached: the part read from a cache and, in Anthropic's API, also the part written to the cache.
    """
    if not reported:
        return UsageReading(0, known, "missing")
    explanations: list[tuple[int, float, UsageReading]] = []
    for habits in (known,) if expected.doubted else _ALL_HABITS:
        if expected.anchored and habits.tools != known.tools:
            continue
        total = _counted_once(reported, cached, habits.cached, expected.cached_apart)
        left_out = expected.left_out(habits)
        misfit = abs(total - (expected.total - left_out))
        tolerance = expected.uncertainty * (expected.total - left_out)
        if expected.anchored:  # otherwise, the total is the sum of the parts
            tolerance += _PART_UNCERTAINTY * left_out
        if total >= max(1, expected.least_under(habits)) and misfit <= tolerance:
            reading = UsageReading(total, habits, "trusted")
            explanations.append((habits.changes_from(known), misfit, reading))
    if explanations:
        return min(explanations, key=lambda explanation: explanation[:2])[2]
    if cached > reported:  # so it cannot be inside
        habits = replace(known, cached="beside")
        total = reported + cached
    else:
        habits = known
        total = reported
    return UsageReading(
        total, habits, "cut" if total < expected.least_under(habits) else "trusted"
    )


def _counted_once(reported: int, cached: int, count: CachedCount, apart: bool) -> int:
    """Return the input with each cached token counted once.

    Returns 0 if such a report is impossible.
    """
    match count:
        case "inside":
            return reported if cached <= reported else 0
        case "beside":
            return 0 if apart or not cached else reported + cached
        case "twice":
            return (
                reported - cached if apart and cached and 2 * cached <= reported else 0
            )
