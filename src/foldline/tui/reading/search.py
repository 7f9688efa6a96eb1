"""A search in the transcript as a value, and the looking itself, in slices that leave the screen its time."""

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from foldline.context.harmless import clean_line
from foldline.tui.blocks import BlockView, Key
from foldline.tui.blocks.cells import Span
from foldline.tui.widgets.hints import OrderedInput
from foldline.tui.widgets.lines import Lines

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
    from foldline.history.reading.records import uncollected  # the first screen has no history

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


class _Words(Lines):
    """Words of one style, as wide as they are."""

    DEFAULT_CSS: ClassVar[str] = "_Words { width: auto; }"

    def __init__(self, words: str, style: str) -> None:
        super().__init__()
        self._words = words
        self._style = style
        self.styles.width = len(words)

    def say(self, words: str) -> None:
        self._words = words
        self.styles.width = len(words)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return [[(self._words, self._style)]]


class SearchBar(Horizontal):
    """Docked below the transcript while something is looked for."""

    DEFAULT_CSS: ClassVar[str] = """
    SearchBar { height: 1; display: none; }
    SearchBar Input, SearchBar Input:focus {
        border: none; height: 1; padding: 0; width: 1fr; background: ansi_default;
    }
    """

    class Changed(Message):
        """Other words to look for."""

        def __init__(self, needle: str) -> None:
            super().__init__()
            self.needle = needle

    class Entered(Message):
        """The reader has typed what they look for."""

    def __init__(self) -> None:
        super().__init__(id="search-bar")
        self.field = OrderedInput(id="find-in-transcript", select_on_focus=True)
        self._sign = _Words(" / ", "accent")
        self._count = _Words("", "muted")

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.field
        yield self._count

    def open(self) -> None:
        self.display = True
        self.screen.set_focus(self.field)  # at once: `focus()` lets the next key go by

    def close(self) -> None:
        self.display = False
        with self.prevent(Input.Changed):
            self.field.value = ""
        self.say("")

    def say(self, words: str) -> None:
        """How many there are, at the right end."""
        self._count.say(f"  {words} " if words else "")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered())
