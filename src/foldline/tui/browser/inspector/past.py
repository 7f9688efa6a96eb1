"""Replays earlier states of a history in slices."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from foldline.past.cache_use import CacheUse, cache_use, is_known, reported_before
from foldline.past.moments import Moment, at_request, empty_prefix, replay_to
from foldline.past.proof import proof_by
from foldline.view.projection import Projection

_KEPT: Final = 2
"""Maximum number of states in memory.

One is the displayed state, the other an earlier state from which to replay. A state takes 20 to 40 MB for
100,000 entries.
"""
_STEP_BACK: Final = 4_000
"""The second state is older by this many entries, so that steps back in time are fast."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The result of comparing a request with its record, and its cache use."""

    holds: bool | None = None
    """Whether the record matches the displayed view; None if not compared yet."""
    proof: str = ""
    """The result of the comparison in words."""
    cache: CacheUse | None = None
    """None if the cache use is unknown."""


class Past:
    """Replays and caches earlier states of a history.

    Callers must not change the returned states.
    """

    def __init__(self, now: Projection) -> None:
        self._now = now
        self._states: OrderedDict[int, Projection] = OrderedDict()
        self._facts: dict[int, RequestFacts] = {}
        self.replayed = 0
        """Number of entries replayed so far. Used only by tests."""

    async def at(self, moment: Moment) -> Projection:
        """Return the history as it was at a point in time.

        The history is replayed from the nearest cached state.
        """
        state = self._states.get(moment.length)
        if state is not None:
            self._keep(moment.length, state)
            return state
        step_back = moment.length - _STEP_BACK
        start = max(
            (length for length in self._states if length <= moment.length), default=0
        )
        if step_back > start + _STEP_BACK:
            await self._replay(start, step_back)
            start = step_back
        return await self._replay(start, moment.length)

    async def _replay(self, start: int, length: int) -> Projection:
        state = self._states.get(start)
        if state is None:
            projection = empty_prefix(self._now.entries)
        else:
            self._states.move_to_end(start)  # it will be used again, so drop it last
            projection = state.fork()
        for _ in replay_to(projection, length):
            await asyncio.sleep(0)
        self.replayed += length - start
        self._keep(length, projection)
        return projection

    def _keep(self, length: int, projection: Projection) -> None:
        self._states[length] = projection
        self._states.move_to_end(length)
        while len(self._states) > _KEPT:
            self._states.popitem(last=False)

    def forget(self) -> None:
        """Drop all cached states."""
        self._states.clear()

    def facts(self, moment: Moment) -> RequestFacts:
        """Return the facts that `check` has found about a request so far."""
        return self._facts.get(moment.number, RequestFacts())

    async def check(self, moment: Moment, then: Projection) -> None:
        """Compare a view with the record of its request in a thread, and determine its cache use.

        Args:
            then: the history at the request.
        """
        sent = moment.recorded
        if sent is None or moment.number in self._facts:
            return
        proof = await asyncio.to_thread(proof_by, sent, then)
        use = None
        if is_known(self._now, sent.record):
            before = reported_before(self._now, moment.number)
            earlier = empty_prefix(self._now.entries)
            if before is not None:
                earlier = (await self.at(at_request(self._now, before.number))).fork()
            use = cache_use(earlier, before, sent)
        # Keep only the result, because the proof contains the text of the whole view.
        self._facts[moment.number] = RequestFacts(proof.holds, str(proof), use)
