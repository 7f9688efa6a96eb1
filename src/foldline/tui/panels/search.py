"""Search in a list: from the cursor on, round the end, in slices that leave the screen its time."""

import asyncio
import re
from collections.abc import Callable
from typing import Final

from foldline.history.stored import without_gc
from foldline.tui.blocks import Block, Key
from foldline.tui.panels.entry_list import EntryList

_SLICE: Final = 1_000_000
"""Characters looked through between two breaths: a few milliseconds."""
_ROW: Final = 1_000
"""Characters that could be looked through while the text of an entry is fetched."""


async def find(
    view: EntryList, text: str, start: Key | None, step: int, text_of: Callable[[Block], str]
) -> tuple[Key | None, bool]:
    """The next block after (`step` 1) or before (-1) `start` that holds `text`, whatever its case, and
    whether the search went round the end. The block at `start` itself comes last."""
    holds = re.compile(re.escape(text), re.IGNORECASE).search
    at = view.index_of(start) if start is not None else None
    index = at if at is not None else view.count if step < 0 else -1
    looked, wrapped = 0, False
    with without_gc():  # entries are made by the thousand to be looked through
        for _ in range(view.count):
            index += step
            if not 0 <= index < view.count:
                index, wrapped = (0 if step > 0 else view.count - 1), True
            block = view.block_at(index)
            if not block.stop:
                continue
            body = text_of(block)
            if holds(body):
                return block.key, wrapped
            looked += len(body) + _ROW
            if looked > _SLICE:
                looked = 0
                await asyncio.sleep(0)
    return None, wrapped
