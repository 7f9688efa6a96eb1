"""A search in the transcript as a value, and the looking itself, in slices that leave the screen its time."""

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from foldline.context.harmless import clean_line
from foldline.tui.blocks import BlockView, Key

_SLICE: Final = 200_000
"""Characters looked through between two breaths: a few milliseconds, with what is read from disk for it."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for, the places that hold it in order, and the one that is shown."""

    needle: str = ""
    places: tuple[Key, ...] = ()
    at: int | None = None
    done: bool = True

    @property
    def place(self) -> Key | None:
        return None if self.at is None else self.places[self.at]

    @property
    def words(self) -> str:
        """`3 of 17`."""
        if not self.needle:
            return ""
        if not self.done:
            return "…"
        return f"{self.at + 1} of {len(self.places)}" if self.at is not None else "nowhere"

    @property
    def shown_needle(self) -> str:
        return f"“{clean_line(self.needle)}”"

    def found(self, places: tuple[Key, ...], near: Key | None) -> "Search":
        """With these places; shown is the last one down to `near`, else the first below it: somebody at the
        end of a long session looks for what was said before."""
        above = len(places) if near is None else bisect_right(places, near)
        at = None if not places else max(above - 1, 0)
        return replace(self, places=places, at=at, done=True)

    def step(self, step: int) -> "Search":
        """At the next place or the one before, round the end."""
        return self if self.at is None else replace(self, at=(self.at + step) % len(self.places))


async def places_of(view: BlockView, needle: str, words_at: Callable[[Key], str]) -> tuple[Key, ...]:
    """The places that hold `needle`, whatever its case, in order."""
    found = re.compile(re.escape(needle), re.IGNORECASE).search
    from foldline.history.reading.many_objects import uncollected  # the first screen has no history

    with uncollected():  # entries are made by the thousand to be looked through
        return await _looked_through(view, found, words_at)


async def _looked_through(
    view: BlockView, found: Callable[[str], object], words_at: Callable[[Key], str]
) -> tuple[Key, ...]:
    places: list[Key] = []
    looked = number = 0
    while number < view.count:  # blocks may come and go meanwhile
        block = view.block_at(number)
        number += 1
        if not block.stop:
            continue
        words = words_at(block.key)
        if found(words):
            places.append(block.key)
        looked += len(words) + 400
        if looked > _SLICE:
            looked = 0
            await asyncio.sleep(0)
    return tuple(places)
