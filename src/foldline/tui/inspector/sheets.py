"""The rows of History and LLM view: built from the end, in slices, and kept up to date by what changes."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context import numbers
from foldline.context.budget import Size
from foldline.context.moments import Moment
from foldline.context.numbers import many
from foldline.context.outline import CompactionOutline, MessageOutline, Outline
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.context.view_state import ViewMarker
from foldline.history.stored import without_gc
from foldline.protocol import AssistantMessage, Subagent, Undo
from foldline.tui.blocks.block import Block, BlockBatch, Key
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.inspector.filters import EVERYTHING, Facet, Filter, Tally, facet_of, facet_of_item
from foldline.tui.inspector.keys import KEYS
from foldline.tui.keys.table import name_of
from foldline.tui.panels.entry_list import (
    DIVIDER_KEY,
    FOLLOWING,
    TOOLS_KEY,
    EntryList,
    Scroll,
    row_key,
    row_of,
)
from foldline.tui.panels.entry_rows import (
    EntryRow,
    ItemRow,
    MarkerRow,
    Source,
    history_rows,
    item_rows,
    opened_body,
    view_rows,
)
from foldline.tui.panels.states import in_view, row_index, sharer
from foldline.tui.panels.words import marker_label

_AT_ONCE: Final = 1_000
"""Entries whose rows are there when the panel opens: the newest."""
_SLICE: Final = 4_000
"""Rows built between two breaths: about 10 ms."""
_EMPTY: Final = (-4, 0)
"""What stands where there are no rows."""
_NO_ROW: Final = (-3, 0)


@dataclass(frozen=True, slots=True)
class BuiltRows:
    """Rows that are built and not shown yet."""

    rows: BlockBatch
    shown: int
    """Entries or items among them."""


@dataclass(frozen=True, slots=True)
class ListState:
    """What of a list is shown, what is open, and its position."""

    scroll: Scroll = FOLLOWING
    filter: Filter = EVERYTHING
    opened: frozenset[Key] = frozenset()


AT_END: Final = ListState()


@dataclass(frozen=True, slots=True)
class PanelState:
    """All that a reader has chosen, to be handed from the docked Inspector to the full one and back."""

    active: int = 0
    timeline: bool = False
    """Whether the timeline has the focus."""
    history: ListState = AT_END
    view: ListState = AT_END
    files: Scroll = FOLLOWING
    needle: str = ""
    picked: frozenset[int] = frozenset()
    moment: Moment | None = None


class Sheet:
    """The rows of one list, of entries or of items."""

    what = ""
    empty = ""
    """What is said where there is nothing."""

    def __init__(self, view: EntryList, cwd: str) -> None:
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
        self._scale = 1.0

    def __len__(self) -> int:
        """How many entries or items there are, shown or not."""
        raise NotImplementedError

    def _rows(self, start: int, stop: int) -> list[Block]:
        raise NotImplementedError

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        """What a filter asks, of the entries or items between two positions."""
        raise NotImplementedError

    @property
    def shown_words(self) -> str:
        """What a filter leaves, and which it is: `41 shown: bash, failed`."""
        return f"{self.shown:,} shown: {self.filter.words}" if self.filter.active else ""

    def enter_words(self, row: Key | None) -> str:
        """What Enter does on a row."""
        if row is not None and isinstance(self._projection.outline(row[0]), Subagent):
            return "Enter opens its session"
        return "Enter closes" if row in self.opened else "Enter opens in place"

    @property
    def source(self) -> Source:
        return Source(self._projection, self._cwd)

    def forget(self) -> None:
        """Keep nothing of the history any longer; its rows are the view's."""
        self._builds += 1
        self._projection = Projection()

    def _redraw_if_rescaled(self) -> None:
        """All numbers that are estimates change with the calibration."""
        scale = self._projection.scale
        if scale != self._scale:
            self._scale = scale
            self.view.lay_out()

    # --- Opening in place -----------------------------------------------------------------------------

    def toggle(self, row: Key) -> None:
        """Open or close an entry in place: it grows downwards, the cursor's line stays where it is."""
        view, block = self.view, self.view.block(row)
        if block is None:
            return
        below = self._count_below(row)
        if row not in self.opened:
            body = opened_body(self._projection, block)
            if body:
                self.opened.add(row)
                view.replace_below(row, below, body)
            return
        self.opened.discard(row)
        view.cursor_to(row, quiet=True, scroll=False)
        view.replace_below(row, below, self._closed_body(block))
        view.scroll_to_key(row)

    def _count_below(self, row: Key) -> int:
        """How many pieces stand below a row."""
        at = self.view.index_of(row)
        assert at is not None, "the row is there"
        stop = at + 1
        while stop < self.view.count and row_of(self.view.block_at(stop).key) == row:
            stop += 1
        return stop - at - 1

    def _closed_body(self, block: Block) -> list[Block]:
        """What a closed row shows below it."""
        return []

    # --- The newest at once ---------------------------------------------------------------------------

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

    def _counted(self, start: int) -> list[Block]:
        """The rows from a position on, which take their place now."""
        rows = self._built(start, len(self))
        self.shown += _entries_in(rows)
        return rows

    def _built(self, start: int, stop: int) -> list[Block]:
        rows = self._rows(start, stop)
        self.built += len(rows)
        return rows

    def _nothing(self, shown: int) -> Sequence[Block]:
        """What stands there where no entry does."""
        if shown:
            return ()
        words = f"Nothing fits the filter: {name_of(KEYS, 'close')} shows all."
        return (TextBlock(_EMPTY, words if self.filter.active else self.empty, "muted", stop=False),)

    def _drop_empty(self) -> None:
        """There is something now."""
        if self.shown and self.view.holds(_EMPTY):
            self.view.remove_blocks([_EMPTY])

    # --- What is long, in slices ----------------------------------------------------------------------

    async def show_only(self, wanted: Filter) -> None:
        """Show what a filter admits. The row of the cursor, or of its counterpart, stays where it is."""
        self.filter, self._kept = wanted, None
        self._verdicts.clear()
        await self.build()

    async def build(self) -> None:
        """Build all rows in slices, then put them in the place of those that are there; nothing on screen
        moves. What changes before that is built again; another call overtakes this one."""
        made = await self.made()
        if made is not None:
            self.put(made)

    async def fill(self) -> None:
        """Build what is missing."""
        if self.missing:
            await self.build()

    def put(self, made: BuiltRows) -> None:
        """Show what was built."""
        self.missing, self.shown = 0, made.shown
        self.view.set_blocks_around(self.view.cursor or self.view.counterpart, made.rows)

    async def made(self) -> BuiltRows | None:
        """All rows, built in slices; None where another call has overtaken this one."""
        self._builds += 1
        this, of, done = self._builds, self._changes, 0
        batch, shown = self.view.new_batch(), 0
        with without_gc():
            while True:
                if of != self._changes:
                    batch, shown, of, done = self.view.new_batch(), 0, self._changes, 0
                stop = min(done + _SLICE, len(self))
                rows = self._built(done, stop)
                batch.add(rows)
                shown, done = shown + _entries_in(rows), stop
                await asyncio.sleep(0)
                if this != self._builds:
                    return None
                if done >= len(self) and of == self._changes:
                    batch.add(self._nothing(shown))
                    return BuiltRows(batch, shown)

    @property
    def state(self) -> ListState:
        return ListState(Scroll.of(self.view), self.filter, frozenset(self.opened))

    def lacks(self, wanted: ListState) -> bool:
        """Whether rows must be built before it can show this."""
        there = all(map(self.view.holds, wanted.scroll.keys))
        return not there or self.filter != wanted.filter or self.opened != wanted.opened

    async def restore(self, wanted: ListState) -> None:
        """Build what another list showed."""
        self.opened = set(wanted.opened)
        await self.show_only(wanted.filter)

    # --- The filter -----------------------------------------------------------------------------------

    def _admits(self, facet: Facet, key: Key) -> bool:
        """Whether the filter has room for an entry."""
        found = self._verdicts.get(facet)
        if found is None:
            found = self._verdicts[facet] = self.filter.admits(facet)
        return found or (self._kept is not None and key in self._kept)

    def _keep_rows(self) -> None:
        """What is shown stays until another filter is chosen: a compaction takes away no row."""
        if self.filter.active:
            self._kept = {row_of(block.key) for block in self.view.blocks()}

    async def tally(self) -> Tally:
        """How many there are of what."""
        found, done = Tally(), 0
        while done < len(self):
            stop = min(done + _SLICE, len(self))
            found.counts.update(self.facets(done, stop))
            done = stop
            await asyncio.sleep(0)
        return found


