"""What compacting before the window is full saves and costs, in tokens of fresh input.

The formulas, with where their figures come from: docs/design/compaction.md and budget.md.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

NEEDED = 0.05
"""Chance that a step needs a large result of work that is done: recorded sessions, decision 39."""
MISS = 4_000
"""What that costs beyond reading it again: one more step, which sends 40,000 tokens from the cache at .1."""
_STEPS_LOOKED_AT = 20
"""So many of the newest requests say how fast the view grows."""


def least_hidden(cached: float) -> float:
    """Tokens from which on a result costs more to hold than to hide. `cached`: the price of a token that the
    provider has in its cache, where a fresh one costs 1."""
    return NEEDED * MISS / (cached - NEEDED) if cached > NEEDED else float("inf")


def gain(hidden: Iterable[float], *, resent: float, steps: float, cached: float) -> float:
    """What hiding these results now is worth: below 0, it does not pay.

    Args:
        hidden: tokens of each.
        resent: tokens behind the first of them that the cache holds now, and that have to be sent once more.
        steps: how many are expected until the next compaction.
        cached: as in `least_hidden`.
    """
    each_step = sum(cached * tokens - NEEDED * (tokens + MISS) for tokens in hidden)
    return steps * each_step - (1 - cached) * resent


def tier_gain(
    size: float, left: float, *, steps: float, factor: float, cached: float, written: float
) -> float:
    """What a compaction is worth that keeps requests below a price tier: below 0, it does not pay. That each
    step costs less afterwards is left out: by that alone one would compact much sooner, and forget.

    Args:
        size: tokens of the next request, which is above the tier.
        left: tokens after the compaction.
        steps: how many are expected until one is due anyway.
        factor: what the tier makes of the price.
        cached: as in `least_hidden`.
        written: price of the summary that is written.
    """
    surcharge = steps * (factor - 1) * cached * size
    draft = factor * (cached * size + written)
    return surcharge - draft - (1 - cached) * left


def step_growth(requests: Sequence[int]) -> float:
    """Tokens that the newest requests grew by from one to the next, on average, given the tokens of all."""
    newest = requests[-_STEPS_LOOKED_AT - 1 :]
    grown = sum(max(0, later - earlier) for earlier, later in pairwise(newest))
    return grown / max(1, len(newest) - 1)


def steps_until_full(free: float, requests: Sequence[int]) -> float:
    """Steps until the view has grown by `free` tokens at the pace of its newest requests, given the tokens of
    all; no more than there were so far: a session is expected to last as long again as it has lasted."""
    return min(len(requests), free / max(1.0, step_growth(requests)))


def idle_gain(before: float, after: float, *, draft: float) -> float:
    """What compacting at rest is worth, shortly before the cache ends: below 0, it does not pay. The next
    request is all new either way, so only its size counts; that steps follow is not reckoned with.

    Args:
        before: tokens of the next request as it stands, and `after` of it compacted.
        draft: what writing the compaction costs.
    """
    gone = before - after
    return gone - NEEDED * (gone + MISS) - draft


_FEW_STEPS = 12
"""A window that is full again after fewer has less room for a ledger: each compaction sends it anew, at the
price of fresh input, and only these steps use it. Measured, decision 39."""
_OF_FREED = 11
"""Before the window is full, a ledger reckons with this part of what was freed: it takes a third of that."""


def ledger_room(room: int, *, freed: int, steps: float, early: bool) -> int:
    """Of the tokens that a compaction leaves free, those that a ledger may take its share of: fewer where the
    next few steps fill them, and before the window is full no more than a part of what was `freed`."""
    room = int(room * min(1.0, steps / _FEW_STEPS))
    return min(room, freed // _OF_FREED) if early else room
