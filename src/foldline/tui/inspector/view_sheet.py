"""LLM view: a row for every item the next request sends, kept up to date by what has changed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.tui.blocks import Block, Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filters import Facet, facet_of_item
from foldline.tui.inspector.places import DIVIDER_KEY, TOOLS_KEY, row_key
from foldline.tui.inspector.rows import ItemRow, item_rows, view_rows
from foldline.tui.inspector.sheet import SLICE, Made, Sheet
from foldline.tui.inspector.timeline import News, common_prefix, newest_change, news_of

_NOWHERE: Final[Key] = (-3, 0)
"""The key of no row."""


class ViewSheet(Sheet):
    """LLM view: a row for every item the next request sends."""

    what = "items"
    empty = "Nothing is sent yet."

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
        self._scale = 1.0

    def begin(self, projection: Projection, last_change: int) -> None:
        """Show a view from its end."""
        self._projection = projection
        self._note(last_change)
        self._items = list(projection.view)
        self._begin()

    async def turn(self, projection: Projection) -> Made | None:
        """Make the rows of the view at another moment, for `put` to show."""
        self._projection = projection
        self._note(newest_change(projection))
        self._items = list(projection.view)
        self._scale = projection.calibration.scale(projection.model)
        self._kept = None
        return await self._made()

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
            self._keep_rows()
            self._changes += 1
            if self.opened:
                self.opened.intersection_update(row_key(*item.key) for item in self._items)
            self._from_end(SLICE)
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
        self._changes += 1
        if position < self.missing:
            return  # these rows are still to come, and will be built from the view as it is then
        if old_divider is not None and old_divider[0] == position:
            key = DIVIDER_KEY
        elif position == 0 and self.overhead:
            key = TOOLS_KEY
        else:
            key = self._first_shown(old[position:])
        self.shown -= sum(self.view.index_of(row_key(*item.key)) is not None for item in old[position:])
        self.view.replace_from(key, self._counted(position))
        self._say_no_more()

    def _first_shown(self, items: Sequence[ViewItem]) -> Key:
        """The row of the first of these items that has one; else one that there is not: what replaces it
        goes to the end."""
        rows = (row_key(*item.key) for item in items)
        return next((row for row in rows if self.view.index_of(row) is not None), _NOWHERE)

    def _note(self, last_change: int) -> None:
        """What is new, and how the rule above it is called."""
        projection = self._projection
        self.news = news_of(projection, last_change)
        self._requests = len(projection.requests)
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

    def added_tokens(self) -> int | None:
        """Estimate, before calibration, of what the next request adds to the last; None where a fold came
        between."""
        if self.divider is None:
            return None
        return sum(item.tokens for item in self._items[self.divider[0] :])

    def forget(self) -> None:
        super().forget()
        self._items = []

    def __len__(self) -> int:
        return len(self._items)

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        new_from = self.news.first_index if self.news is not None else None
        return (facet_of_item(item, new_from) for item in self._items[start:stop])

    def _wanted(self, item: ViewItem) -> bool:
        new_from = self.news.first_index if self.news is not None else None
        return self._admits(facet_of_item(item, new_from), row_key(*item.key))

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
