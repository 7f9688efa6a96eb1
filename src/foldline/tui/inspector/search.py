"""Search in a panel: from the cursor on, round the end, in slices that leave the screen its time."""

import asyncio
import re
from collections.abc import Callable, Container
from typing import Final

from foldline.history.stored import without_gc
from foldline.tui.blocks import Block, Key, clean_line
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.keys import KEYS
from foldline.tui.keys.table import name_of
from foldline.tui.textual_private import OrderedInput

_SLICE: Final = 1_000_000
"""Characters looked through between two breaths: a few milliseconds."""
_ROW: Final = 1_000
"""Characters that could be looked through while the text of an entry is fetched."""


async def find(
    view: EntryView, text: str, start: Key | None, step: int, text_of: Callable[[Block], str]
) -> tuple[Key | None, bool]:
    """The next block after (`step` 1) or before (-1) `start` that holds `text`, whatever its case, and
    whether the search went round the end. The block at `start` itself comes last."""
    found = re.compile(re.escape(text), re.IGNORECASE).search
    at = view.index_of(start) if start is not None else None
    index = at if at is not None else view.count if step < 0 else -1
    with without_gc():  # entries are made by the thousand to be looked through
        return await _looked_through(view, found, index, step, text_of)


async def _looked_through(
    view: EntryView,
    found: Callable[[str], object],
    index: int,
    step: int,
    text_of: Callable[[Block], str],
) -> tuple[Key | None, bool]:
    looked = 0
    wrapped = False
    for _ in range(view.count):
        index += step
        if not 0 <= index < view.count:
            index, wrapped = (0 if step > 0 else view.count - 1), True
        block = view.block_at(index)
        if block.stop:
            body = text_of(block)
            if found(body):
                return block.key, wrapped
            looked += len(body) + _ROW
            if looked > _SLICE:
                looked = 0
                await asyncio.sleep(0)
    return None, wrapped


class Searching:
    """Belongs to a board, which shows `field` in the place of its status row while it asks."""

    def __init__(self) -> None:
        self.field = OrderedInput(id="find", placeholder="find in this panel", compact=True)
        self.needle = ""

    @property
    def going(self) -> bool:
        """Whether it asks, or something is looked for."""
        return self.field.display or bool(self.needle)

    def ask(self) -> None:
        """Show the field, with what was looked for last."""
        self.field.value = self.needle
        self.field.display = True
        self.field.screen.set_focus(self.field)  # at once: a letter may be right behind

    def close(self) -> bool:
        """Hide the field; False where it was not there."""
        was, self.field.display = self.field.display, False
        return was

    async def look(
        self, view: EntryView, step: int, opened: Container[Key], *, of_entries: bool
    ) -> tuple[Key | None, str]:
        """The next place in a list and what to say of it. An entry that is `opened` has its text below it."""

        def text_of(block: Block) -> str:
            return "" if block.key in opened else block.text()

        key, wrapped = await find(view, self.needle, view.cursor, step, text_of)
        words = f"“{clean_line(self.needle)}”"
        if key is None:
            return None, f"{words} is nowhere in this panel."
        where = f" in {key[0]}" if of_entries and key[0] >= 0 else ""
        round_it = ", round the end" if wrapped else ""
        older, newer = name_of(KEYS, "previous-match"), name_of(KEYS, "next-match")
        ends = name_of(KEYS, "close")
        return key, f"{words}{where}{round_it} · {newer} {older} next, previous · {ends} ends the search"
