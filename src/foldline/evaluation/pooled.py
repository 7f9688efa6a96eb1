"""Several sessions together: differences to one strategy, paired by session, never a pooled score.

A session is one observation, however many requests it has (evaluation.md §5.6).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

LEAST_SESSIONS = 10
"""Below this many no interval is given: a handful of sessions says nothing about the next one."""
_DRAWS = 2_000
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Difference:
    """A strategy's figure less the reference's, mean over sessions, with a 95 % interval."""

    strategy: str
    figure: str
    sessions: int
    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low > 0 or self.high < 0


def difference(
    strategy: str, figure: str, ours: Mapping[str, float | None], reference: Mapping[str, float | None]
) -> Difference | None:
    """Paired bootstrap over the sessions that both have a figure for; None where they are too few."""
    pairs = [
        (value, base)
        for session, value in ours.items()
        if value is not None and (base := reference.get(session)) is not None
    ]
    if len(pairs) < LEAST_SESSIONS:
        return None
    differences = [value - base for value, base in pairs]
    low, high = _interval(differences)
    return Difference(strategy, figure, len(differences), fmean(differences), low, high)


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the means of samples drawn from these values with replacement."""
    chance = random.Random(_SEED)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS) - 1]
