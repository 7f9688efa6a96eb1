"""History, LLM view and Files of a projection, and the one place all three show."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from foldline.context.projection import Projection
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.inspector.files import FileBlock, FilesPanel, file_table, names_of
from foldline.tui.inspector.ledger_uses import LedgerUses
from foldline.tui.inspector.sheets import HistorySheet, ViewSheet
from foldline.tui.panels.bodies import LedgerBlock
from foldline.tui.panels.entry_list import EntryList, ViewAnchor, row_key, row_of
from foldline.tui.panels.entry_rows import (
    SummaryPreview,
    gutter_width,
    history_gutter,
    summary_preview,
    view_gutter,
    with_tick,
)
from foldline.tui.panels.frame import Panel
from foldline.tui.panels.states import compaction_of, first_compacted, in_view, is_gone, row_index
from foldline.tui.widgets.lines import Row

HISTORY, VIEW, FILES, TIMELINE = 0, 1, 2, 3
"""The panels by the order of their keys."""
_MANY: Final = 2_000
"""Touches of files from which on the list of another moment is made in a thread."""

WIDE: Final = 150
"""Columns from which three panels stand side by side."""
MEDIUM: Final = 90
"""Columns from which two do."""


def panels_at(width: int, active: int, *, alone: bool) -> frozenset[int]:
    """The panels that show; `alone`: one at a time, however wide it is."""
    if alone or width < MEDIUM:
        return frozenset({active})
    if width >= WIDE:
        return frozenset({HISTORY, VIEW, FILES})
    return frozenset({HISTORY, FILES} if active == FILES else {HISTORY, VIEW})


def files_width(width: int) -> int:
    """Cells of the Files panel beside others: a fifth of the screen, of two panels two fifths."""
    return max(36, width // 5) if width >= WIDE else width * 2 // 5


@dataclass(frozen=True, slots=True)
class Link:
    """The one place all panels show: an entry, and the message a compaction wrote (nth)."""

    key: Key
    source: int
    """The panel it was chosen in."""

    @property
    def index(self) -> int:
        return self.key[0]


def _column_names(what: str, gutter: int, width: int) -> list[Span]:
    """The names of the columns of a list of entries."""
    left, right = f"state{'no.':>{gutter - 6}} {what}", "tokens "
    if len(left) + len(right) + 1 > width:
        right = ""
    return [(left + " " * max(width - len(left) - len(right), 0) + right, "muted")]


class LinkedLists:
    """Fills the three lists. Where the cursor is in one, the others show the same entry."""

    def __init__(
        self,
        projection: Projection,
        cwd: str,
        overhead: int,
        changed: Callable[[], None],
        uses: LedgerUses,
    ) -> None:
        """`changed` is called when rows were built or counted later than the rest."""
        self.projection = projection
        self.uses = uses
        self.cwd = cwd
        self.link: Link | None = None
        self.picked: set[int] = set()
        """Entries that the edit keys act on, where there are any."""
        self._names: tuple[str, ...] = ()
        self._came_from: int | None = None
        """The entry from which the reader went to its compaction."""
        width = gutter_width(projection.last_index)
        history = EntryList(
            id="history", gutter=self._history_gutter, gutter_width=width, faded=self._faded, follow=True
        )
        view = EntryList(id="view", gutter=self._view_gutter, gutter_width=width, follow=True)
        self.history = HistorySheet(history, cwd)
        self.view = ViewSheet(view, overhead, cwd)
        self.files = FilesPanel(cwd, changed)
        self._columns = (Row("entry-columns"), Row("item-columns"))
        self.panels = (
            Panel(history, title="1 History", above=self._columns[0]),
            Panel(view, title="2 LLM view", above=self._columns[1]),
            self.files,
        )
        self._anchors = (ViewAnchor(history), ViewAnchor(view))

    @property
    def sheets(self) -> tuple[HistorySheet, ViewSheet]:
        return self.history, self.view

    # --- Content --------------------------------------------------------------------------------------

    def begin(self, projection: Projection) -> None:
        """Show another history: the ends at once; what is above them `fill` builds in slices."""
        self.projection = projection
        self.history.begin(projection)
        self.view.begin(projection, self.history.last_change)
        self.history.new_from = self.view.new_from
        self.files.refresh_from(projection, changed=True)
        self._widen()

    def grow(self, active: int) -> tuple[int, bool]:
        """Show what has come since: growth touches only the tails, a compaction repaints gutters in place.

        Returns how many entries came, and whether they changed the view above its end."""
        projection = self.projection
        came, changed = self.history.grow(projection)
        if came:
            self._update_view(changed)
            self._widen()
            if changed:
                for sheet in self.sheets:
                    sheet.view.refresh()
            self.history.new_from = self.view.new_from
            self.files.refresh_from(projection, changed=changed)
            self.relink(active, scroll=False)
        return came, changed

    def _update_view(self, changed: bool) -> None:
        """A cursor whose item was compacted goes to what stands for it, not to a neighbour."""
        view = self.view.view
        before = view.cursor
        self.view.update(self.projection, self.history.last_change, changed)
        if before is not None and view.cursor != before and before[0] >= 0:
            key = in_view(self.projection, before[0]).key
            if view.holds(key):
                view.cursor_to(key, quiet=True, scroll=False)
                self.link = Link(key, VIEW)

    async def turn(self, then: Projection) -> None:
        """Show the history as it was, or is."""
        view = await self.view.turn(then)
        history = await self.history.turn(then, self.view.new_from)
        many = len(then.touches) >= _MANY
        table = await asyncio.to_thread(file_table, then, self.cwd) if many else file_table(then, self.cwd)
        for anchor in self._anchors:
            anchor.before()
        self.projection = then
        for sheet, made in ((self.view, view), (self.history, history)):
            if made is not None:
                sheet.put(made)
        for anchor in self._anchors:
            anchor.after()
        self.files.put(then, table)
        self._widen()
        for sheet in self.sheets:
            sheet.view.lay_out()

    def _widen(self) -> None:
        width = gutter_width(self.projection.last_index)
        for columns, what, sheet in zip(self._columns, ("entry", "item"), self.sheets, strict=True):
            sheet.view.widen_gutter(width)
            columns.show(partial(_column_names, what, width))

    def pick(self, picked: set[int]) -> None:
        """Mark these entries for the edit keys, and no others."""
        self.picked = picked
        for sheet in self.sheets:
            sheet.view.refresh()

    # --- The link -------------------------------------------------------------------------------------

    def link_here(self, active: int) -> None:
        """The cursor of the active panel is the place now."""
        view = self.panels[active].view
        key = view.cursor
        if key is None:
            return
        if active == FILES:
            block = view.block(key)
            self.files.file = block if isinstance(block, FileBlock) else self.files.file
        else:
            self.link = Link(row_of(key), active)
            self.relink(active, scroll=True)

    def relink(self, active: int, *, scroll: bool) -> None:
        """Show the link in the panels that do not have the cursor."""
        for number, panel in enumerate(self.panels):
            if number != active:
                key = self.counterpart(number)
                if scroll:
                    panel.view.show_counterpart(key)
                else:
                    panel.view.counterpart = key
        path = self.files.path_of(self.link.index) if self.link is not None else None
        if path is not None and active != FILES:
            self.files.file = self.files.table.by_path.get(path)
        self._mark_names(names_of(path, self.cwd) if path is not None else ())

    def jump_to_touch(self, file: FileBlock, active: int) -> None:
        """History to the newest touch of a file; from there to an older one; round to the newest."""
        touches, link = file.touches, self.link
        at = touches.index(link.index) if link and link.index in touches else 0
        again = link is None or link.source == FILES
        self.files.file = file
        self.link = Link(row_key(touches[at - 1] if again else touches[-1]), FILES)
        self.relink(active, scroll=True)

    def beside_compaction(self, index: int) -> int | None:
        """The compaction that took an entry; of a compaction the entry one came from, else the first that it
        stands for. None where there is none."""
        there = compaction_of(self.projection, index)
        if there != index:
            self._came_from = index
            return there
        came = self._came_from
        if came is not None and came != index and compaction_of(self.projection, came) == index:
            return came
        return first_compacted(self.projection, index)

    def counterpart(self, panel: int) -> Key | None:
        """The row of a panel that shows the link; None where it has none."""
        link = self.link
        if link is None or link.index < 0:
            return None
        view = self.panels[panel].view
        if panel == FILES:
            key = self.files.row_of(link.index)
        elif panel == HISTORY:
            key = row_key(link.index)
        elif link.source == VIEW and view.holds(link.key):
            key = link.key
        else:
            key = in_view(self.projection, link.index).key
        if key is not None and panel != FILES and not view.holds(key):
            key = row_key(row_index(self.projection, key[0]))
        return key if view.holds(key) else None

    def _mark_names(self, names: tuple[str, ...]) -> None:
        """Mark the lines of closed summaries that name the file of the place."""
        if names == self._names:
            return
        self._names = self.view.names = names
        view = self.view.view
        for item in self.view.summaries():
            preview = summary_preview(row_key(*item.key), item.message.text, names)
            shown = view.block(preview.key)
            if not isinstance(shown, SummaryPreview):
                continue
            if (shown.lines, shown.marked) != (preview.lines, preview.marked):
                view.replace(preview.key, preview)

    # --- Gutters --------------------------------------------------------------------------------------

    def _history_gutter(self, key: Key, line: int) -> Spans:
        width = gutter_width(self.projection.last_index)
        spans = history_gutter(self.projection, self.view.new_from, key, line, width)
        return self._marked(self.history.view, spans, key, line)

    def _view_gutter(self, key: Key, line: int) -> Spans:
        view = self.view.view
        block = view.block(key)
        if not isinstance(block, SummaryPreview):
            block = view.block(row_of(key))
        width = gutter_width(self.projection.last_index)
        spans = view_gutter(block, self.view.new_from, key, line, width)
        return self._marked(view, spans, key, line)

    def _marked(self, view: EntryList, spans: Spans, key: Key, line: int) -> Spans:
        """The gutter with a tick: of a row that was picked, or a line of a ledger that the model has used."""
        if line:
            return spans
        if key == row_of(key):
            return with_tick(spans) if key[0] in self.picked else spans
        block = view.block(key)
        used = isinstance(block, LedgerBlock) and block.line.id in self.uses.known(key[0]).used
        return (*spans, ("✓", "live bold")) if used else spans

    def _faded(self, key: Key) -> bool:
        return key[0] >= 0 and is_gone(self.projection, key[0])
