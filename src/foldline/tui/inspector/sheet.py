"""What both lists of entries share: rows are built from the end, in slices, and kept up to date."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context.projection import Projection
from foldline.history.stored import without_gc
from foldline.tui.blocks import Block, Key, TextBlock
from foldline.tui.blocks.block import BlockBatch
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filters import EVERYTHING, Facet, Filter, Tally
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.places import row_of
from foldline.tui.inspector.rows import Source, opened_body
from foldline.tui.inspector.standing import Listed, scroll_of
from foldline.tui.keys.table import name_of

_AT_ONCE: Final = 1_000
"""Entries whose rows are there when the panel opens: the newest."""
SLICE: Final = 4_000
"""Rows built between two breaths: about 10 ms."""
_EMPTY: Final[Key] = (-4, 0)
"""What stands where there are no rows."""


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that are built and not shown yet."""

    sheaf: BlockBatch
    shown: int
    """Entries or items among them."""


class Sheet:
    """What both lists share."""

    what = ""
    """What is listed."""
    empty = ""
    """What is said where there is nothing."""

    def __init__(self, view: EntryView, cwd: str) -> None:
        self.view = view
        self.opened: set[Key] = set()
        """Rows that show all they hold."""
        self.missing = 0
        """Entries or items at the start whose rows are still to come."""
        self.built = 0
        """Rows built so far: what tests count."""
        self.filter = EVERYTHING
        self.shown = 0
        """Entries or items that the filter admits."""
        self._verdicts: dict[Facet, bool] = {}
        """What the filter says of facets it was asked about."""
        self._kept: set[Key] | None = None
        """Rows that are shown, whatever the filter says of their entries by now."""
        self._builds = 0
        self._changes = 0
        """Times that rows above the end became others: a build that is under way begins anew."""
        self._cwd = cwd
        self._projection = Projection()

    @property
    def source(self) -> Source:
        return Source(self._projection, self._cwd)

    def below(self, row: Key) -> list[Key]:
        """Keys of the pieces below a row."""
        at = self.view.index_of(row)
        keys: list[Key] = []
        if at is not None:
            for index in range(at + 1, self.view.count):
                key = self.view.block_at(index).key
                if row_of(key) != row:
                    break
                keys.append(key)
        return keys

    def toggle(self, row: Key) -> None:
        """Open or close an entry in place: it grows downwards, the cursor's line stays where it is."""
        view, block = self.view, self.view.block(row)
        if block is None:
            return
        below = len(self.below(row))
        if row not in self.opened:
            body = opened_body(self._projection, block)
            if body:
                self.opened.add(row)
                view.replace_below(row, below, body)
            return
        self.opened.discard(row)
        view.cursor_to(row, quiet=True, scroll=False)
        view.replace_below(row, below, self._closed(block))
        view.scroll_to_key(row)

    def _closed(self, block: Block) -> list[Block]:
        """What a closed row shows below it."""
        return []

    def forget(self) -> None:
        """Keep nothing of the history any longer; its rows are the view's."""
        self._builds += 1
        self._projection = Projection()

    def _rows(self, start: int, stop: int) -> list[Block]:
        raise NotImplementedError

    def __len__(self) -> int:
        """How many entries or items there are, shown or not."""
        raise NotImplementedError

    def _counted(self, start: int) -> list[Block]:
        """The rows from a position on, which take their place now."""
        rows = self._built(start, len(self))
        self.shown += _entries_in(rows)
        return rows

    def _built(self, start: int, stop: int) -> list[Block]:
        rows = self._rows(start, stop)
        self.built += len(rows)
        return rows

    def _begin(self) -> None:
        self.opened.clear()
        self.filter, self._kept = EVERYTHING, None
        self._from_end(_AT_ONCE)

    def _from_end(self, count: int) -> None:
        """Show the last so many; what is above them is built by `fill`."""
        self.missing = max(len(self) - count, 0)
        self.shown = 0
        rows = self._counted(self.missing)
        self.view.set_blocks([*rows, *self._nothing(self.shown + self.missing)])

    def _nothing(self, shown: int) -> Sequence[Block]:
        """What stands there where no entry does."""
        if shown:
            return ()
        words = f"Nothing fits the filter: {name_of(KEYS, 'close')} shows all."
        return (TextBlock(_EMPTY, words if self.filter.active else self.empty, "muted", stop=False),)

    def _say_no_more(self) -> None:
        """There is something now."""
        if self.shown and self.view.index_of(_EMPTY) is not None:
            self.view.remove_blocks([_EMPTY])

    # --- What is long, in slices ----------------------------------------------------------------------

    async def show_only(self, wanted: Filter) -> None:
        """Show what a filter admits. The row of the cursor, or of its counterpart, stays where it is."""
        self.filter, self._kept = wanted, None
        self._verdicts.clear()
        await self.build()

    async def build(self) -> None:
        """Build all rows in slices, then put them in the place of those that are there; nothing on screen
        moves. What changes meanwhile is built again; another call overtakes this one."""
        made = await self._made()
        if made is not None:
            self.put(made)

    def put(self, made: Made) -> None:
        """Show what was built."""
        self.missing, self.shown = 0, made.shown
        self.view.set_blocks_around(self.view.cursor or self.view.counterpart, made.sheaf)

    async def _made(self) -> Made | None:
        """All rows, built in slices; None where another call has overtaken this one."""
        with without_gc():
            return await self._make()

    async def _make(self) -> Made | None:
        self._builds += 1
        this, of, done = self._builds, self._changes, 0
        sheaf, shown = self.view.new_batch(), 0
        while True:
            if of != self._changes:
                sheaf, shown, of, done = self.view.new_batch(), 0, self._changes, 0
            stop = min(done + SLICE, len(self))
            rows = self._built(done, stop)
            sheaf.add(rows)
            shown, done = shown + _entries_in(rows), stop
            await asyncio.sleep(0)
            if this != self._builds:
                return None
            if done >= len(self) and of == self._changes:
                sheaf.add(self._nothing(shown))
                return Made(sheaf, shown)

    @property
    def listed(self) -> Listed:
        """What of it is shown, and where it stands."""
        return Listed(scroll_of(self.view), self.filter, frozenset(self.opened))

    def lacks(self, wanted: Listed) -> bool:
        """Whether rows must be built before it can stand like that."""
        there = all(self.view.index_of(key) is not None for key in wanted.scroll.keys)
        return not there or self.filter != wanted.filter or self.opened != wanted.opened

    async def take_up(self, wanted: Listed) -> None:
        """Build what another list showed."""
        self.opened = set(wanted.opened)
        await self.show_only(wanted.filter)

    async def fill(self) -> None:
        """Build what is missing."""
        if self.missing:
            await self.build()

    def _admits(self, facet: Facet, key: Key) -> bool:
        """Whether the filter has room for an entry."""
        found = self._verdicts.get(facet)
        if found is None:
            found = self._verdicts[facet] = self.filter.admits(facet)
        return found or (self._kept is not None and key in self._kept)

    def _keep_rows(self) -> None:
        """What is shown stays until another filter is chosen: a fold takes away no row."""
        if self.filter.active:
            self._kept = {row_of(block.key) for block in self.view.blocks()}

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        """What a filter asks, of the entries or items between two positions."""
        raise NotImplementedError

    async def tally(self) -> Tally:
        """How many there are of what."""
        found, done = Tally(), 0
        while done < len(self):
            stop = min(done + SLICE, len(self))
            found.add(self.facets(done, stop))
            done = stop
            await asyncio.sleep(0)
        return found


def _entries_in(rows: Iterable[Block]) -> int:
    """How many of these blocks are rows of an entry, and not what is open below one."""
    return sum(row.key[0] >= 0 and row.key == row_of(row.key) for row in rows)
