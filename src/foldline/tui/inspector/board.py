"""The board: the three panels side by side, what comes into them, and the words around them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size as Space
from textual.widget import Widget

from foldline.context.budget import Size
from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.tui.blocks import BlockView, Key, Span
from foldline.tui.docking import CHAT_COLUMNS
from foldline.tui.inspector import describe
from foldline.tui.inspector.edits import Limits, Offers
from foldline.tui.inspector.filtering import Filtering
from foldline.tui.inspector.history_sheet import HistorySheet
from foldline.tui.inspector.keys import hints
from foldline.tui.inspector.layout import FILES, HEADER_ROWS, HISTORY, VIEW, files_width, panels_at
from foldline.tui.inspector.linked import LinkedPanels
from foldline.tui.inspector.marks import gutter_width
from foldline.tui.inspector.offering import priced_row
from foldline.tui.inspector.panel import Text
from foldline.tui.inspector.places import fold_of
from foldline.tui.inspector.prices import Prices
from foldline.tui.inspector.search import Searching
from foldline.tui.inspector.view_sheet import ViewSheet


class _Row(Horizontal):
    """The panels side by side. Nothing is seen of it: it draws no lines (`BLANK`), as whatever they cover."""

    BLANK: ClassVar[bool] = True


class Board(LinkedPanels):
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
        super().__init__(projection, cwd, overhead=overhead, id=id)
        self._activity = activity
        self._prices = Prices(self, Limits(overhead, threshold), self._describe) if live else None
        self._overhead = overhead
        self._with_hints = rows
        self._status = Text(id="status")
        self._hints = Text(id="hints")
        self._searching = Searching()
        self._news = ""
        self.filtering = Filtering(self, self._rows_changed)

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
    def weight(self) -> Size:
        """What is shown weighs so much as a request."""
        return view_size(self._projection, overhead=self._overhead)

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

    def _fill_later(self) -> None:
        self.run_worker(self._fill(), group="fill", exclusive=True)

    async def _fill(self) -> None:
        for sheet in (self.history, self.view):
            await sheet.fill()
        self._rows_changed()

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

    @on(BlockView.CursorMoved)
    def _cursor_moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        if event.view is self.active_view:
            self._news = ""
            self._link_here()

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
        view.foot(*describe.view_foot(projection, self.weight, self._link, here == VIEW, self.view))
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
