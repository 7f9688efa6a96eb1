"""The board: the three panels, what stands in them, and the one place they all show."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size as Space
from textual.widget import Widget

from foldline.context.budget import Size
from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.tui.blocks import BlockView, Key, Span, Spans
from foldline.tui.docking import CHAT_COLUMNS
from foldline.tui.inspector import describe
from foldline.tui.inspector.edits import Limits, Offers
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filelist import (
    FileBlock,
    names_of,
)
from foldline.tui.inspector.files_panel import FilesPanel
from foldline.tui.inspector.filtering import Filtering
from foldline.tui.inspector.history_sheet import HistorySheet
from foldline.tui.inspector.keys import hints
from foldline.tui.inspector.layout import FILES, HEADER_ROWS, HISTORY, VIEW, files_width, panels_at
from foldline.tui.inspector.marks import gutter_width, history_marks, picked_mark, view_marks
from foldline.tui.inspector.offering import priced_row
from foldline.tui.inspector.panel import Columns, Panel, Text
from foldline.tui.inspector.places import fold_of, in_view, is_gone, row_key, row_of
from foldline.tui.inspector.prices import Prices
from foldline.tui.inspector.searching import Searching
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


class _Row(Horizontal):
    """The panels side by side. Nothing is seen of it: it draws no lines (`BLANK`), as whatever they cover."""

    BLANK: ClassVar[bool] = True


class Board(Widget):
    """Shows a projection in three linked panels. What keys do is `InspectorPanels`' business."""

    DEFAULT_CSS: ClassVar[str] = """
    Board { layout: vertical; layers: base popup; width: 1fr; height: 1fr; }
    Board > #panels { height: 1fr; width: 1fr; }
    Board > #find {
        display: none; height: 1; width: 1fr; border: none; padding: 0 1; background: ansi_default;
    }
    """

    BLANK: ClassVar[bool] = True
    one_at_a_time: bool = False
    """Whether one panel shows, however wide it is: beside the chat."""

    def __init__(
        self,
        projection: Projection,
        *,
        overhead: int = 0,
        cwd: str = "",
        rows: bool = True,
        live: bool = False,
        threshold: int | None = None,
        activity: str = "",
        id: str | None = None,
    ) -> None:
        """`overhead` is the estimate of the tool schemas in tokens; paths below `cwd` are shown relative to
        it; without `rows` there is no row of hints below the panels. `live`: the view can be edited here.
        `threshold` is the size in tokens from which on a request is folded first."""
        super().__init__(id=id)
        self._activity = activity
        self._prices = Prices(self, Limits(overhead, threshold), self._describe) if live else None
        self._projection = projection
        self._overhead = overhead
        self._cwd = cwd
        self._with_hints = rows
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
        self._files = FilesPanel(cwd, self._files_counted)
        self._panels = (
            Panel(history, title="1 History", above=self._columns[0]),
            Panel(view, title="2 LLM view", above=self._columns[1]),
            self._files,
        )
        self._status = Text(id="status")
        self._hints = Text(id="hints")
        self._searching = Searching()
        self._news = ""
        self.filtering = Filtering(self, self._refiltered)
        self._picked: set[int] = set()
        """Entries that the edit keys act on, where there are any."""

    def compose(self) -> ComposeResult:
        with _Row(id="panels"):
            yield from self._panels
        yield from self.below()
        yield self._searching.field
        yield self._status
        if self._with_hints:
            yield self._hints
        yield self.filtering.bar

    def below(self) -> Iterable[Widget]:
        """What stands below the panels."""
        return ()

    def on_mount(self) -> None:
        self._searching.field.cursor_blink = False
        self._lay_out()
        self._rebuild()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        return self._projection

    @property
    def weight(self) -> Size:
        """What is shown weighs so much as a request."""
        return view_size(self._projection, overhead=self._overhead)

    @property
    def link(self) -> Link | None:
        """The place all panels show."""
        return self._link

    @property
    def as_of(self) -> str:
        """Which moment is shown; empty where that is now."""
        return ""

    @property
    def live(self) -> bool:
        """Whether the view can be edited here."""
        return self._prices is not None

    @property
    def priced(self) -> bool:
        """Whether the status row says by now what the edit keys would do."""
        return self._prices is not None and self._prices.known

    @property
    def active_view(self) -> EntryView:
        """The list of the panel that has, or last had, the focus."""
        return self._panels[self._active].view

    @property
    def panel_of_keys(self) -> int:
        """The panel that keys act on."""
        return self._active

    @property
    def lists_have_focus(self) -> bool:
        return self.has_focus_within

    def focus_panels(self) -> None:
        """Give the focus to the panel that had it last: at once, so that no picture shows it without."""
        if self.is_attached:  # it may be closed before it was there
            self.screen.set_focus(self.active_view)
            self._describe()

    def set_moment(self, activity: str, threshold: int | None) -> None:
        """What the agent does just now, and the threshold where it is known; shown by `refresh_from`."""
        self._activity = activity
        if self._prices is not None and threshold is not None:
            self._prices.limits = replace(self._prices.limits, threshold=threshold)

    def set_price(self, dollars: float | None) -> None:
        """What a token of a request costs; None where that is not known."""
        if self._prices is not None:
            self._prices.limits = replace(self._prices.limits, price=dollars)

    def refresh_from(self, projection: Projection) -> None:
        """Show what has come since: growth touches only the tails, a fold repaints rails in place."""
        if projection is not self._projection:
            self._projection = projection
            self._link = None
            self._rebuild()
            return
        fresh = self.history.grow(projection)
        if fresh.entries:
            self._follow_cursor_through(
                lambda: self.view.update(projection, self.history.last_change, fresh.folded)
            )
            width = gutter_width(projection.last_index)
            for columns, sheet in zip(self._columns, (self.history, self.view), strict=True):
                sheet.view.widen_gutter(width)
                columns.show(width)
            if fresh.folded:
                for sheet_view in (self.history.view, self.view.view):
                    sheet_view.refresh()
            self._note_news()
            self.filtering.refresh(self.history, self.view, folded=fresh.folded)
            if self.view.missing:
                self._fill_later()
            self._files.refresh_from(projection, folded=fresh.folded)
            self._relink(scroll=False)
        self._describe()

    # --- Content --------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """All anew: the ends at once, what is above them in slices."""
        filters = self.history.filter, self.view.filter
        self.history.begin(self._projection)
        self.view.begin(self._projection, self.history.last_change)
        self._note_news()
        self._files.refresh_from(self._projection, folded=True)
        width = gutter_width(self._projection.last_index)
        for columns in self._columns:
            columns.show(width)
        if self.history.missing or self.view.missing:
            self._fill_later()
        self.filtering.again(self.history, filters[0])
        self.filtering.again(self.view, filters[1])
        self._describe()

    def _note_news(self) -> None:
        news = self.view.news
        self.history.new_from = news.first_index if news is not None else None

    def _refiltered(self) -> None:
        """Other rows are shown: the place stays."""
        self._relink(scroll=False)
        self._describe()

    def _fill_later(self) -> None:
        self.run_worker(self._fill(), group="fill", exclusive=True)

    async def _fill(self) -> None:
        for sheet in (self.history, self.view):
            await sheet.fill()
        self._relink(scroll=False)
        self._describe()

    def _files_counted(self) -> None:
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

    # --- The link -------------------------------------------------------------------------------------

    @on(BlockView.CursorMoved)
    def _cursor_moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        if event.view is self.active_view:
            self._news = ""
            self._link_here()

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

    # --- Panels and focus -----------------------------------------------------------------------------

    @property
    def room(self) -> Space:
        """Columns and rows: before its first layout those it will have, else that would be done twice."""
        if self.size:
            return self.size
        width, height = self.app.size
        return Space(width - CHAT_COLUMNS if self.one_at_a_time else width, max(height - HEADER_ROWS, 0))

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Which panels show at this width."""
        width, height = self.room
        shown = panels_at(width, self._active, alone=self.one_at_a_time)
        for number, panel in enumerate(self._panels):
            panel.display = number in shown
        self._files.lay_out(files_width(width) if len(shown) > 1 else None, height)
        self.call_after_refresh(self._show_places)

    def _show_places(self) -> None:
        for panel in self._panels:
            key = panel.view.cursor or panel.view.counterpart
            if key is not None and panel.display:
                panel.view.scroll_to_key(key)
        self._describe()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Tab, a number or the mouse: the cursor goes along."""
        for number, panel in enumerate(self._panels):
            if event.widget is not panel.view:
                continue
            if number != self._active:
                self._take_over(number)
                if panel.view.cursor != self.counterpart(number):
                    self._link_here()
        self._describe()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self._describe)

    def _take_over(self, number: int) -> None:
        self.active_view.give_cursor()
        self.active_view.set_search("")
        self._active = number
        self.active_view.set_search(self._searching.needle)
        if self.active_view.cursor is None:
            self.active_view.take_cursor()
        self._lay_out()

    def _go(self, number: int) -> None:
        """Focus a panel."""
        self._news = ""
        if number != self._active:
            self._take_over(number)
        self.active_view.focus()
        self._describe()

    # --- Words ----------------------------------------------------------------------------------------

    def _describe(self) -> None:
        """Frames, touches, status and hints say what is."""
        if not self.is_attached:
            return
        projection = self._projection
        focused = self.lists_have_focus
        for number, panel in enumerate(self._panels):
            panel.focus_is_inside(focused and number == self._active and not self.filtering.open)
        history, view, files = self._panels
        history.head(describe.entries_head(projection, self.history, self.as_of))
        view.head(*describe.view_head(projection, self.weight, self.view, self.as_of))
        files.head(str(self._files.table.count))
        key, here = self.active_view.cursor, self.panel_of_keys
        history.foot(*describe.history_foot(projection, self._link, here == HISTORY, self.history.opened))
        view.foot(*describe.view_foot(projection, self._link, here == VIEW, self.view))
        files.foot("Enter jumps to latest" if here == FILES else "")
        linked = self._link.index if self._link is not None else None
        self._files.show_touches(linked)
        self._status.show([self._status_row(key)])
        if self._with_hints:
            self._hints.show([describe.hints_row(self.room.width, self._hint_pairs())])

    def _hint_pairs(self) -> Sequence[tuple[str, str]]:
        """(keys, word) of what works now; the last two for the right end."""
        link = self._link
        folded = link is not None and link.index >= 0 and fold_of(self._projection, link.index) is not None
        return hints(self._closes(), live=self.live, idle=() if folded else ("fold",))

    def _closes(self) -> str:
        """What Esc does now."""
        if self._searching.going:
            return "ends the search"
        if self._picked:
            return "unmarks"
        return (
            "shows all"
            if self._active != FILES and self._sheet.filter.active
            else ("to the prompt" if self.one_at_a_time else "close")
        )

    @property
    def _sheet(self) -> HistorySheet | ViewSheet:
        """The list of the active panel, where that is one of entries; else History's."""
        return self.view if self._active == VIEW else self.history

    def _status_row(self, cursor: Key | None) -> list[Span]:
        width, link, in_files = self.room.width, self._link, self._active == FILES
        if self._prices is None or not self.live or in_files or self._news:
            return describe.status(
                self._projection, link, cursor, self._files.file, in_files, self._news, width
            )
        index = None if link is None else link.index
        place = tuple(sorted(self._picked)) or index
        found = self._prices.at(self._projection, place)
        if found is None:
            found = Offers(index, picked=place if isinstance(place, tuple) else ())
        return priced_row(self._projection, found, later=bool(self._activity), width=width)
