"""Which lines of a compaction's ledger the model went on to use: looked for when somebody looks at it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from textual.widget import Widget

from foldline.compaction.summary_text import ledger_of
from foldline.context.ledger import LedgerLine, used_lines
from foldline.context.numbers import many
from foldline.context.outline import CompactionOutline, MessageOutline
from foldline.context.projection import Projection
from foldline.history.stored import without_gc
from foldline.protocol import Compaction
from foldline.tui.panels.edit_hints import REST

_SLICE = 500
"""Entries looked through before the thread asks whether anybody still wants to know."""


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """The lines of one ledger, and those that were said since, by their ids."""

    lines: tuple[LedgerLine, ...] = ()
    used: frozenset[str] = frozenset()
    position: int = 0
    """How many entries of the history have been looked through."""

    @property
    def words(self) -> str:
        """`ledger 41 lines · 12 used since`; nothing where there is no ledger."""
        return f"ledger {many(len(self.lines), 'line')} · {len(self.used):,} used since" if self.lines else ""


class LedgerUses:
    """Those known by now. What comes costs what it says; `changed` is called when there is more to show."""

    def __init__(self, owner: Widget, changed: Callable[[], None]) -> None:
        self._owner = owner
        self._changed = changed
        self._of: Projection | None = None
        self._known: dict[int, LedgerUse] = {}
        self._wanted = -1

    def known(self, index: int) -> LedgerUse:
        """What is known of a compaction."""
        return self._known.get(index, LedgerUse())

    def look_at(self, projection: Projection, index: int) -> LedgerUse:
        """What is known of an entry; where it is a compaction and more has come, that is looked for."""
        if projection is not self._of:
            self._of, self._known, self._wanted = projection, {}, -1
        is_compaction = isinstance(projection.outline(index), CompactionOutline)
        known, length = self.known(index), len(projection.entries)
        if not is_compaction:
            self._wanted = -1
        elif known.position < length and self._wanted != index:
            self._wanted = index
            self._owner.run_worker(self._follow(projection, index), group="ledger", exclusive=True)
        return known

    async def _follow(self, projection: Projection, index: int) -> None:
        """Look through all that came since, a slice at a time, in a thread."""
        await asyncio.sleep(REST)  # whoever moves on wants to know nothing of it
        with without_gc():
            while self._wanted == index and self._of is projection:
                known = self.known(index)
                if known.position >= len(projection.entries):
                    self._wanted = -1
                    break
                # The history may grow while another thread reads it: what it reads is there for good.
                stop = min(
                    max(known.position, projection.count_up_to(index)) + _SLICE, len(projection.entries)
                )
                self._known[index] = await asyncio.to_thread(_looked_at, projection, index, known, stop)
        self._changed()


def _looked_at(projection: Projection, index: int, known: LedgerUse, stop: int) -> LedgerUse:
    entry, entries = projection.entry(index), projection.entries
    lines = known.lines
    if not known.position and isinstance(entry, Compaction):
        ledger, pinned = ledger_of(entry.summary)
        lines = (*ledger, *pinned)
    if not lines:
        return LedgerUse(position=len(entries))
    start = max(known.position, projection.count_up_to(index))
    answers = (
        entries.message(outline)
        for outline in entries.outlines[start:stop]
        if isinstance(outline, MessageOutline) and outline.type == "assistant"
    )
    unused = [line for line in lines if line.id not in known.used]
    return LedgerUse(lines, known.used | used_lines(unused, answers), stop)
