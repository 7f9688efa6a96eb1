"""The three panels of a projection, and the one place they all show."""

from collections.abc import Callable
from dataclasses import dataclass

from textual.widget import Widget

from foldline.context.projection import Projection
from foldline.tui.blocks import Key, Spans
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filelist import FileBlock, FilesPanel, names_of
from foldline.tui.inspector.history_sheet import HistorySheet
from foldline.tui.inspector.layout import FILES, HISTORY, VIEW
from foldline.tui.inspector.marks import gutter_width, history_marks, picked_mark, view_marks
from foldline.tui.inspector.panel import Columns, Panel
from foldline.tui.inspector.places import in_view, is_gone, row_key, row_of
from foldline.tui.inspector.summaries import SummaryPreview, summary_preview
from foldline.tui.inspector.view_sheet import ViewSheet


@dataclass(frozen=True, slots=True)
class Link:
    """The one place all panels show: an entry, and the message a compaction wrote (nth)."""

    key: Key
    source: int
    """The panel it was chosen in."""

    @property
    def index(self) -> int:
        return self.key[0]


class LinkedPanels(Widget):
    """History, LLM view and Files: where the cursor is in one, the others show the same entry. How they
    are laid out and filled, and the words around them, are `Board`'s business."""

    def __init__(self, projection: Projection, cwd: str, *, overhead: int, id: str | None) -> None:
        super().__init__(id=id)
        self._projection = projection
        self._cwd = cwd
        self._active = HISTORY
        self._link: Link | None = None
        self._names: tuple[str, ...] = ()
        width = gutter_width(projection.last_index)
        history = EntryView(
            gutter=self._history_gutter, gutter_width=width, faded=self._faded, follow=True, id="history"
        )
        view = EntryView(
            gutter=self._view_gutter, gutter_width=width, faded=lambda _: False, follow=True, id="view"
        )
        self.history = HistorySheet(history, cwd)
        self.view = ViewSheet(view, overhead, cwd)
        self._columns = (Columns("entry"), Columns("item"))
        self._files = FilesPanel(cwd, self._rows_changed)
        self._panels = (
            Panel(history, title="1 History", above=self._columns[0]),
            Panel(view, title="2 LLM view", above=self._columns[1]),
            self._files,
        )
        self._picked: set[int] = set()
        """Entries that the edit keys act on, where there are any."""

    @property
    def projection(self) -> Projection:
        return self._projection

    @property
    def link(self) -> Link | None:
        """The place all panels show."""
        return self._link

    @property
    def active_view(self) -> EntryView:
        """The list of the panel that has, or last had, the focus."""
        return self._panels[self._active].view

    def _describe(self) -> None:
        """Say anew what is: the place is another one, or its rows are."""

    # --- The link -------------------------------------------------------------------------------------

    def _link_here(self) -> None:
        """The cursor of the active panel is the place now."""
        key = self.active_view.cursor
        if key is None:
            return
        if self._active == FILES:
            block = self.active_view.block(key)
            self._files.file = block if isinstance(block, FileBlock) else self._files.file
        else:
            self._link = Link(row_of(key), self._active)
            self._relink(scroll=True)
        self._describe()

    def _relink(self, *, scroll: bool) -> None:
        """Show the link in the panels that do not have the cursor."""
        for number, panel in enumerate(self._panels):
            if number != self._active:
                key = self.counterpart(number)
                if scroll:
                    panel.view.show_counterpart(key)
                else:
                    panel.view.counterpart = key
        link = self._link
        path = self._files.path_of(link.index) if link is not None else None
        if path is not None and self._active != FILES:
            self._files.file = self._files.table.by_path.get(path)
        self._mark_names(names_of(path, self._cwd) if path is not None else ())

    def counterpart(self, panel: int) -> Key | None:
        """The row of a panel that shows the link; None where it has none."""
        link = self._link
        if link is None or link.index < 0:
            return None
        view = self._panels[panel].view
        if panel == FILES:
            key = self._files.row_of(link.index)
        elif panel == HISTORY:
            key = row_key(link.index)
        elif link.source == VIEW and view.index_of(link.key) is not None:
            key = link.key
        else:
            key = in_view(self._projection, link.index).key
        return key if key is not None and view.index_of(key) is not None else None

    def _mark_names(self, names: tuple[str, ...]) -> None:
        """Mark the lines of closed summaries that name the file of the place."""
        if names == self._names:
            return
        self._names = self.view.names = names
        view = self.view.view
        for item in self.view.summaries():
            preview = summary_preview(row_key(*item.key), item.message.text, names)
            shown = view.block(preview.key)
            if isinstance(shown, SummaryPreview) and (shown.lines, shown.marked) != (
                preview.lines,
                preview.marked,
            ):
                view.replace(preview.key, preview)

    def _rows_changed(self) -> None:
        """Other rows are shown: the place stays."""
        self._relink(scroll=False)
        self._describe()

    def _follow_cursor_through(self, change: Callable[[], None]) -> None:
        """A cursor whose item was folded goes to what stands for it, not to a neighbour."""
        view = self.view.view
        before = view.cursor
        change()
        if before is not None and view.cursor != before and before[0] >= 0:
            key = in_view(self._projection, before[0]).key
            if key is not None and view.index_of(key) is not None:
                view.cursor_to(key, quiet=True, scroll=False)
                self._link = Link(key, VIEW)

    # --- Drawing of gutters ---------------------------------------------------------------------------

    def _history_gutter(self, key: Key, line: int) -> Spans:
        width = gutter_width(self._projection.last_index)
        marks = history_marks(self._projection, self.view.news, key, line, width)
        return picked_mark(marks) if self._picked and self._is_picked(key, line) else marks

    def _is_picked(self, key: Key, line: int) -> bool:
        return not line and key == row_of(key) and key[0] in self._picked

    def _view_gutter(self, key: Key, line: int) -> Spans:
        view = self._panels[VIEW].view
        block = view.block(key)
        if not isinstance(block, SummaryPreview):
            block = view.block(row_of(key))
        marks = view_marks(block, self.view.news, key, line, gutter_width(self._projection.last_index))
        return picked_mark(marks) if self._picked and self._is_picked(key, line) else marks

    def _faded(self, key: Key) -> bool:
        return key[0] >= 0 and is_gone(self._projection, key[0])
