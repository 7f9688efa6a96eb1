"""Folds of a history as it was at earlier moments: made in slices beside the drawing, a few of them kept."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from foldline.context.moments import Moment, empty_prefix, replay_to
from foldline.context.projection import Projection
from foldline.context.proof import RecordedRequest, proof_by

_KEPT: Final = 2
"""Folds that are kept: the one shown, and one before it from which those between are near. Each is as
large as the history was, 20 to 40 MB for 100,000 entries."""
_STEP_BACK: Final = 4_000
"""Entries before a moment at which one more fold is kept, so that the moments before it are near, too."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the record of a request proves what is shown of it, and the same in words."""

    holds: bool
    words: str


class Past:
    """The past of one history. Whoever reads a fold leaves it as it is."""

    def __init__(self, now: Projection) -> None:
        self._now = now
        self._folds: OrderedDict[int, Projection] = OrderedDict()
        self._proofs: dict[int, Verdict] = {}
        self.folded = 0
        """Entries folded so far: what tests count."""

    def known(self, moment: Moment) -> Projection | None:
        """The history as it was, where that is at hand."""
        return self._folds.get(moment.length)

    async def fold(self, moment: Moment) -> Projection:
        """The history as it was. From the nearest earlier fold on; cancelled, it leaves nothing half done."""
        known = self.known(moment)
        if known is not None:
            self._keep(moment.length, known)
            return known
        near = moment.length - _STEP_BACK
        start = max((length for length in self._folds if length <= moment.length), default=0)
        if near > start + _STEP_BACK:
            await self._fold_from(start, near)
            start = near
        return await self._fold_from(start, moment.length)

    async def _fold_from(self, start: int, length: int) -> Projection:
        known = self._folds.get(start)
        if known is not None:
            self._folds.move_to_end(start)  # it will be of use again
        projection = empty_prefix(self._now.entries) if known is None else known.forked()
        for _ in replay_to(projection, length):
            await asyncio.sleep(0)
        self.folded += length - start
        self._keep(length, projection)
        return projection

    def _keep(self, length: int, projection: Projection) -> None:
        self._folds[length] = projection
        self._folds.move_to_end(length)
        while len(self._folds) > _KEPT:
            self._folds.popitem(last=False)

    def forget(self) -> None:
        """Keep no fold any longer."""
        self._folds.clear()

    def proof(self, moment: Moment) -> Verdict | None:
        """Whether its record proves what is shown of a request, where that is known by now."""
        return self._proofs.get(moment.number) if moment.sent is not None else None

    async def prove(self, moment: Moment, projection: Projection) -> None:
        """Hold what is shown of a request against its record: the whole view is hashed, in a thread."""
        if moment.sent is not None and moment.number not in self._proofs:
            self._proofs[moment.number] = await asyncio.to_thread(_verdict, moment.sent, projection)


def _verdict(sent: RecordedRequest, projection: Projection) -> Verdict:
    """What is said of a proof, without the messages it was made of: they are the text of the whole view."""
    proof = proof_by(sent, projection)
    return Verdict(proof.holds, str(proof))
