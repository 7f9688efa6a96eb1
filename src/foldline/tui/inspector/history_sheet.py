"""History: a row for every entry since the first, kept up to date by what has changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.context.outline import CompactionOutline, MessageOutline, Outline
from foldline.context.projection import Projection
from foldline.tui.blocks import Block, Key
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filters import Facet, facet_of, facets
from foldline.tui.inspector.markers import MarkerRow, marker_label
from foldline.tui.inspector.places import row_key
from foldline.tui.inspector.rows import EntryRow, history_rows, opened_body
from foldline.tui.inspector.sheet import Made, Sheet
from foldline.tui.inspector.timeline import changes_view, newest_change


@dataclass(frozen=True, slots=True)
class Growth:
    """What a refresh found."""

    entries: int
    folded: bool
    """Whether anything changed fates or the view above its end."""


class HistorySheet(Sheet):
    """History: a row for every entry since the first."""

    what = "entries"
    empty = "Nothing has been said yet."

    def __init__(self, view: EntryView, cwd: str) -> None:
        super().__init__(view, cwd)
        self.last_change = -1
        """Index of the newest marker that changed the view."""
        self.new_from: int | None = None
        """Index from which on entries were not sent yet."""
        self._seen = 0
        self._scale = 1.0
        self._markers: dict[Key, MarkerRow] = {}

    def begin(self, projection: Projection) -> None:
        """Show a history from its end."""
        self._projection = projection
        self._seen = len(projection.entries)
        self._scale = projection.calibration.scale(projection.model)
        self.last_change = newest_change(projection)
        self._begin()

    async def turn(self, projection: Projection, new_from: int | None) -> Made | None:
        """Make the rows of the history as it is at another moment, for `put` to show."""
        self._projection, self.new_from = projection, new_from
        self._seen = len(projection.entries)
        self._scale = projection.calibration.scale(projection.model)
        self.last_change = newest_change(projection)
        self._kept = None
        self._markers.clear()
        return await self._made()

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
            self._say_no_more()
        if folded:
            self._relabel()
            self._keep_rows()
            self._changes += 1
        scale = projection.calibration.scale(projection.model)
        if scale != self._scale:  # all numbers that are estimates are others now
            self._scale = scale
            self.view.redraw()
        return Growth(len(fresh), folded)

    def _relabel(self) -> None:
        """Rules whose words have changed: a fold that was undone says so."""
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

    def __len__(self) -> int:
        return self._seen

    def facets(self, start: int, stop: int) -> Iterable[Facet]:
        return facets(self._projection, start, stop, self.new_from)

    def _wanted(self, outline: Outline) -> bool:
        facet = facet_of(self._projection, outline, self.new_from)
        return self._admits(facet, row_key(outline.index))

    def _rows(self, start: int, stop: int) -> list[Block]:
        rows = history_rows(self._projection, start=start, stop=stop, cwd=self._cwd, wanted=self._wanted)
        self._remember(rows)
        if not self.opened:
            return rows
        return [block for row in rows for block in (row, *self._opened_below(row))]

    def _opened_below(self, row: Block) -> Sequence[Block]:
        return opened_body(self._projection, row) if row.key in self.opened else ()
