"""A filter at work: the list it is chosen from, the rows it leaves, and what comes while it is in force."""

from collections.abc import Callable

from textual.geometry import Region
from textual.widget import Widget

from foldline.tui.inspector.filter_bar import FilterBar
from foldline.tui.inspector.filters import EVERYTHING, Filter
from foldline.tui.inspector.sheets import Sheet


class Filtering:
    """Belongs to a board. Whatever is long is done by workers of `owner`, in slices; `changed` is called when
    there is something new to show."""

    def __init__(self, owner: Widget, changed: Callable[[], None]) -> None:
        self.bar = FilterBar()
        self._owner = owner
        self._changed = changed
        self._sheet: Sheet | None = None

    @property
    def open(self) -> bool:
        """Whether a filter is being chosen."""
        return self._sheet is not None

    def begin(self, sheet: Sheet, over: Region) -> None:
        """Let the reader choose what this list shows, in a box over this part of the board."""
        self._sheet = sheet
        self.bar.open(sheet.filter, len(sheet), sheet.what, over)
        self._count()

    def end(self) -> None:
        """The filter is as the reader wants it."""
        self._sheet = None
        self.bar.close()

    def want(self, sheet: Sheet, wanted: Filter) -> None:
        """Show what a filter admits."""
        self._owner.run_worker(self._show(sheet, wanted), group=f"filter {sheet.what}", exclusive=True)

    def chosen(self, wanted: Filter) -> None:
        """The reader chose in the list."""
        if self._sheet is not None:
            self.want(self._sheet, wanted)

    def again(self, sheet: Sheet, wanted: Filter) -> None:
        """The list was filled anew: the filter is in force again."""
        if wanted.active:
            self.want(sheet, wanted)

    def clear(self, sheet: Sheet) -> bool:
        """Show everything again; False where nothing else is shown."""
        if not sheet.filter.active:
            return False
        self.want(sheet, EVERYTHING)
        return True

    def refresh(self, *sheets: Sheet, folded: bool) -> None:
        """Entries came; after a fold others may fit."""
        for sheet in sheets:
            if folded and sheet.filter.active:
                self._owner.run_worker(self._rebuild(sheet), group=f"filter {sheet.what}", exclusive=True)
        if self.open:
            self._count()

    def _count(self) -> None:
        self._owner.run_worker(self._tally(), group="tally", exclusive=True)

    async def _tally(self) -> None:
        sheet = self._sheet
        if sheet is not None:
            found = await sheet.tally()
            if sheet is self._sheet:
                self.bar.count(found, len(sheet))

    async def _show(self, sheet: Sheet, wanted: Filter) -> None:
        await sheet.show_only(wanted)
        self._changed()

    async def _rebuild(self, sheet: Sheet) -> None:
        await sheet.build()
        self._changed()
