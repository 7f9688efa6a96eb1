"""Calculates the gain of an early compaction, in tokens of fresh input.

The formulas and the sources of the constants are documented in docs/design/compaction.md and
docs/design/budget.md.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

NEEDED = 0.05
"""Probability that a step needs a large result from finished work.

Measured on recorded sessions (docs/decisions/0039-price.md).
"""
MISS = 4_000
"""Cost, in tokens, of a needed result that was hidden, not counting the tokens read again.

This is the cost of one step that sends 40,000 cached tokens at 0.1 times the price of fresh input.
"""
_RECENT_STEPS = 20
"""Number of newest requests over which the growth of the view is measured."""


def least_hidden(cached: float) -> float:
    """Return the size of the smallest result worth hiding, in tokens.

    Args:
        cached: price of a cached token, relative to that of a fresh token.
    """
    if cached <= NEEDED:
        return float("inf")
    return NEEDED * MISS / (cached - NEEDED)


def gain(
    hidden: Iterable[float], *, resent: float, steps: float, cached: float
) -> float:
    """Return the gain from hiding these results now.

    If the gain is negative, hiding costs more than it saves.

    Args:
        hidden: size of each result, in tokens.
        resent: number of cached tokens after the first result, which have to be sent again as fresh input.
        steps: expected number of steps until the next compaction.
        cached: price of a cached token, relative to that of a fresh token.
    """
    gain_per_step = sum(cached * tokens - NEEDED * (tokens + MISS) for tokens in hidden)
    return steps * gain_per_step - (1 - cached) * resent


def tier_gain(
    size: float,
    left: float,
    *,
    steps: float,
    factor: float,
    cached: float,
    written: float,
) -> float:
    """Return the gain from staying below a price tier.

    If the gain is negative, the compaction costs more than it saves. Savings from smaller requests in later
    steps are not counted. If they were, the view would be compacted too early and information would be lost.

    Args:
        size: size of the next request, which is above the tier, in tokens.
        left: size of the request after the compaction, in tokens.
        steps: expected number of steps until a compaction would be due anyway.
        factor: price above the tier, as a multiple of the price below the tier.
        cached: price of a cached token, relative to that of a fresh token.
        written: cost of generating the summary.
    """
    surcharge = steps * (factor - 1) * cached * size
    draft = factor * (cached * size + written)
    return surcharge - draft - (1 - cached) * left


def step_growth(requests: Sequence[int]) -> float:
    """Return the average growth from one request to the next, in tokens."""
    newest = requests[-_RECENT_STEPS - 1 :]
    growth = sum(max(0, later - earlier) for earlier, later in pairwise(newest))
    return growth / max(1, len(newest) - 1)


def steps_until_full(free: float, requests: Sequence[int]) -> float:
    """Return the expected number of steps until `free` tokens are used.

    The result is at most the number of steps so far, because a session is expected to continue for as long as
    it has lasted already.

    Args:
        requests: size of each request so far, in tokens.
    """
    return min(len(requests), free / max(1.0, step_growth(requests)))


_FEW_STEPS = 12
"""Number of steps until the window is full again, below which the ledger gets less room.

Each compaction sends the ledger again as fresh input, and only the steps until the next compaction benefit
from it. The value was chosen by measurement (docs/decisions/0039-price.md).
"""
_EARLY_SHARE = 11
"""The ledger may use at most 1/_EARLY_SHARE of the tokens that an early compaction frees."""


def ledger_room(room: int, *, freed: int, steps: float, is_early: bool) -> int:
    """Return the number of free tokens of which the ledger may use a share.

    Args:
        room: number of tokens that are free after a compaction.
        freed: number of tokens freed by the compaction.
        steps: expected number of steps until the view is full again.
        is_early: whether the compaction happens before the window is full.
    """
    room = int(room * min(1.0, steps / _FEW_STEPS))
    return min(room, freed // _EARLY_SHARE) if is_early else room
