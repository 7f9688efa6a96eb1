"""Panels that show the history at any point in time, and the timeline below them."""

from collections.abc import Callable
from functools import partial
from typing import Final, Unpack

from textual.worker import Worker

from foldline.history.stored import without_gc
from foldline.past.describe import size_words
from foldline.past.moments import Moment, first_entry
from foldline.tui.browser.draft.rows import ProposedView
from foldline.tui.browser.inspector.compare import ViewDifference
from foldline.tui.browser.inspector.entry_panels import EntryPanels, PanelOptions
from foldline.tui.browser.inspector.link import FILES, HISTORY, VIEW
from foldline.tui.browser.inspector.time_travel import NOW, Viewpoint
from foldline.tui.browser.inspector.timeline import TALL, TimelinePanel, rows_for
from foldline.tui.browser.panels import edit_hints
from foldline.tui.browser.panels.entry_rows import ItemRow
from foldline.tui.look.cells import RowPiece, Span, row
from foldline.view.budget import Size
from foldline.view.projection import Projection

NOTHING_ADDED: Final = "This request added no entries."
NOTHING_TO_MARK: Final = "Only entries that can be edited can be marked."

JUMPS_TO_ACCESS: Final = "Enter goes to latest access"


class TimePanels(EntryPanels):
    """The linked lists at a point in the history that the user selects.

    The owner calls `refresh_from` after events.
    """

    is_docked: bool = False
    """Whether the docked Inspector is shown, which has few columns and rows."""

    def __init__(self, projection: Projection, **options: Unpack[PanelOptions]) -> None:
        """Create the panels. `options` are those of `EntryPanels`."""
        super().__init__(projection, **options)
        self.timeline = TimelinePanel(self._timeline_picked)
        self._shows_timeline: bool | None = None
        """Whether the timeline is shown; None if that depends on the height."""
        self._place_cursor: Callable[[], object] = lambda: None
        """Moves the cursor as soon as the selected point in history is displayed."""

    # --- For the modes --------------------------------------------------------------------------------

    def set_mode(self, viewpoint: Viewpoint, by_size: bool = False) -> None:
        """Set the viewpoint and the panels that belong to it. `_show_chosen` fills them."""
        raise NotImplementedError

    def show_use(self) -> None:
        """Update the use of the window, if it is displayed."""
        raise NotImplementedError

    @property
    def proposed(self) -> ProposedView | None:
        """The rows of the proposed view, while a draft is shown."""
        raise NotImplementedError

    # --- Content --------------------------------------------------------------------------------------

    def refresh_from(self, projection: Projection) -> None:
        """Show new entries, unless the panels show an earlier state."""
        if projection is not self.travel.now:
            self.travel.begin(projection)
            self.set_mode(NOW, self.view.by_size)
            self.lists.projection = projection
            self.lists.link = None
            self.lay_out()
            self._rebuild()
        elif self.travel.is_now:
            self._grow()
        self._show_timeline()

    def _rebuild(self) -> None:
        """Rebuild both lists: the last rows immediately, earlier rows in slices."""
        self.lists.begin(self.projection)
        self._fill_later()
        self.show_use()
        self.describe()

    def _grow(self) -> None:
        if self.lists.grow(VIEW if self.in_draft else self.active):
            self._fill_later()
        self.show_use()
        self.describe()

    def _fill_later(self) -> None:
        if self.history.missing or self.view.missing:
            self.run_worker(self._fill(), group="fill", exclusive=True)

    async def _fill(self) -> None:
        for table in self.lists.tables:
            await table.fill()
        self._rows_changed()

    # --- Points in history ----------------------------------------------------------------------------

    def go_to(self, moment: Moment | None) -> None:
        """Show another point in history, or the current state."""
        self.choose(Viewpoint(moment))

    def choose(self, viewpoint: Viewpoint) -> None:
        """Show the history from another viewpoint.

        The timeline changes immediately. The panels follow once the history has been replayed.
        """
        if viewpoint != self.travel.chosen:
            self.set_mode(viewpoint, self.view.by_size)
            self.status_note = ""
            self._show_chosen()

    def _show_chosen(self) -> None:
        self._show_timeline()
        self.lay_out()
        self.workers.cancel_group(self, "fill")
        # Pass the function, because a coroutine would never be awaited if the worker is cancelled at once.
        _: Worker[None] = self.run_worker(self._turn, group="moment", exclusive=True)

    async def _turn(self) -> None:
        """Show the selected point in history.

        If the user selects another point, this task is cancelled.
        """
        travel = self.travel
        chosen = travel.chosen
        moment = chosen.moment
        with without_gc():
            before = None
            if chosen.before is not None:
                before = await travel.past.at(chosen.before)
            then = travel.now if moment is None else await travel.past.at(moment)
            await self.lists.show_history(then, before, self.proposed)
            travel.shown = chosen
            if self.proposed is not None:
                self.view.show_proposed(self.proposed)  # it may have changed
            if moment is None:
                self._grow()  # entries may have been added in the meantime
            self.show_use()
            place_cursor, self._place_cursor = self._place_cursor, lambda: None
            place_cursor()
            self.relink()
            self.describe()
            self._show_timeline()
            if moment is not None:
                await travel.past.check(moment, then)
                self._show_timeline()

    def _to_first_item(self) -> None:
        view = self.view.view
        view.action_home()
        first = view.next_where(None, 1, lambda row: isinstance(row, ItemRow))
        if first is not None:
            view.cursor_to(first, quiet=True)

    def _reveal_there(self, index: int) -> None:
        """Go to an entry as soon as the selected point in history is shown."""
        if self.travel.settled:
            self.reveal(index)
        else:
            self._place_cursor = partial(self.reveal, index)

    def go_by(self, command: str) -> None:
        """Run a timeline command."""
        if command == "first-entry":
            index = first_entry(self.travel.now, self.travel.moment)
            if index is None:
                self.status_note = NOTHING_ADDED
            else:
                self._reveal_there(index)
            return
        moment = self.travel.step(command)
        if isinstance(moment, str):
            self.status_note = moment
        else:
            self.go_to(moment)

    def _mark(self) -> None:
        """Mark or unmark the entry at the cursor or, in an earlier state, the displayed request."""
        index = self._index
        if self.travel.moment is not None:
            self.status_note = self.travel.mark()
            self._show_timeline()
        elif not self.live:
            self.status_note = self._why_not_live()
        elif (
            self._table is None
            or index < 0
            or not edit_hints.may_edit(self.projection, index)
        ):
            self.status_note = NOTHING_TO_MARK
        else:
            self.lists.pick(self.lists.picked ^ {index})

    # --- Frames ---------------------------------------------------------------------------------------

    def describe_lists(self) -> None:
        """Update the text in the frames of History, LLM view and Files."""
        link = self.lists.link
        key = None if link is None else link.key
        focused = self.active
        as_of = self.travel.shown.as_of
        weight = self.travel.weight(self.projection)
        history, view, files = self.lists.panels
        history.head(self.history.head(as_of))
        view.head(*self._view_head(weight))
        files.head(str(len(self._files.table.by_path)))
        history.foot(*(self.history.foot(key) if focused == HISTORY else ("", "")))
        from_history = link is not None and link.source == HISTORY
        view.foot(
            *self.view.foot(
                key, weight, active=focused == VIEW, from_history=from_history
            )
        )
        files.foot(JUMPS_TO_ACCESS if focused == FILES else "")
        self._files.show_touches(link.index if link is not None else None)

    def _view_head(self, weight: Size) -> tuple[str, str]:
        """Return the remark and the title of the LLM view."""
        shown = self.travel.shown
        difference = self.view.difference
        if shown.before is None or not isinstance(difference, ViewDifference):
            return self.view.head(weight, shown.as_of)
        before = self.travel.size_of(shown.before, difference.before)
        sizes = f"{size_words(before)} → {size_words(weight)}"
        return sizes, f"2 LLM view: {shown.title(self.travel.now)}"

    # --- Timeline -------------------------------------------------------------------------------------

    def _lay_out_timeline(self) -> None:
        """Show the timeline if the user wants it, or otherwise if there are enough rows."""
        height = self.room.height
        shows = self._shows_timeline
        if shows is None:
            shows = height >= TALL and not self.is_docked
        self.timeline.display = shows and not self.in_draft
        self.timeline.styles.height = rows_for(height) + 2

    def _toggle_timeline(self) -> None:
        self._shows_timeline = not self.timeline.display
        self.lay_out()
        self.call_after_refresh(self._show_timeline)

    def _timeline_picked(self, slot: int) -> None:
        moment = self.travel.request(slot + 1)
        if not isinstance(moment, str):
            self.go_to(moment)

    def _show_timeline(self) -> None:
        if self.is_mounted:
            self.timeline.show(self.travel.timeline(self.projection, self.activity))
        if self.travel.moment is not None:
            self.describe()

    def _timeline_row(self, width: int) -> list[Span]:
        words = self.timeline.data.words
        _, weight, *more = words
        pieces = [RowPiece(weight)]
        if more:
            pieces.append(RowPiece(more[-1], cut="right"))
        return row(pieces, [], width)
