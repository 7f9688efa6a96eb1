"""The two lists of entries: filled from their ends, in slices, and kept up to date by what has changed."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context.outline import MessageOutline, RequestOutline
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.protocol import Compaction
from foldline.tui.blocks import Block, Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.growth import News, changes_view, common_prefix, news_of
from foldline.tui.inspector.places import DIVIDER_KEY, TOOLS_KEY, row_key, row_of
from foldline.tui.inspector.rows import (
    EntryRow,
    ItemRow,
    MarkerRow,
    Source,
    history_rows,
    item_rows,
    marker_label,
    opened_body,
    view_rows,
)

_AT_ONCE: Final = 1_000
"""Entries whose rows are there when the panel opens: the newest."""
_SLICE: Final = 4_000
"""Rows built between two breaths: about 5 ms."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What a refresh found."""

    entries: int
    folded: bool
    """Whether anything changed fates or the view above its end."""


class _Sheet:
    """What both lists share."""

    def __init__(self, view: EntryView, cwd: str) -> None:
        self.view = view
        self.opened: set[Key] = set()
        """Rows that show all they hold."""
        self.missing = 0
        """Entries or items at the start whose rows are still to come."""
        self.built = 0
        """Rows built so far: what tests count."""
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
        below = self.below(row)
        if row not in self.opened:
            body = opened_body(self._projection, block)
            if body:
                self.opened.add(row)
                view.insert_after(row, *body)
                view.remove_blocks(below)
            return
        self.opened.discard(row)
        view.cursor_to(row, quiet=True, scroll=False)
        view.insert_after(row, *self._closed(block))
        view.remove_blocks(below)
        view.scroll_to_key(row)

    def _closed(self, block: Block) -> list[Block]:
        """What a closed row shows below it."""
        return []

    def _rows(self, start: int, stop: int | None) -> list[Block]:
        raise NotImplementedError

    def _counted(self, start: int, stop: int | None = None) -> list[Block]:
        rows = self._rows(start, stop)
        self.built += len(rows)
        return rows

    def _begin(self, count: int) -> None:
        self.opened.clear()
        self.missing = max(count - _AT_ONCE, 0)
        self.view.set_blocks(self._counted(self.missing))

    async def fill(self) -> None:
        """Build what is missing in slices, then put it above what is there; nothing on screen moves."""
        projection = self._projection
        while self.missing and projection is self._projection:
            wanted = self.missing
            rows: list[Block] = []
            for start in range(0, wanted, _SLICE):
                rows += self._counted(start, min(start + _SLICE, wanted))
                await asyncio.sleep(0)
            if projection is self._projection and self.missing == wanted:
                self.missing = 0
                self.view.set_blocks([*rows, *self.view.blocks()])


class HistorySheet(_Sheet):
    """History: a row for every entry since the first."""

    def __init__(self, view: EntryView, cwd: str) -> None:
        super().__init__(view, cwd)
        self.last_change = -1
        """Index of the newest marker that changed the view."""
        self._seen = 0
        self._scale = 1.0
        self._markers: dict[Key, MarkerRow] = {}

    def begin(self, projection: Projection) -> None:
        """Show a history from its end."""
        self._projection = projection
        self._seen = len(projection.entries)
        self._scale = projection.calibration.scale(projection.model)
        self.last_change = max((o.index for o in projection.entries.outlines if changes_view(o)), default=-1)
        self._begin(self._seen)

    def grow(self, projection: Projection) -> Growth:
        """Add the rows of new entries; mend the branch of a tool group that has grown."""
        fresh = projection.entries.outlines[self._seen :]
        start, self._seen = self._seen, len(projection.entries)
        folded = False
        grown: list[Block] = []
        for entry in fresh:
            if changes_view(entry):
                self.last_change, folded = entry.index, True
            if isinstance(entry, MessageOutline) and entry.type == "tool_result":
                siblings = projection.group(entry.index)[1:]
                before = (
                    projection.outline(siblings[siblings.index(entry.index) - 1])
                    if len(siblings) > 1
                    else None
                )
                if isinstance(before, MessageOutline) and before.index < fresh[0].index:
                    grown.append(EntryRow(row_key(before.index), self.source, before))
        if fresh:
            self.view.swap(grown)
            self.built += len(grown)
            self.view.append(*self._counted(start))
        if folded:
            self._relabel()
        scale = projection.calibration.scale(projection.model)
        if scale != self._scale:  # all numbers that are estimates are others now
            self._scale = scale
            self.view.redraw()
        return Growth(len(fresh), folded)

    def _relabel(self) -> None:
        """Rules whose words have changed: a fold that was undone says so."""
        changed: list[Block] = []
        for key, row in self._markers.items():
            if isinstance(row.marker, Compaction):
                label = marker_label(self._projection, row.marker)
                if label != row.label:
                    changed.append(MarkerRow(key, row.marker, label))
        self._remember(changed)
        self.view.swap(changed)

    def _remember(self, rows: Sequence[Block]) -> None:
        self._markers.update((row.key, row) for row in rows if isinstance(row, MarkerRow))

    def _rows(self, start: int, stop: int | None) -> list[Block]:
        rows = history_rows(self._projection, start=start, stop=stop, cwd=self._cwd)
        self._remember(rows)
        return rows


