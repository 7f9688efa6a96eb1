"""The board with what finds a place in it: the filter of its lists, and the search."""

from textual import on
from textual.widgets import Input

from foldline.tui.inspector.filter_bar import FilterBar
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.layout import FILES, HISTORY
from foldline.tui.inspector.timeboard import TimeBoard
from foldline.tui.keys.table import name_of


class FindingBoard(TimeBoard):
    """Shows less, or goes where a word is; each in the panel that has the focus."""

    # --- Filter ---------------------------------------------------------------------------------------

    def _open_filter(self) -> None:
        if self._active == FILES:
            self._news = f"A filter is of entries: {name_of(KEYS, 'panel-1')} goes to History."
        else:
            panel = self._panels[self._active].region
            self.filtering.begin(self._sheet, panel.translate(-self.region.offset))

    @on(FilterBar.Chosen)
    def _filter_chosen(self, event: FilterBar.Chosen) -> None:
        event.stop()
        self.filtering.chosen(event.wanted)

    @on(FilterBar.Left)
    def _filter_left(self, event: FilterBar.Left) -> None:
        event.stop()
        self.filtering.end()
        self.active_view.focus()
        self._describe()

    # --- Search ---------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        self._status.display = False
        self._searching.ask()

    def _close_search(self) -> None:
        self._status.display = True
        if self._searching.close():
            self.screen.set_focus(self.active_view)  # at once: a key may be right behind

    @on(Input.Submitted, "#find")
    def _search_for(self, event: Input.Submitted) -> None:
        event.stop()
        self._searching.needle = event.value
        self._close_search()
        self.active_view.set_search(event.value)
        if event.value:
            self._search(1)

    def _search(self, step: int) -> None:
        if not self._searching.needle:
            self._news = f"Nothing to look for yet: {name_of(KEYS, 'search')} asks."
            return
        self.run_worker(self._look(self._active, step), group="search", exclusive=True)

    async def _look(self, panel: int, step: int) -> None:
        view = self._panels[panel].view
        opened = self.history.opened if panel == HISTORY else self.view.opened
        key, words = await self._searching.look(view, step, opened, of_entries=panel != FILES)
        if key is not None and self._active == panel:
            view.cursor_to(key, quiet=True)
            self._link_here()
        if key is None or self._active == panel:
            self._news = words
        self._describe()
