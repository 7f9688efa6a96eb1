"""The lists History, LLM view and Files, and the entry selected in all of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from foldline.tui.blocks.block import Key
from foldline.tui.browser.draft.rows import ProposedView
from foldline.tui.browser.inspector.compare import ViewDifference
from foldline.tui.browser.inspector.files import (
    FileBlock,
    FilesPanel,
    file_table,
    names_of,
)
from foldline.tui.browser.inspector.ledger_uses import LedgerUses
from foldline.tui.browser.inspector.tables import HistoryTable, ViewTable
from foldline.tui.browser.panels.bodies import LedgerBlock
from foldline.tui.browser.panels.entry_list import (
    EntryList,
    ViewAnchor,
    row_key,
    row_of,
)
from foldline.tui.browser.panels.entry_rows import SummaryPreview, summary_preview
from foldline.tui.browser.panels.frame import Panel
from foldline.tui.browser.panels.gutters import (
    gutter_width,
    history_gutter,
    view_gutter,
    with_tick,
)
from foldline.tui.browser.panels.states import (
    compaction_of,
    first_compacted,
    in_view,
    is_gone,
    row_index,
)
from foldline.tui.look.cells import RowPiece, Span, Spans, piece, row
from foldline.tui.look.fates import gutter_sign, letter
from foldline.tui.look.lines import LineWidget
from foldline.view.items import FateKind
from foldline.view.projection import Projection

HISTORY: Final = 0
VIEW: Final = 1
FILES: Final = 2
"""Numbers of the panels, starting at `HISTORY`, in the order of the keys that focus them."""
_MANY: Final = 2_000
"""If an earlier state has more file accesses than this, its files are counted in a thread."""

WIDE: Final = 150
"""Minimum width, in columns, for three panels side by side."""
MEDIUM: Final = 90
"""Minimum width, in columns, for two panels."""


def panels_at(width: int, active: int, *, alone: bool) -> tuple[int, ...]:
    """Return the panels to show at this width; only the active one if `alone`."""
    if alone or width < MEDIUM:
        return (active,)
    if width >= WIDE:
        return (HISTORY, VIEW, FILES)
    return (HISTORY, FILES if active == FILES else VIEW)


def files_width(width: int) -> int:
    """Return the width of the Files panel.

    This is a fifth of the width beside two panels, or two fifths beside one.
    """
    return max(36, width // 5) if width >= WIDE else width * 2 // 5


@dataclass(frozen=True, slots=True)
class Link:
    """The entry that all panels show as selected.

    `key` also distinguishes the summaries of a compaction.
    """

    key: Key
    source: int
    """The panel in which the entry was selected."""

    @property
    def index(self) -> int:
        return self.key[0]


def _column_names(what: str, gutter: int, width: int) -> list[Span]:
    """Return the header row of a list, with its column names."""
    left = f"state{'no.':>{gutter - 6}} {what}"
    right = "tokens "
    if len(left) + len(right) + 1 > width:
        right = ""
    gap = max(width - len(left) - len(right), 0)
    return [(left + " " * gap + right, "muted")]


_LEGEND: Final[tuple[FateKind, ...]] = ("live", "clipped", "hidden", "summarised")


def legend(width: int) -> list[Span]:
    """Return the legend of the state letters and gutter symbols."""
    pieces = [
        RowPiece((letter(kind), gutter_sign(kind), (f" {kind}", "muted")), gap=2)
        for kind in _LEGEND
    ]
    return row([*pieces, piece("T R X D gone", "muted", gap=2)], [], width)


class LinkedLists:
    """Fills the three lists.

    The entry at the cursor of one list is also marked in the other two.
    """

    def __init__(
        self,
        projection: Projection,
        cwd: str,
        overhead: int,
        changed: Callable[[], None],
        uses: LedgerUses,
    ) -> None:
        """Create empty lists.

        Args:
            overhead: estimated size of the tool schemas, in tokens.
            changed: called after accesses have been counted in a thread.
            uses: finds the used ledger lines.
        """
        self.projection = projection
        self.uses = uses
        self.cwd = cwd
        self.link: Link | None = None
        self.picked: set[int] = set()
        """Marked entries. The edit keys act on them."""
        self._names: tuple[str, ...] = ()
        self._jumped_from: int | None = None
        """The entry that was selected when the user last jumped to its compaction."""
        width = gutter_width(projection.last_index)
        history = EntryList(
            id="history",
            gutter=self._history_gutter,
            gutter_width=width,
            faded=self._faded,
            follow=True,
        )
        view = EntryList(
            id="view",
            gutter=self._view_gutter,
            gutter_width=width,
            faded=self._item_faded,
            follow=True,
        )
        self.history = HistoryTable(history, cwd)
        self.view = ViewTable(view, overhead, cwd)
        self.files = FilesPanel(cwd, changed)
        self._columns = (LineWidget("entry-columns"), LineWidget("item-columns"))
        self.panels = (
            Panel(history, title="1 History", above=self._columns[0]),
            Panel(view, title="2 LLM view", above=self._columns[1]),
            self.files,
        )
        self._anchors = (ViewAnchor(history), ViewAnchor(view))

    @property
    def tables(self) -> tuple[HistoryTable, ViewTable]:
        return self.history, self.view

    # --- Content --------------------------------------------------------------------------------------

    def begin(self, projection: Projection) -> None:
        """Show another history, starting with its last rows.

        `RowTable.fill` builds the other rows in slices.
        """
        self.projection = projection
        for table in self.tables:
            table.begin(projection)
        self.files.refresh_from(projection, changed=True)
        self.describe_columns()

    def grow(self, active: int) -> bool:
        """Show new entries. Returns whether there were any."""
        count, changed = self.history.grow()
        if not count:
            return False
        self._update_view(changed)
        self.describe_columns()
        if changed:
            for table in self.tables:
                table.view.refresh()
        self.files.refresh_from(self.projection, changed=changed)
        self.relink(active, scroll=False)
        return True

    def _update_view(self, changed: bool) -> None:
        """Update the LLM view.

        If the cursor's item was compacted, the cursor moves to the summary.
        """
        view = self.view.view
        before = view.cursor
        self.view.update(compacted=changed)
        if before is None or view.cursor == before or before[0] < 0:
            return
        key = in_view(self.projection, before[0]).key
        if view.holds(key):
            view.cursor_to(key, quiet=True, scroll=False)
            self.link = Link(key, VIEW)

    async def show_history(
        self,
        then: Projection,
        before: Projection | None = None,
        proposed: ProposedView | None = None,
    ) -> None:
        """Show the history as it was at another point.

        Args:
            before: an earlier state, with which the view is compared.
            proposed: the view after a draft, with which the view is compared.
        """
        self.view.before = before
        self.view.proposed = proposed
        self.view.take(then)
        self.history.take(then)
        view_rows = await self.view.build_rows()
        history_rows = await self.history.build_rows()
        if len(then.touches) >= _MANY:
            files = await asyncio.to_thread(file_table, then, self.cwd)
        else:
            files = file_table(then, self.cwd)
        for anchor in self._anchors:
            anchor.before()
        self.projection = then
        self.view.put(view_rows)
        self.history.put(history_rows)
        for anchor in self._anchors:
            anchor.after()
        self.files.put(then, files)
        self.describe_columns()
        for table in self.tables:
            table.view.lay_out()

    def describe_columns(self) -> None:
        """Update the gutters and the names of the columns."""
        width = gutter_width(self.projection.last_index)
        for columns, what, table in zip(
            self._columns, ("entry", "item"), self.tables, strict=True
        ):
            table.view.widen_gutter(width)
            columns.show(partial(_column_names, what, width))
        if isinstance(self.view.difference, ViewDifference):
            self._columns[1].show(self.view.difference.sums_row)

    def pick(self, picked: set[int]) -> None:
        """Replace the marked entries."""
        self.picked = picked
        for table in self.tables:
            table.view.refresh()

    # --- The link -------------------------------------------------------------------------------------

    def link_here(self, active: int) -> None:
        """Mark the entry at the active panel's cursor in all panels."""
        view = self.panels[active].view
        key = view.cursor
        if key is None:
            return
        if active != FILES:
            self.link = Link(row_of(key), active)
            self.relink(active, scroll=True)
            return
        block = view.block(key)
        if isinstance(block, FileBlock):
            self.files.file = block

    def relink(self, active: int, *, scroll: bool) -> None:
        """In the panels without the cursor, mark the linked entry with `▷`."""
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
        """Link to the newest access to a file.

        If an access is already linked, link to the one before it.
        """
        touches = file.touches
        link = self.link
        target = touches[-1]
        if link is not None and link.source == FILES and link.index in touches:
            target = touches[touches.index(link.index) - 1]
        self.files.file = file
        self.link = Link(row_key(target), FILES)
        self.relink(active, scroll=True)

    def compaction_counterpart(self, index: int) -> int | None:
        """Return the entry to which the compaction key jumps, if any.

        For an entry, this is its compaction. For a compaction, this is the entry from which the user came, or
        otherwise the first entry covered by the compaction.
        """
        compaction = compaction_of(self.projection, index)
        if compaction != index:
            self._jumped_from = index
            return compaction
        origin = self._jumped_from
        if (
            origin is not None
            and origin != index
            and compaction_of(self.projection, origin) == index
        ):
            return origin
        return first_compacted(self.projection, index)

    def counterpart(self, panel: int) -> Key | None:
        """Return the row of the linked entry in a panel, if any."""
        link = self.link
        if link is None or link.index < 0:
            return None
        if panel == FILES:
            return self.files.row_of(link.index)
        view = self.panels[panel].view
        if panel == HISTORY:
            key: Key | None = row_key(link.index)
        elif link.source == VIEW and view.holds(link.key):
            key = link.key
        else:
            key = in_view(self.projection, link.index).key
        if key is not None and not view.holds(key):
            key = row_key(row_index(self.projection, key[0]))
        return key if view.holds(key) else None

    def _mark_names(self, names: tuple[str, ...]) -> None:
        """In collapsed summaries, mark the lines that contain any of these file names."""
        if names == self._names:
            return
        self._names = names
        self.view.names = names
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
        spans = history_gutter(
            self.projection,
            self.view.new_from,
            key,
            line,
            width,
        )
        return self._marked(self.history.view, spans, key, line)

    def _view_gutter(self, key: Key, line: int) -> Spans:
        view = self.view.view
        block = view.block(key)
        if not isinstance(block, SummaryPreview):
            block = view.block(row_of(key))
        width = gutter_width(self.projection.last_index)
        if self.view.difference is not None:
            return self.view.difference.gutter(block, key, line, width)
        spans = view_gutter(
            block,
            self.view.new_from,
            key,
            line,
            width,
        )
        return self._marked(view, spans, key, line)

    def _marked(self, view: EntryList, spans: Spans, key: Key, line: int) -> Spans:
        """Add `✓` to the gutter of a marked row or of a used ledger line."""
        if line:
            return spans
        if key == row_of(key):
            return with_tick(spans) if key[0] in self.picked else spans
        block = view.block(key)
        if (
            isinstance(block, LedgerBlock)
            and block.line.id in self.uses.known(key[0]).used
        ):
            return (*spans, ("✓", "live bold"))
        return spans

    def _item_faded(self, key: Key) -> bool:
        """Whether a draft removes this item from the view."""
        proposed = self.view.proposed
        return proposed is not None and proposed.is_gone(self.view.view.block(key))

    def _faded(self, key: Key) -> bool:
        return key[0] >= 0 and is_gone(self.projection, key[0])