class ViewSheet(_Sheet):
    """LLM view: a row for every item the next request sends."""

    def __init__(self, view: EntryView, overhead: int, cwd: str) -> None:
        super().__init__(view, cwd)
        self.overhead = overhead
        self.names: tuple[str, ...] = ()
        """Names of the file whose lines in summaries are marked."""
        self.news: News | None = None
        """What the last request did not send."""
        self.divider: tuple[int, str] | None = None
        self._items: list[ViewItem] = []
        self._requests = 0
        self._counted_entries = 0
        self._scale = 1.0

    def begin(self, projection: Projection, last_change: int) -> None:
        """Show a view from its end."""
        self._projection = projection
        self._requests = self._counted_entries = 0
        self._note(last_change)
        self._items = list(projection.view)
        self._begin(len(self._items))

    def summaries(self) -> Iterator[ViewItem]:
        """The items that compactions wrote; they stand near the start."""
        for item in self._items:
            if item.written:
                yield item

    def update(self, projection: Projection, last_change: int, folded: bool) -> None:
        """Show the view as it is: after a fold all of it, else what follows the items shared with before."""
        old, old_divider = self._items, self.divider
        self._note(last_change)
        self._items = list(projection.view)
        scale = projection.calibration.scale(projection.model)
        grown = not folded and old and len(self._items) >= len(old) and self._items[len(old) - 1] is old[-1]
        same = len(old) if grown else common_prefix(old, self._items)
        if folded and same < len(old):
            self.missing = 0
            self.opened.intersection_update(row_key(*item.key) for item in self._items)
            self.view.set_blocks(self._counted(0))
        else:
            if old_divider != self.divider:
                ends = [each[0] for each in (old_divider, self.divider) if each is not None]
                same = min(same, *ends)
            if same < max(len(old), len(self._items)):
                self._replace_from(same, old, old_divider)
        if scale != self._scale:
            self._scale = scale
            self.view.redraw()

    def _replace_from(
        self, position: int, old: Sequence[ViewItem], old_divider: tuple[int, str] | None
    ) -> None:
        if position < self.missing:
            return  # these rows are still to come, and will be built from the view as it is then
        if old_divider is not None and old_divider[0] == position:
            key = DIVIDER_KEY
        elif position < len(old):
            key = row_key(*old[position].key)
        else:
            key = (-3, 0)  # nothing to replace: the rows go to the end
        if position == 0 and self.overhead:
            key = TOOLS_KEY
        self.view.replace_from(key, self._counted(position))

    def _note(self, last_change: int) -> None:
        """What is new, and how the rule above it is called."""
        projection = self._projection
        self.news = news_of(projection, last_change)
        for outline in projection.entries.outlines[self._counted_entries :]:
            self._requests += isinstance(outline, RequestOutline)
        self._counted_entries = len(projection.entries)
        self.divider = None
        if self.news is not None and self.news.position:
            count = self._requests
            before, after = (
                (f"request {count}", f"request {count + 1}") if count else ("the last request", "the next")
            )
            self.divider = (self.news.position, f"as in {before} · below: new in {after}")

    def _closed(self, block: Block) -> list[Block]:
        if not isinstance(block, ItemRow):
            return []
        return list(item_rows(self.source, block.item, (), self.names))[1:]

    @property
    def request_words(self) -> str:
        """How the next request is called."""
        return f"request {self._requests + 1}" if self._requests else "next request"

    def unchanged_tokens(self) -> int | None:
        """Estimate, before calibration, of what the next request shares with the last; None where a fold
        came between."""
        if self.divider is None:
            return None
        return self._projection.tokens - sum(item.tokens for item in self._items[self.divider[0] :])

    def _rows(self, start: int, stop: int | None) -> list[Block]:
        return view_rows(
            self._projection,
            self.overhead,
            start=start,
            stop=stop,
            cwd=self._cwd,
            opened=self.opened,
            names=self.names,
            divider=self.divider,
        )
