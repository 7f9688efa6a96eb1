"""The rows of History and LLM view.

They are built in slices, newest first, and updated as the history grows.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from foldline.history.stored import without_gc
from foldline.past.describe import size_words
from foldline.past.moments import difference
from foldline.protocol import AssistantMessage, Subagent, Undo
from foldline.text import numbers
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, BlockBatch, Key
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.browser.draft.rows import ProposedView
from foldline.tui.browser.inspector.compare import ViewDifference, is_run
from foldline.tui.browser.panels.entry_list import (
    DIVIDER_KEY,
    TOOLS_KEY,
    EntryList,
    row_key,
    row_of,
)
from foldline.tui.browser.panels.entry_rows import (
    ItemRow,
    MarkerRow,
    RowSource,
    history_rows,
    is_note,
    item_rows,
    marker_label,
    opened_body,
    shares_row,
    view_rows,
)
from foldline.tui.browser.panels.states import Counterpart, in_view, row_index
from foldline.view.budget import Size
from foldline.view.items import ViewItem
from foldline.view.outline import Outline
from foldline.view.projection import Projection
from foldline.view.tally import kind_of
from foldline.view.undo import ViewMarker
from foldline.view.weight import Category

_AT_ONCE: Final = 1_000
"""Number of newest entries whose rows are built before the panel opens."""
_SLICE: Final = 4_000
"""Number of entries whose rows are built before other tasks can run. This takes about 10 ms."""
_EMPTY: Final = (-4, 0)
"""Key of the row shown in an empty list."""
_NO_ROW: Final = (-3, 0)


NOTES_HIDDEN: Final = "system notes hidden"


class RowTable:
    """The rows of a list that shows either entries or view items."""

    empty = ""
    """The message shown in an empty list."""

    def __init__(self, view: EntryList, cwd: str) -> None:
        self.view = view
        self.opened: set[Key] = set()
        """The expanded rows."""
        self.missing = 0
        """Number of oldest entries or items whose rows have not been built yet."""
        self.built = 0
        """Number of rows built so far. Used only by tests."""
        self._builds = 0
        """Number of builds started. A build stops when a newer one starts."""
        self._changes = 0
        """Number of changes above the end of the list. Each of them restarts the current build."""
        self._cwd = cwd
        self._projection = Projection()
        self._scale = 1.0

    def __len__(self) -> int:
        """Return the number of entries or items, including hidden ones."""
        raise NotImplementedError

    def _rows(self, start: int, stop: int) -> list[Block]:
        raise NotImplementedError

    def take(self, projection: Projection) -> None:
        """Set the history from which rows are built."""
        self._projection = projection

    def enter_words(self, row: Key | None) -> str:
        """Return the effect of pressing Enter on a row."""
        if row is not None and isinstance(self._projection.outline(row[0]), Subagent):
            return "Enter opens its session"
        return "Enter closes" if row in self.opened else "Enter opens"

    @property
    def source(self) -> RowSource:
        return RowSource(self._projection, self._cwd)

    def forget(self) -> None:
        """Release the history.

        The rows are kept, because they belong to the list.
        """
        self._builds += 1
        self._projection = Projection()

    def _redraw_if_rescaled(self) -> None:
        """Redraw all rows if the calibration of the estimates has changed."""
        scale = self._projection.meter.scale
        if scale != self._scale:
            self._scale = scale
            self.view.lay_out()

    # --- Opening in place -----------------------------------------------------------------------------

    def toggle(self, key: Key) -> None:
        """Expand or collapse the row of a block without moving it on the screen."""
        row = row_of(key)
        block = self.view.block(row)
        if block is None:
            return
        below = self._count_below(row)
        self.opened ^= {row}
        body = self._below(block)
        if row not in self.opened:
            self.view.cursor_to(row, quiet=True, scroll=False)
        elif not body:
            self.opened.discard(row)
        self.view.replace_below(row, below, body)
        if row not in self.opened:
            self.view.scroll_to_key(row)

    def _count_below(self, row: Key) -> int:
        """Return the number of blocks that belong to a row, not counting the row itself."""
        at = self.view.index_of(row)
        assert at is not None, "the row exists"
        stop = at + 1
        while stop < self.view.count and row_of(self.view.block_at(stop).key) == row:
            stop += 1
        return stop - at - 1

    def _below(self, row: Block) -> list[Block]:
        """Return the blocks below a row."""
        return opened_body(self._projection, row) if row.key in self.opened else []

    # --- The newest rows first ------------------------------------------------------------------------

    def begin(self, projection: Projection) -> None:
        """Show another history, starting with its last rows."""
        self.take(projection)
        self._scale = projection.meter.scale
        self.opened.clear()
        self._from_end(_AT_ONCE)

    def _from_end(self, count: int) -> None:
        """Show the last `count` entries or items. `fill` builds the rows above them."""
        self.missing = max(len(self) - count, 0)
        rows = self._built(self.missing, len(self))
        self.view.set_blocks(rows if rows or self.missing else [self._empty_row()])

    def _built(self, start: int, stop: int) -> list[Block]:
        rows = self._rows(start, stop)
        self.built += len(rows)
        return rows

    def _empty_row(self) -> Block:
        return TextBlock(_EMPTY, self.empty, "muted", stop=False)

    def _drop_empty(self) -> None:
        """Remove the row of an empty list if the list is no longer empty."""
        if self.view.count > 1 and self.view.holds(_EMPTY):
            self.view.remove_blocks([_EMPTY])

    # --- Builds in slices ------------------------------------------------------------------------------

    async def build(self) -> None:
        """Build all rows in slices, then show them without moving the visible content.

        A later call stops this one.
        """
        self.put(await self.build_rows())

    async def fill(self) -> None:
        """Build the missing rows."""
        if self.missing:
            await self.build()

    def put(self, rows: BlockBatch | None) -> None:
        """Show the rows returned by `build_rows`."""
        if rows is not None:
            self.missing = 0
            self.view.set_blocks_around(self.view.cursor or self.view.counterpart, rows)

    async def build_rows(self) -> BlockBatch | None:
        """Build all rows in slices, and start over if earlier rows change in the meantime.

        Returns None if this build was superseded by a newer call.
        """
        self._builds += 1
        build_number = self._builds
        batch = self.view.new_batch()
        start = 0
        changes = self._changes
        with without_gc():
            while True:
                stop = min(start + _SLICE, len(self))
                batch.add(self._built(start, stop))
                start = stop
                await asyncio.sleep(0)
                if build_number != self._builds:
                    return None
                if changes != self._changes:
                    batch = self.view.new_batch()
                    start = 0
                    changes = self._changes
                elif start >= len(self):
                    if not batch.blocks:
                        batch.add([self._empty_row()])
                    return batch


class HistoryTable(RowTable):
    """The rows of History, one for each entry."""

    empty = "No entries yet."

    def __init__(self, view: EntryList, cwd: str) -> None:
        super().__init__(view, cwd)
        self.shows_notes = False
        """Whether system notes are shown."""
        self._seen = 0

    def __len__(self) -> int:
        return self._seen

    def row_index(self, index: int) -> int:
        """Return the index of the entry whose row also represents this entry."""
        if self.view.holds(row_key(index)):
            return index
        return row_index(self._projection, index)

    def take(self, projection: Projection) -> None:
        super().take(projection)
        self._seen = len(projection.entries)

    def head(self, as_of: str) -> str:
        """Return the remark in the panel's frame: `398 entries, system notes hidden`.

        Args:
            as_of: the name of the earlier state shown; empty for the current state.
        """
        count = len(self._projection.entries)
        parts = [many(count, "entry", "entries")]
        if as_of:
            parts.append(f"as of {as_of}")
        elif count > 1 and not self.shows_notes:
            parts.append(NOTES_HIDDEN)
        return ", ".join(parts)

    def foot(self, row: Key | None) -> tuple[str, str]:
        """Return the effect of pressing Enter, and the entry's item in the LLM view."""
        if row is None:
            return "Enter opens", ""
        return self.enter_words(row), in_view(self._projection, row[0]).words

    def grow(self) -> tuple[int, bool]:
        """Add rows for new entries, and rebuild the last row of a tool group that has grown.

        Returns:
            The number of new entries, and whether one of them changed earlier parts of the view.
        """
        start = self._seen
        fresh = self._projection.entries.outlines[start:]
        if not fresh:
            return 0, False
        self._seen = len(self._projection.entries)
        last_row = self._last_row_of_groups(fresh)
        if last_row is None:
            self.view.append(*self._built(start, len(self)))
        else:
            start = self._projection.count_up_to(last_row[0]) - 1
            shared_row = row_key(row_index(self._projection, last_row[0]))
            if last_row != shared_row and last_row in self.opened:
                self.opened ^= {last_row, shared_row}
            self.view.replace_from(last_row, self._built(start, len(self)))
        self._drop_empty()
        changed = any(isinstance(entry, ViewMarker | Undo) for entry in fresh)
        if changed:
            self._relabel()
            self._changes += 1
        self._redraw_if_rescaled()
        return len(fresh), changed

    def _last_row_of_groups(self, fresh: Sequence[Outline]) -> Key | None:
        """Return the last visible row of the tool group that new results continue, if there is one."""
        groups = (self._projection.group(outline.index) for outline in fresh)
        rows = (row_key(index) for group in groups for index in reversed(group))
        return next(filter(self.view.holds, rows), None)

    def _relabel(self) -> None:
        """Update the labels of compactions, because one of them may have been undone."""
        for compaction in self._projection.all_compactions:
            row = self.view.block(row_key(compaction.index))
            label = marker_label(self._projection, compaction)
            if isinstance(row, MarkerRow) and row.label != label:
                self.view.replace(row.key, replace(row, label=label))

    def _rows(self, start: int, stop: int) -> list[Block]:
        rows = history_rows(
            self._projection,
            start=start,
            stop=stop,
            cwd=self._cwd,
            wanted=lambda outline: self.shows_notes or not is_note(outline),
        )
        if not self.opened:
            return rows
        return [block for row in rows for block in (row, *self._below(row))]


