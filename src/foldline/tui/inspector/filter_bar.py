"""The filter of a list of entries: chosen from three columns over the panels, and at work there."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message

from foldline.context.view import FateKind
from foldline.tui.blocks.cells import Span, crop, cut_right, in_reverse, width_of
from foldline.tui.fates import LETTERS, gutter_sign, letter
from foldline.tui.inspector.filters import EVERYTHING, FATES, SYSTEM_NOTES, Filter, Option, Tally
from foldline.tui.inspector.sheets import Sheet
from foldline.tui.keys.table import ScreenKey, bindings, table
from foldline.tui.widgets.lines import Line, Lines, boxed, key_words, window_start

KEYS: Final = table(
    "filter",
    "Move",
    ScreenKey[None]("up", ("up", "k"), "To the choice above.", title="Choice above"),
    ScreenKey("down", ("down", "j"), "To the choice below.", title="Choice below"),
    ScreenKey("left", ("left", "h"), "To the column at the left.", title="Column at the left"),
    ScreenKey("right", ("right", "l"), "To the column at the right.", title="Column at the right"),
    "Filter",
    ScreenKey("choose", ("space",), "Chooses it, or no longer; the panel follows at once.", hint="choose"),
    ScreenKey("take", ("enter",), "Chooses it and goes back to the panel.", hint="select"),
    ScreenKey(
        "fate",
        ("L", "C", "H", "S", "T", "R", "X", "D"),
        "Chooses what became of an entry by its letter.",
        title="A state by its letter",
        own=True,
    ),
    ScreenKey("notes", ("a",), "Shows system notes, too, or hides them.", title="System notes"),
    ScreenKey("clear", ("backspace",), "Shows everything again.", hint="all", title="Clear the filter"),
    "Program",
    ScreenKey("close", ("escape", "f"), "Back to the panel; the filter stays.", hint="close", title="Close"),
    title="Inspector: filter",
)

_ROWS: Final = 11
"""Choices of a column that are shown at once: all states, and most tools a session uses."""
_LEAST: Final = 58
"""Cells three columns need."""
_WIDTH: Final = 82
"""Cells beyond which it grows no wider."""
_HEADS: Final = ("kind", "state", "mark")
_MARKS: Final = {
    "pinned": ("*", "accent"),
    "new": ("+", "live"),
    "failed": ("✗", "alert"),
    "thinking": (" ", ""),
}
_FATE_OF: Final[dict[str, FateKind]] = {LETTERS[fate]: fate for fate in FATES}


class FilterBar(Lines, can_focus=True):
    """Filters the lists of a board. Whatever is long is done in slices, by workers."""

    DEFAULT_CSS: ClassVar[str] = f"""
    FilterBar {{
        display: none; layer: popup; dock: bottom; margin: 0 0 2 0; max-width: {_WIDTH}; height: {_ROWS + 3};
        max-height: 80%; background: $role-background;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "filter")

    class Left(Message):
        """The user goes back to the panel."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a list shows something else."""
        super().__init__(id="filter")
        self._changed = changed
        self._sheet: Sheet | None = None
        """The list for which a filter is being chosen."""
        self._filter = EVERYTHING
        self._tally: Tally | None = None
        """What there is to choose from; None while it is counted."""
        self._column = 0
        self._at = [0, 0, 0]
        """The row of the cursor in each column."""

    # --- at work ----------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether a filter is being chosen."""
        return self._sheet is not None

    def begin(self, sheet: Sheet, over: Region) -> None:
        """Choose what this list shows, over this part of the board where that is wide enough."""
        self._sheet, self._filter, self._tally, self._at = sheet, sheet.filter, None, [0, 0, 0]
        fits = over.width >= _LEAST
        self.styles.width = over.width if fits else "1fr"
        self.styles.margin = (0, 0, 2, over.x if fits else 0)
        self.display = True
        self.focus()
        self.update()
        self._count()

    def _leave(self) -> None:
        self._sheet = None
        self.display = False
        self.post_message(self.Left())

    def want(self, sheet: Sheet, wanted: Filter) -> None:
        """Show what a filter admits."""
        self.run_worker(self._show(sheet, wanted), group=f"filter {sheet.what}", exclusive=True)

    def clear(self, sheet: Sheet) -> bool:
        """Show everything again; False where nothing else is shown."""
        if not sheet.filter.active:
            return False
        self.want(sheet, EVERYTHING)
        return True

    def refresh_lists(self, *sheets: Sheet, compacted: bool) -> None:
        """Entries came; after a compaction others may fit."""
        for sheet in sheets:
            if compacted and sheet.filter.active:
                self.run_worker(self._rebuild(sheet), group=f"filter {sheet.what}", exclusive=True)
        if self.open:
            self._count()

    def _count(self) -> None:
        self.run_worker(self._counted(), group="tally", exclusive=True)

    async def _counted(self) -> None:
        sheet, marked = self._sheet, self.marked
        if sheet is None:
            return
        found = await sheet.tally()
        if sheet is self._sheet:
            self._tally = found
            self._move(0, 0)
            if marked is not None:
                self._go_to(marked)
            self.update()

    async def _show(self, sheet: Sheet, wanted: Filter) -> None:
        await sheet.show_only(wanted)
        self._changed()

    async def _rebuild(self, sheet: Sheet) -> None:
        await sheet.build()
        self._changed()

    # --- choosing ---------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[tuple[Option, ...], ...]:
        options = (self._tally or Tally()).options(self._filter)
        return options["kind"], options["fate"], (*options["mark"], *options["notes"])

    @property
    def marked(self) -> Option | None:
        """The choice under the cursor."""
        column = self.columns[self._column]
        return column[min(self._at[self._column], len(column) - 1)] if column else None

    def action_filter(self, command: str) -> None:
        """One of the keys in `KEYS`; a state's letter comes as an event."""
        match command:
            case "up" | "down":
                self._move(1 if command == "down" else -1, 0)
            case "left" | "right":
                self._move(0, 1 if command == "right" else -1)
            case "choose":
                self._toggle(self.marked)
            case "take":
                if self.marked not in self._filter.chosen:
                    self._toggle(self.marked)
                self._leave()
            case "notes":
                self._toggle_at(Option("notes", ""))
            case "clear":
                self._want(EVERYTHING)
            case "close":
                self._leave()
        self.update()

    def on_key(self, event: events.Key) -> None:
        fate = _FATE_OF.get(event.character or "")
        if fate is not None:
            event.stop()
            self._toggle_at(Option("fate", fate))

    def _move(self, rows: int, columns: int) -> None:
        """The cursor goes as far as there are choices."""
        at = self._column = min(max(self._column + columns, 0), len(self.columns) - 1)
        self._at[at] = min(max(self._at[at] + rows, 0), max(len(self.columns[at]) - 1, 0))

    def _go_to(self, option: Option) -> None:
        for column, options in enumerate(self.columns):
            if option in options:
                self._column, self._at[column] = column, options.index(option)

    def _toggle_at(self, option: Option) -> None:
        """A choice by its letter; the cursor goes there."""
        self._go_to(option)
        self._toggle(option)

    def _toggle(self, option: Option | None) -> None:
        if option is not None:
            self._want(self._filter.toggled(option))

    def _want(self, wanted: Filter) -> None:
        if wanted != self._filter and self._sheet is not None:
            self._filter = wanted
            self.update()
            self.want(self._sheet, wanted)

    # --- drawing ----------------------------------------------------------------------------------------

    def lines(self, width: int) -> list[Line]:
        sheet, columns = self._sheet, self.columns
        if sheet is None:
            return []
        wide = min(max((width - 6) // 3, 10), 25)
        widths = (wide, wide + 2, max(width - 6 - 2 * wide, 8))  # `summarised` is the longest word
        room = max(self.size.height - 3, 1)
        firsts = [window_start(at, len(options), room) for at, options in zip(self._at, columns, strict=True)]
        lines = [_joined([[(f" {head}", "muted")] for head in _HEADS], widths)]
        for row in range(room):
            cells = [
                self._cell(number, first + row, options, cells_wide)
                for number, (options, first, cells_wide) in enumerate(
                    zip(columns, firsts, widths, strict=True)
                )
            ]
            lines.append(_joined(cells, widths))
        shown: tuple[Span, ...] = (("counting …", "text"),)
        if self._tally is not None:
            shown = ((f"{self._tally.shown(self._filter):,} of {len(sheet):,} {sheet.what}", "text"),)
        keys = key_words(((key.name, key.hint) for key in KEYS if key.hint), "muted")
        return boxed(width, (("Filter", "bold"),), shown, lines, keys)

    def _cell(self, column: int, at: int, options: Sequence[Option], width: int) -> Line:
        """`▶● bash      41`: cursor, chosen, its mark, its name, how many it would show."""
        if at >= len(options):
            return []
        option = options[at]
        here = column == self._column and at == min(self._at[column], len(options) - 1)
        chosen = option in self._filter.chosen
        count = self._tally.count(self._filter, option) if self._tally is not None else None
        number = "…" if count is None else f"{count:,}"
        style = "text" if count or chosen or count is None else "muted"
        head: Line = [("▶" if here else " ", "accent"), ("●" if chosen else " ", "accent bold")]
        head += _sign(option)
        room = max(width - 1 - width_of(head) - len(number) - 1, 1)
        words = cut_right(f"{option.words} (note)" if option.name in SYSTEM_NOTES else option.words, room)
        style += " bold" if chosen else ""
        gap = room - width_of([(words, "")]) + 1
        cell = [*head, (words, style), (" " * gap, ""), (number, "muted")]
        return in_reverse(cell) if here else cell


def _joined(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    line: Line = [(" ", "")]
    for cell, width in zip(cells, widths, strict=True):
        line += [*crop(cell, width - 1), (" ", "")]
    return line


def _sign(option: Option) -> Line:
    if option.group == "fate":
        fate = _FATE_OF[LETTERS[option.name]]  # type: ignore[index]
        return [letter(fate), gutter_sign(fate), (" ", "")]
    if option.group == "mark":
        return [_MARKS[option.name], (" ", "")]
    return [(" ", "")] if option.group == "kind" else [("  ", "")]
