"""The list a filter is chosen from, over the lower part of the panels. Decides nothing."""

from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message

from foldline.tui.blocks.cells import Span
from foldline.tui.inspector.filter_keys import KEYS
from foldline.tui.inspector.filter_rows import FATE_OF, LEAST, ROWS, WIDTH, Choosing, bar_lines
from foldline.tui.inspector.filters import EVERYTHING, Filter, Option, Tally
from foldline.tui.keys.table import bindings
from foldline.tui.widgets.lines import Lines


class FilterBar(Lines, can_focus=True):
    """Opened with the filter in force; `Chosen` comes with every change, `Left` at the end."""

    DEFAULT_CSS: ClassVar[str] = f"""
    FilterBar {{
        display: none; layer: popup; dock: bottom; margin: 0 0 2 0; max-width: {WIDTH}; height: {ROWS + 3};
        max-height: 80%; background: ansi_default;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "filter")

    class Chosen(Message):
        """Another filter is wanted."""

        def __init__(self, wanted: Filter) -> None:
            super().__init__()
            self.wanted = wanted

    class Left(Message):
        """The reader goes back to the panel."""

    def __init__(self) -> None:
        super().__init__(id="filter")
        self.state = Choosing()
        self._total, self._what = 0, "entries"

    def open(self, now: Filter, total: int, what: str, over: Region) -> None:
        """Show it with this filter, over this part of the board where that is wide enough. How many there
        are of what is told by `count`."""
        self.state = replace(Choosing(filter=now), column=self.state.column)
        self._total, self._what = total, what
        fits = over.width >= LEAST
        self.styles.width = over.width if fits else "1fr"
        self.styles.margin = (0, 0, 2, over.x if fits else 0)
        self.display = True
        self.focus()
        self.update()

    def close(self) -> None:
        self.display = False

    def count(self, tally: Tally, total: int) -> None:
        """What there is to choose from."""
        self._total = total
        self.state = self.state.known(tally)
        self.update()

    def show(self, now: Filter) -> None:
        """Another filter is in force."""
        self.state = replace(self.state, filter=now)
        self.update()

    def lines(self, width: int) -> list[list[Span]]:
        return bar_lines(self.state, self._total, self._what, width, self.size.height)

    def action_filter(self, command: str) -> None:
        """One of the keys in `filter_keys.KEYS`; a fate's letter comes as an event."""
        match command:
            case "up" | "down":
                self._move(1 if command == "down" else -1, 0)
            case "left" | "right":
                self._move(0, 1 if command == "right" else -1)
            case "choose":
                self._toggle(self.state.marked)
            case "take":
                if self.state.marked not in self.state.filter.chosen:
                    self._toggle(self.state.marked)
                self.post_message(self.Left())
            case "asides":
                self._toggle_at(Option("asides", ""))
            case "clear":
                self._want(EVERYTHING)
            case "close":
                self.post_message(self.Left())

    def on_key(self, event: events.Key) -> None:
        fate = FATE_OF.get(event.character or "")
        if fate is not None:
            event.stop()
            self._toggle_at(Option("fate", fate))

    def _toggle_at(self, option: Option) -> None:
        """A choice by its letter; the cursor goes there."""
        self.state = self.state.beside(option)
        self._toggle(option)

    def _move(self, rows: int, columns: int) -> None:
        self.state = self.state.moved(rows, columns)
        self.update()

    def _toggle(self, option: Option | None) -> None:
        if option is not None:
            self._want(self.state.filter.toggled(option))

    def _want(self, wanted: Filter) -> None:
        if wanted != self.state.filter:
            self.show(wanted)
            self.post_message(self.Chosen(wanted))
