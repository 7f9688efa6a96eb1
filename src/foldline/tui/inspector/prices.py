"""Works out what the edit keys would do at the place under the cursor, once the cursor rests there."""

import asyncio
from collections.abc import Callable
from typing import Final

from textual.timer import Timer
from textual.widget import Widget

from foldline.context.projection import Projection
from foldline.tui.inspector.edits import Limits, Offers, Picked, offers

REST: Final = 0.08
"""Seconds the cursor must stay: longer than between two repeats of a key that is held down."""
LONG: Final = 5_000
"""Entries from which on it is worked out beside the drawing: it is linear in their number."""

Place = int | Picked | None
"""The entry under the cursor, or those that are marked."""
Moment = tuple[Projection, int, Limits]
"""A history up to its newest entry, and what it is measured with."""


class Prices:
    """Keeps what was worked out last. `changed` is called when there is something new to show."""

    def __init__(self, owner: Widget, limits: Limits, changed: Callable[[], None]) -> None:
        self.limits = limits
        self._owner = owner
        self._changed = changed
        self._known: dict[Place, Offers] = {}
        self._moment: Moment | None = None
        """What `_known` is true of."""
        self._shown: Offers | None = None
        self._wanted: tuple[Moment, Place] | None = None
        self._timer: Timer | None = None

    @property
    def known(self) -> bool:
        """Whether what is shown is what was asked for last."""
        return self._wanted is not None and self._wanted[1] in self._known

    def at(self, projection: Projection, index: Place) -> Offers | None:
        """What the keys would do at this place; None while that is not known. Where the history has just
        grown, what was true before it: a moment later it is replaced."""
        moment = (projection, projection.last_index, self.limits)
        if moment != self._moment:
            self._moment = moment
            self._known.clear()
        known = self._known.get(index)
        if known is not None:
            self._shown = known
        if self._wanted != (moment, index):
            self._wanted = (moment, index)
            self._stop()
            if known is None:
                self._timer = self._owner.set_timer(REST, lambda: self._work_out(moment, index))
        here = None if self._shown is None else self._shown.picked or self._shown.index
        return self._shown if here == index else None

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _work_out(self, moment: Moment, index: Place) -> None:
        self._timer = None
        projection, _, limits = moment
        if len(projection.entries) <= LONG:
            self._know(moment, index, offers(projection, index, limits))
            return
        frozen = projection.foreseen()  # the history may grow while another thread reads it
        self._owner.run_worker(self._beside(frozen, moment, index), group="prices", exclusive=True)

    async def _beside(self, frozen: Projection, moment: Moment, index: Place) -> None:
        self._know(moment, index, await asyncio.to_thread(offers, frozen, index, moment[2]))

    def _know(self, moment: Moment, index: Place, found: Offers) -> None:
        """An answer for a moment that has passed is dropped: the same is being asked of the present one."""
        if moment == self._moment:
            self._known[index] = found
            self._changed()
