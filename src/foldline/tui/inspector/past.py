"""The history as it was at earlier moments, replayed in slices; and which views there are to compare."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from foldline.context.cache_use import CacheUse, cache_use, is_known, reported_before
from foldline.context.moments import Moment, at_compaction, at_request, empty_prefix, replay_to
from foldline.context.projection import Projection
from foldline.context.proof import proof_by

_KEPT: Final = 2
"""States that are kept: the one shown, and one before it from which those between are near. Each is as large
as the history was, 20 to 40 MB for 100,000 entries."""
_STEP_BACK: Final = 4_000
"""Entries before a moment at which one more state is kept, so that the moments before it are near, too."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the record of a request proves what is shown of it, and the same in words."""

    holds: bool
    words: str


class Past:
    """The past of one history. Whoever reads a state leaves it as it is."""

    def __init__(self, now: Projection) -> None:
        self._now = now
        self._states: OrderedDict[int, Projection] = OrderedDict()
        self._proofs: dict[int, Verdict] = {}
        self._uses: dict[int, CacheUse] = {}
        self.replayed = 0
        """Entries replayed so far: what tests count."""

    async def at(self, moment: Moment) -> Projection:
        """The history as it was, from the nearest earlier state on. It can be cancelled."""
        known = self._states.get(moment.length)
        if known is not None:
            self._keep(moment.length, known)
            return known
        near = moment.length - _STEP_BACK
        start = max((length for length in self._states if length <= moment.length), default=0)
        if near > start + _STEP_BACK:
            await self._replay(start, near)
            start = near
        return await self._replay(start, moment.length)

    async def _replay(self, start: int, length: int) -> Projection:
        known = self._states.get(start)
        if known is not None:
            self._states.move_to_end(start)  # it will be of use again
        projection = empty_prefix(self._now.entries) if known is None else known.forked()
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
        """Keep no state any longer."""
        self._states.clear()

    def proof(self, moment: Moment) -> Verdict | None:
        """Whether its record proves what is shown of a request, where that is known by now."""
        return self._proofs.get(moment.number) if moment.sent is not None else None

    async def prove(self, moment: Moment, projection: Projection) -> None:
        """Hold what is shown of a request against its record: the whole view is hashed, in a thread."""
        if moment.sent is not None and moment.number not in self._proofs:
            proof = await asyncio.to_thread(proof_by, moment.sent, projection)
            # Without the messages it was made of: they are the text of the whole view.
            self._proofs[moment.number] = Verdict(proof.holds, str(proof))

    def cache_use(self, moment: Moment) -> CacheUse | None:
        """What a request had from the cache, where that is known by now."""
        return self._uses.get(moment.number) if moment.sent is not None else None

    async def learn_cache_use(self, moment: Moment) -> None:
        """Hold what was cached of a request against the one before it."""
        sent = moment.sent
        if sent is None or moment.number in self._uses or not is_known(self._now, sent.record):
            return
        before = reported_before(self._now, moment.number)
        earlier = empty_prefix(self._now.entries)
        if before is not None:
            earlier = (await self.at(at_request(self._now, before.number))).forked()
        self._uses[moment.number] = cache_use(earlier, before, sent)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two views to compare. Without a moment it is that of now."""

    before: Moment | None
    after: Moment | None
    title: str


def comparisons(
    now: Projection, moment: Moment | None, marked: Moment | None, compaction: int | None
) -> list[Comparison]:
    """The pairs that are of interest at a moment (None is now), the most wanted first: before and after the
    `compaction` under the cursor, or the one the moment is of; with the `marked` request; with the request
    before. Nothing where nothing came before."""
    found: list[Comparison] = []
    if compaction is not None:
        found.append(_around(now, compaction))
    if marked is not None and marked != moment:
        earlier = moment is None or marked.length <= moment.length
        found.append(_between(now, *((marked, moment) if earlier else (moment, marked))))
    if moment is not None and moment.kind != "request":
        if moment.number != compaction:
            found.append(_around(now, moment.number))
        return found
    number = len(now.requests) + 1 if moment is None else moment.number
    if number > 1:
        found.append(_between(now, at_request(now, number - 1), moment))
    return found


def _around(now: Projection, compaction: int) -> Comparison:
    before, after = at_compaction(now, compaction, before=True), at_compaction(now, compaction)
    return Comparison(before, after, f"before and after compaction {compaction}")


def _between(now: Projection, before: Moment | None, after: Moment | None) -> Comparison:
    return Comparison(before, after, f"{_name(now, before)} → {_name(now, after)}")


def _name(now: Projection, moment: Moment | None) -> str:
    return f"request {len(now.requests) + 1}, the next" if moment is None else moment.name