def _entries_in(rows: Iterable[Block]) -> int:
    """How many entries have their rows among these blocks, and not what is open below one."""
    found = [row for row in rows if row.key[0] >= 0 and row.key == row_of(row.key)]
    shared = sum(isinstance(row, EntryRow | ItemRow) and row.caller is not None for row in found)
    return len(found) + shared


class HistorySheet(Sheet):
    """History: a row for every entry since the first."""

    what = "entries"
    empty = "Nothing has been said yet."

    def __init__(self, view: EntryList, cwd: str) -> None:
        super().__init__(view, cwd)
        self.last_change = -1
        """Index of the newest marker that changed the view."""
        self.new_from: int | None = None
        """Index from which on entries were not sent yet."""
        self._seen = 0
        self._markers: dict[Key, MarkerRow] = {}

    def __len__(self) -> int:
        return self._seen

    def row_index(self, index: int) -> int:
        """The entry whose row stands for this one."""
        return index if self.view.holds(row_key(index)) else row_index(self._projection, index)

    def _note(self, projection: Projection) -> None:
        self._projection = projection
        self._seen = len(projection.entries)
        self._scale = projection.scale
        self.last_change = newest_change(projection)

    def head(self, as_of: str) -> str:
        """`398 entries, system notes hidden`, or `398 entries, 41 shown: bash, failed` where filtered.
        `as_of` names a moment that has passed."""
        count = len(self._projection.entries)
        usual = f"as of {as_of}" if as_of else "system notes hidden" if count > 1 else ""
        return ", ".join(filter(None, (many(count, "entry", "entries"), self.shown_words or usual)))

    def foot(self, row: Key | None) -> tuple[str, str]:
        """What Enter does, and where the LLM view has the entry under the cursor."""
        if row is None:
            return "Enter opens", ""
        return self.enter_words(row), in_view(self._projection, row[0]).words

    def begin(self, projection: Projection) -> None:
        """Show a history from its end."""
        self._note(projection)
        self._begin()

    async def turn(self, projection: Projection, new_from: int | None) -> BuiltRows | None:
        """Build the rows of the history as it is at another moment, for `put` to show."""
        self._note(projection)
        self.new_from, self._kept = new_from, None
        self._markers.clear()
        return await self.made()

    def grow(self, projection: Projection) -> tuple[int, bool]:
        """Add the rows of new entries; mend the branch of a tool group that has grown.

        Returns how many came, and whether anything changed states or the view above its end."""
        fresh = projection.entries.outlines[self._seen :]
        start, self._seen = self._seen, len(projection.entries)
        changed = False
        grown: list[Block] = []
        for entry in fresh:
            if isinstance(entry, ViewMarker | Undo):
                self.last_change, changed = entry.index, True
            elif isinstance(entry, MessageOutline) and entry.type == "tool_result":
                siblings = projection.group(entry.index)[1:]
                at = siblings.index(entry.index)
                before = projection.outline(siblings[at - 1]) if len(siblings) > 1 else None
                if isinstance(before, MessageOutline) and before.index < fresh[0].index:
                    at = projection.count_up_to(before.index)
                    grown += self._rows_of(at - 1, at)
        if fresh:
            self.view.swap(grown)
            self.built += len(grown)
            self._add(start, fresh)
            self._drop_empty()
        if changed:
            self._relabel()
            self._keep_rows()
            self._changes += 1
        self._redraw_if_rescaled()
        return len(fresh), changed

    def _add(self, start: int, fresh: Sequence[Outline]) -> None:
        """Add the rows of new entries. An answer whose row is that of a new result loses its own."""
        for outline in fresh:
            caller = sharer(self._projection, outline.index)
            at = None if caller is None else self.view.index_of(row_key(caller))
            if caller is None or at is None:
                continue
            if row_key(caller) in self.opened:
                self.opened ^= {row_key(caller), row_key(outline.index)}
            shown = [self.view.block_at(row) for row in range(at, self.view.count)]
            self.shown -= _entries_in(shown)
            self.view.replace_from(row_key(caller), self._counted(self._projection.count_up_to(caller) - 1))
            return
        self.view.append(*self._counted(start))

    def _relabel(self) -> None:
        """Rules whose words have changed: a compaction that was undone says so."""
        changed: list[Block] = []
        for key, row in self._markers.items():
            if isinstance(row.marker, CompactionOutline):
                label = marker_label(self._projection, row.marker)
                if label != row.label:
                    changed.append(MarkerRow(key, row.projection, row.marker, label))
        self._remember(changed)
        self.view.swap(changed)

    def _remember(self, rows: Sequence[Block]) -> None:
        self._markers.update((row.key, row) for row in rows if isinstance(row, MarkerRow))

    def forget(self) -> None:
        super().forget()
        self._markers.clear()

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        outlines = self._projection.entries.outlines[start:stop]
        return (facet_of(self._projection, outline, self.new_from) for outline in outlines)

    def _wanted(self, outline: Outline) -> bool:
        facet = facet_of(self._projection, outline, self.new_from)
        return self._admits(facet, row_key(outline.index))

    def _rows_of(self, start: int, stop: int) -> list[Block]:
        return history_rows(self._projection, start=start, stop=stop, cwd=self._cwd, wanted=self._wanted)

    def _rows(self, start: int, stop: int) -> list[Block]:
        rows = self._rows_of(start, stop)
        self._remember(rows)
        if not self.opened:
            return rows
        return [
            block
            for row in rows
            for block in (row, *(opened_body(self._projection, row) if row.key in self.opened else ()))
        ]