class ViewTable(RowTable):
    """The rows of the LLM view, one for each item of the next request."""

    empty = "Nothing has been sent yet."

    def __init__(self, view: EntryList, overhead: int, cwd: str) -> None:
        super().__init__(view, cwd)
        self.by_size = False
        """Whether the largest items come first, instead of the oldest."""
        self.before: Projection | None = None
        """History whose view is the other side of the comparison; None shows a single view."""
        self.proposed: ProposedView | None = None
        """The rows of the proposed view, while a draft is shown."""
        self.difference: ViewDifference | ProposedView | None = None
        """The rows of two views: the differences from the view of `before`, or those of a draft."""
        self.names: tuple[str, ...] = ()
        """The names of a file. Summary lines that contain any of them are marked."""
        self.new_items: NewItems | None = None
        """The items that the last request did not contain."""
        self.divider: tuple[int, str] | None = None
        """Position and label of the rule above the new items."""
        self._overhead = overhead
        self._items: list[ViewItem] = []
        self._requests = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def overhead(self) -> int:
        """Estimated size of the tool schemas, if they have a row of their own."""
        return 0 if self.by_size else self._overhead

    @property
    def new_from(self) -> int | None:
        """Index of the first item that has not been sent yet."""
        return self.new_items.first_index if self.new_items is not None else None

    def head(self, size: Size, as_of: str) -> tuple[str, str]:
        """Return the panel's remark and title: (`24 items ~28.6k`, `2 LLM view: request 85`).

        Args:
            as_of: the name of the earlier state shown; empty for the current state.
        """
        items = many(len(self._projection.view), "item")
        named = f"request {self._requests + 1}" if self._requests else "next request"
        if as_of.startswith("request"):
            named = as_of
        order = ", by size" if self.by_size else ""
        return f"{items} {size_words(size)}{order}", f"2 LLM view: {named}"

    def foot(
        self, row: Key | None, size: Size, *, active: bool, from_history: bool
    ) -> tuple[str, str]:
        """Return the texts at the left and right ends of the bottom edge.

        In the active panel, they are the effect of pressing Enter and the row's entry. In other panels, they
        explain the numbers and give the size of the unchanged part of the request.

        Args:
            size: the size of the request.
            active: whether the panel has the focus.
            from_history: whether the entry was chosen in History.
        """
        if active and row == TOOLS_KEY:
            return "", "sent with every request, not an entry"
        counterpart = (
            in_view(self._projection, row[0])
            if row is not None and row[0] >= 0
            else None
        )
        if active:
            return self.enter_words(row), _item_words(row, counterpart)
        if counterpart is not None and from_history and counterpart.key is None:
            return "", counterpart.words
        if self.divider is None:
            return "tokens ~ estimated", ""
        new_items = self._items[self.divider[0] :]
        added = round(
            sum(item.tokens for item in new_items) * self._projection.meter.scale
        )
        same = numbers.tokens(max(size.tokens - added, 0), estimated=True)
        before = f"request {self._requests}" if self._requests else "the last request"
        return "tokens ~ estimated", f"first {same} as in {before}"

    def take(self, projection: Projection) -> None:
        """Set the history, and find the position at which new items start."""
        super().take(projection)
        self._items = list(projection.view)
        if self.by_size:
            scale = projection.meter.scale
            self._items = projection.tally.heaviest(len(self._items), scale)
        self.difference = self.proposed
        if self.before is not None:
            pairs = tuple(difference(self.before.view, projection.view))
            self.difference = ViewDifference(self.before, projection, pairs, self._cwd)
        count = len(projection.meter.requests)
        self._requests = count
        self.new_items = new_items_of(projection)
        self.divider = None
        if self.by_size or self.new_items is None or not self.new_items.position:
            return
        before = f"request {count}" if count else "the last request"
        after = f"request {count + 1}" if count else "the next"
        self.divider = (
            self.new_items.position,
            f"as in {before} · below: new in {after}",
        )

    def largest(self, category: Category) -> ViewItem | None:
        """Return the first item of a category, which is the largest if they are listed by size."""
        return next((item for item in self._items if kind_of(item) == category), None)

    def summaries(self) -> Iterator[ViewItem]:
        """Yield the items written by compactions."""
        return (item for item in self._items if item.written)

    def update(self, *, compacted: bool) -> None:
        """Update all rows after a compaction, or otherwise only the rows that differ.

        Items are compared by identity, because they are replaced and never modified.
        """
        old = self._items
        old_divider = self.divider
        self.take(self._projection)
        pairs = enumerate(zip(old, self._items, strict=False))
        shorter = min(len(old), len(self._items))
        same = next(
            (at for at, (before, after) in pairs if before is not after), shorter
        )
        if self.difference is not None:
            self._show_difference()
        elif compacted and same < len(old):
            self._changes += 1
            self.opened.intersection_update(row_key(*item.key) for item in self._items)
            self._from_end(_SLICE)
        else:
            if old_divider != self.divider:
                dividers = filter(None, (old_divider, self.divider))
                same = min(same, *(position for position, _ in dividers))
            if shares_row(self._projection, self._items, same):
                same -= 1
            if same < max(len(old), len(self._items)):
                self._replace_from(same, old[same:], old_divider)
        self._redraw_if_rescaled()

    def _replace_from(
        self,
        position: int,
        old: Sequence[ViewItem],
        old_divider: tuple[int, str] | None,
    ) -> None:
        """Replace the rows of the `old` items, which start at this position."""
        self._changes += 1
        if position < self.missing:
            return  # these rows are not built yet
        keys = [row_key(*item.key) for item in old]
        if old_divider is not None and old_divider[0] == position:
            keys.insert(0, DIVIDER_KEY)
        if position == 0:
            keys.insert(0, TOOLS_KEY)
        first = next(filter(self.view.holds, keys), _NO_ROW)
        self.view.replace_from(first, self._built(position, len(self)))
        self._drop_empty()

    # --- Two views ------------------------------------------------------------------------------------

    async def build_rows(self) -> BlockBatch | None:
        if self.difference is None:
            return await super().build_rows()
        self._builds += 1
        batch = self.view.new_batch()
        batch.add(self.difference.rows(self.opened))
        return batch

    def _from_end(self, count: int) -> None:
        if self.difference is None:
            super()._from_end(count)
        else:
            self.missing = 0
            self._show_difference()

    def show_proposed(self, proposed: ProposedView) -> None:
        """Show the rows of a draft."""
        self.proposed = self.difference = proposed
        self._show_difference()

    def _show_difference(self) -> None:
        assert self.difference is not None, "two views are compared"
        rows = self.difference.rows(self.opened)
        self.view.set_blocks_around(self.view.cursor or self.view.counterpart, rows)

    def toggle(self, key: Key) -> None:
        if self.difference is None:
            super().toggle(key)
            return
        row = key if is_run(key) else row_of(key)
        self.opened ^= {row}
        self.view.cursor_to(row, quiet=True, scroll=False)
        self._show_difference()

    def _below(self, row: Block) -> list[Block]:
        if not isinstance(row, ItemRow):
            return []
        return list(item_rows(self.source, row.item, self.opened, self.names))[1:]

    def forget(self) -> None:
        super().forget()
        self._items = []
        self.before = None
        self.proposed = self.difference = None

    def _rows(self, start: int, stop: int) -> list[Block]:
        return view_rows(
            self._projection,
            self.overhead,
            items=self._items,
            start=start,
            stop=stop,
            cwd=self._cwd,
            opened=self.opened,
            names=self.names,
            divider=self.divider,
        )


def _item_words(row: Key | None, counterpart: Counterpart | None) -> str:
    """Return the view item for a row: `summary 373 → entry 118`.

    If there is none, return the reason.
    """
    if counterpart is None or row is None:
        return ""
    if counterpart.key is None:
        return counterpart.words
    return f"{counterpart.words.rpartition('→ ')[2]} → entry {row[0]}"


# --- New items --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewItems:
    """The items that the last request did not contain."""

    first_index: int
    """Index of the first new item: the response to the last request."""
    position: int | None
    """Position of that item in the view; None if a marker has changed earlier items since the request."""


def new_items_of(projection: Projection) -> NewItems | None:
    """Return the new items of a view.

    Returns None before the first response.
    """
    change = projection.newest_change
    last_change = -1 if change is None else change.index
    for position in range(len(projection.view) - 1, -1, -1):
        item = projection.view[position]
        if isinstance(item.message, AssistantMessage):
            return NewItems(item.index, position if last_change < item.index else None)
    return None
