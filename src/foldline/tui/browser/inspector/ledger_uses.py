"""Finds the ledger lines that the model has used since the compaction."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from textual.widget import Widget

from foldline.compaction.summary_text import ledger_of
from foldline.history.stored import without_gc
from foldline.memory.ledger_lines import LedgerLine, used_lines
from foldline.protocol import Compaction
from foldline.text.numbers import many
from foldline.tui.browser.panels.edit_hints import REST
from foldline.view.outline import CompactionOutline, MessageOutline
from foldline.view.projection import Projection

_SLICE = 500
"""Number of entries searched before checking for cancellation."""


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """The lines of a ledger, and the ids of the lines used since the compaction."""

    lines: tuple[LedgerLine, ...] = ()
    used: frozenset[str] = frozenset()
    position: int = 0
    """Number of history entries searched so far."""

    @property
    def words(self) -> str:
        """Summary of the use: `ledger 41 lines · 12 used since`; empty without a ledger."""
        return (
            f"ledger {many(len(self.lines), 'line')} · {len(self.used):,} used since"
            if self.lines
            else ""
        )


class LedgerUses:
    """Finds and caches which ledger lines have been used."""

    def __init__(self, owner: Widget, changed: Callable[[], None]) -> None:
        """Create an empty cache. `changed` is called after each search."""
        self._owner = owner
        self._changed = changed
        self._projection: Projection | None = None
        self._cache: dict[int, LedgerUse] = {}
        self._searching = -1
        """Index of the compaction for which a search is running; -1 if none."""

    def known(self, index: int) -> LedgerUse:
        """Return the cached result for a compaction.

        The result is empty if no entries have been searched for it yet.
        """
        return self._cache.get(index, LedgerUse())

    def look_at(self, projection: Projection, index: int) -> LedgerUse:
        """Return the cached result for an entry.

        If the entry is a compaction, also search the entries that have not been searched yet.
        """
        if projection is not self._projection:
            self._projection = projection
            self._cache = {}
            self._searching = -1
        use = self.known(index)
        is_compaction = isinstance(projection.outline(index), CompactionOutline)
        is_complete = use.position >= len(projection.entries)
        if is_compaction and not is_complete and self._searching != index:
            self._searching = index
            search = self._search(projection, index)
            self._owner.run_worker(search, group="ledger", exclusive=True)
        return use

    async def _search(self, projection: Projection, index: int) -> None:
        """Search the entries after a compaction in a thread, slice by slice."""
        await asyncio.sleep(REST)  # do nothing if the cursor only passes by
        with without_gc():
            # This is safe while the history grows, because existing entries do not change.
            while self._projection is projection:
                use = self.known(index)
                if use.position >= len(projection.entries):
                    break
                self._cache[index] = await asyncio.to_thread(
                    _search_slice, projection, index, use
                )
        self._searching = -1
        self._changed()


def _search_slice(projection: Projection, index: int, use: LedgerUse) -> LedgerUse:
    entry = projection.entry(index)
    entries = projection.entries
    start = max(use.position, projection.count_up_to(index))
    stop = min(start + _SLICE, len(entries))
    lines = use.lines
    if not use.position and isinstance(entry, Compaction):
        ledger, pinned = ledger_of(entry.summary)
        lines = (*ledger, *pinned)
    if not lines:
        return LedgerUse(position=len(entries))
    answers = (
        entries.message(outline)
        for outline in entries.outlines[start:stop]
        if isinstance(outline, MessageOutline) and outline.type == "assistant"
    )
    unused = [line for line in lines if line.id not in use.used]
    return LedgerUse(lines, use.used | used_lines(unused, answers), stop)