class ViewSheet(Sheet):
    """LLM view: a row for every item the next request sends."""

    what = "items"
    empty = "Nothing is sent yet."

    def __init__(self, view: EntryList, overhead: int, cwd: str) -> None:
        super().__init__(view, cwd)
        self.overhead = overhead
        self.names: tuple[str, ...] = ()
        """Names of the file whose lines in summaries are marked."""
        self.news: News | None = None
        """What the last request did not send."""
        self.divider: tuple[int, str] | None = None
        self._items: list[ViewItem] = []
        self._requests = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def new_from(self) -> int | None:
        """Index from which on items were not sent yet."""
        return self.news.first_index if self.news is not None else None

    @property
    def request_words(self) -> str:
        """How the next request is called."""
        return f"request {self._requests + 1}" if self._requests else "next request"

    def head(self, size: Size, as_of: str) -> tuple[str, str]:
        """(`24 items ~28.6k`, `2 LLM view: request 85`). `as_of` names a moment that has passed."""
        items = many(len(self._projection.view), "item")
        tokens = numbers.tokens(size.tokens, estimated=size.estimated)
        named = as_of if as_of.startswith("request") else self.request_words
        count = f"{items}, {self.shown_words}" if self.filter.active else f"{items} {tokens}"
        return count, f"2 LLM view: {named}"

    def foot(self, row: Key | None, size: Size, *, active: bool, from_history: bool) -> tuple[str, str]:
        """As for History; without the focus, what the numbers mean, and how much of `size`, the whole request
        in the panel's head, has not changed."""
        found = in_view(self._projection, row[0]) if row is not None and row[0] >= 0 else None
        if active and row == TOOLS_KEY:
            return "", "sent with every request, no entry"
        if active:
            if found is None or row is None or found.key is None:
                return self.enter_words(row), "" if found is None else found.words
            return self.enter_words(row), f"{found.words.rpartition('→ ')[2]} → entry {row[0]}"
        if found is not None and from_history and found.key is None:
            return "", found.words
        if self.divider is None:
            return "tokens ~ estimated", ""
        added = sum(item.tokens for item in self._items[self.divider[0] :]) * self._projection.scale
        before = f"request {self._requests}" if self._requests else "the last request"
        same = numbers.tokens(max(size.tokens - round(added), 0), estimated=True)
        return "tokens ~ estimated", f"first {same} as in {before}"

    def begin(self, projection: Projection, last_change: int) -> None:
        """Show a view from its end."""
        self._note(projection, last_change)
        self._begin()

    async def turn(self, projection: Projection) -> BuiltRows | None:
        """Build the rows of the view at another moment, for `put` to show."""
        self._note(projection, newest_change(projection))
        self._scale = projection.scale
        self._kept = None
        return await self.made()

    def _note(self, projection: Projection, last_change: int) -> None:
        """What is sent, what of it is new, and how the rule above that is called."""
        self._projection = projection
        self._items = list(projection.view)
        self._requests = count = len(projection.requests)
        self.news = news_of(projection, last_change)
        self.divider = None
        if self.news is not None and self.news.position:
            before, after = f"request {count}", f"request {count + 1}"
            if not count:
                before, after = "the last request", "the next"
            self.divider = (self.news.position, f"as in {before} · below: new in {after}")

    def summaries(self) -> Iterator[ViewItem]:
        """The items that compactions wrote; they stand near the start."""
        return (item for item in self._items if item.written)

    def update(self, projection: Projection, last_change: int, compacted: bool) -> None:
        """Show the view as it is: where its head changed all of it, else what follows the items shared with
        before."""
        old, old_divider = self._items, self.divider
        self._note(projection, last_change)
        least = min(len(old), len(self._items))
        # Identity decides: items are never changed, only replaced.
        same = next((at for at in range(least) if old[at] is not self._items[at]), least)
        if compacted and same < len(old):
            self._keep_rows()
            self._changes += 1
            if self.opened:
                self.opened.intersection_update(row_key(*item.key) for item in self._items)
            self._from_end(_SLICE)
        else:
            if old_divider != self.divider:
                same = min(same, *(each[0] for each in (old_divider, self.divider) if each is not None))
            if 0 < same < len(self._items):  # an answer whose first result is new shares its row
                same -= sharer(projection, self._items[same].index) == self._items[same - 1].index
            if same < max(len(old), len(self._items)):
                self._replace_from(same, old[same:], old_divider)
        self._redraw_if_rescaled()

    def _replace_from(
        self, position: int, old: Sequence[ViewItem], old_divider: tuple[int, str] | None
    ) -> None:
        """Replace the rows of `old` items, from this position to the end."""
        self._changes += 1
        if position < self.missing:
            return  # these rows are still to come, and will be built from the view as it is then
        shown = [row for item in old if self.view.holds(row := row_key(*item.key))]
        if old_divider is not None and old_divider[0] == position:
            key = DIVIDER_KEY
        elif position == 0 and self.overhead:
            key = TOOLS_KEY
        else:
            key = shown[0] if shown else _NO_ROW
        self.shown -= _entries_in(block for row in shown if (block := self.view.block(row)) is not None)
        self.view.replace_from(key, self._counted(position))
        self._drop_empty()

    def _closed_body(self, block: Block) -> list[Block]:
        if not isinstance(block, ItemRow):
            return []
        return list(item_rows(self.source, block.item, (), self.names))[1:]

    def forget(self) -> None:
        super().forget()
        self._items = []

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        return (facet_of_item(item, self.new_from) for item in self._items[start:stop])

    def _wanted(self, item: ViewItem) -> bool:
        return self._admits(facet_of_item(item, self.new_from), row_key(*item.key))

    def _rows(self, start: int, stop: int) -> list[Block]:
        return view_rows(
            self._projection,
            0 if self.filter.active else self.overhead,
            items=self._items,
            start=start,
            stop=stop,
            cwd=self._cwd,
            opened=self.opened,
            names=self.names,
            divider=self.divider,
            wanted=self._wanted,
        )


# --- What is new ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class News:
    """What the next request sends that the last one did not."""

    first_index: int
    """Entries of the view from this index on are new; the answer of the last request is the first."""
    position: int | None
    """Where in the view they start; None where a marker has changed what stands above them since."""


def news_of(projection: Projection, last_change: int) -> News | None:
    """None before the first answer. `last_change` is the index of the newest view-changing marker, or -1."""
    for position in range(len(projection.view) - 1, -1, -1):
        item = projection.view[position]
        if isinstance(item.message, AssistantMessage):
            return News(item.index, position if last_change < item.index else None)
    return None


def newest_change(projection: Projection) -> int:
    """Index of the newest entry that may have changed states or the view above its end; -1 without any."""
    newest = projection.newest_change
    return -1 if newest is None else newest.index
