"""The list a filter is chosen from, over the lower part of the panels. Decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message

from foldline.context.view import FateKind
from foldline.tui.blocks import Span, cut_right
from foldline.tui.blocks.cells import crop, width_of
from foldline.tui.fates import LETTERS, gutter_sign, letter
from foldline.tui.inspector.filters import ASIDES, EVERYTHING, FATES, Filter, Option, Tally
from foldline.tui.keys.table import ScreenKey, bindings, table
from foldline.tui.prompting.completion import window_start
from foldline.tui.widgets.lines import HEAVY, Lines, edge, sides

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "filter",
    "Move",
    ScreenKey("up", ("up", "k"), "To the choice above.", title="Choice above"),
    ScreenKey("down", ("down", "j"), "To the choice below.", title="Choice below"),
    ScreenKey("left", ("left", "h"), "To the column at the left.", title="Column at the left"),
    ScreenKey("right", ("right", "l"), "To the column at the right.", title="Column at the right"),
    "Filter",
    ScreenKey("choose", ("space",), "Chooses it, or no longer; the panel follows at once.", hint="chooses"),
    ScreenKey("take", ("enter",), "Chooses it and goes back to the panel.", hint="takes"),
    ScreenKey(
        "fate",
        ("L", "C", "H", "S", "T", "R", "X", "D"),
        "Chooses what became of an entry by its letter.",
        title="A fate by its letter",
        own=True,
    ),
    ScreenKey("asides", ("a",), "Shows asides, too, or hides them.", title="Asides"),
    ScreenKey("clear", ("backspace",), "Shows everything again.", hint="all", title="Clear the filter"),
    "Program",
    ScreenKey("close", ("escape", "f"), "Back to the panel; the filter stays.", hint="closes", title="Close"),
    title="Inspector: filter",
)
"""Nothing decides which of them work: all do, always."""


def hints() -> tuple[tuple[str, str], ...]:
    """(key, word) of what stands in the lower edge."""
    return tuple((key.name, key.hint) for key in KEYS if key.hint)


ROWS: Final = 11
"""Choices of a column that are shown at once: all fates, and most tools a session uses."""
LEAST: Final = 58
"""Cells three columns need."""
WIDTH: Final = 82
"""Cells beyond which it grows no wider."""

_HEADS: Final = ("kind", "fate", "mark")
_MARKS: Final = {
    "pinned": ("*", "accent"),
    "new": ("+", "live"),
    "failed": ("✗", "alert"),
    "thinking": (" ", ""),
}


@dataclass(frozen=True, slots=True)
class Choosing:
    """The list as it stands: what was chosen, and where the cursor is."""

    filter: Filter = EVERYTHING
    tally: Tally = field(default_factory=Tally)
    counted: bool = False
    """Whether the tally is there by now."""
    column: int = 0
    at: tuple[int, int, int] = (0, 0, 0)
    """The row of the cursor in each column."""

    @property
    def columns(self) -> tuple[tuple[Option, ...], ...]:
        options = self.tally.options(self.filter)
        return options["kind"], options["fate"], (*options["mark"], *options["asides"])

    @property
    def marked(self) -> Option | None:
        """The choice under the cursor."""
        column = self.columns[self.column]
        return column[min(self.at[self.column], len(column) - 1)] if column else None

    def moved(self, rows: int, columns: int) -> "Choosing":
        """The cursor goes as far as there are choices."""
        column = min(max(self.column + columns, 0), len(self.columns) - 1)
        at = list(self.at)
        at[column] = min(max(at[column] + rows, 0), max(len(self.columns[column]) - 1, 0))
        return replace(self, column=column, at=(at[0], at[1], at[2]))

    def known(self, tally: Tally) -> "Choosing":
        """What there is now; the cursor stays at its choice."""
        here = self.marked
        after = replace(self, tally=tally, counted=True).moved(0, 0)
        return after if here is None else after.beside(here)

    def beside(self, option: Option) -> "Choosing":
        """With the cursor at a choice, where there is such a one."""
        for column, options in enumerate(self.columns):
            if option in options:
                return replace(self, column=column).moved(options.index(option) - self.at[column], 0)
        return self


FATE_OF: Final[dict[str, FateKind]] = {LETTERS[fate]: fate for fate in FATES}


def bar_lines(state: Choosing, total: int, what: str, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines of `width` cells. `total` entries or items (`what`) there are."""
    inner = width - 2
    wide = min(max((inner - 4) // 3, 10), 25)
    widths = (wide, wide, max(inner - 2 * wide - 2, 8))
    room = max(height - 3, 1)
    lines = [[(" ", ""), *_joined([[(f" {head}", "muted")] for head in _HEADS], widths)]]
    columns = state.columns
    firsts = [window_start(at, len(options), room) for at, options in zip(state.at, columns, strict=True)]
    for row in range(room):
        cells = []
        for number, (options, first, cells_wide) in enumerate(zip(columns, firsts, widths, strict=True)):
            at = first + row
            here = number == state.column and at == min(state.at[number], len(options) - 1)
            cells.append(_cell(state, options[at], here, cells_wide) if at < len(options) else [])
        lines.append([(" ", ""), *_joined(cells, widths)])
    shown = f"{state.tally.shown(state.filter):,} of {total:,} {what}" if state.counted else "counting …"
    keys: list[Span] = []
    for name, word in hints():
        keys += [(" · " if keys else "", "muted"), (name, "accent"), (f" {word}", "muted")]
    return [
        edge(HEAVY, True, (("Filter", "bold"),), ((shown, "text"),), width),
        *(sides(HEAVY, line, width) for line in lines),
        edge(HEAVY, False, tuple(keys), (), width),
    ]


def _joined(cells: Sequence[list[Span]], widths: Sequence[int]) -> list[Span]:
    line: list[Span] = []
    for cell, width in zip(cells, widths, strict=True):
        line += crop(cell, width - 1)
        line.append((" ", ""))
    return line


def _cell(state: Choosing, option: Option, here: bool, width: int) -> list[Span]:
    """`▶● bash      41`: cursor, chosen, its mark, its name, how many it would show."""
    chosen = option in state.filter.chosen
    count = state.tally.count(state.filter, option) if state.counted else None
    number = "…" if count is None else f"{count:,}"
    style = "text" if count or chosen or count is None else "muted"
    head: list[Span] = [
        ("▶" if here else " ", "accent"),
        ("●" if chosen else " ", "accent bold"),
        *_sign(option),
    ]
    room = max(width - 1 - width_of(head) - len(number) - 1, 1)
    words = cut_right(f"{option.words} (aside)" if option.name in ASIDES else option.words, room)
    if here:
        style += " reverse"
    elif chosen:
        style += " bold"
    gap = room - width_of([(words, "")]) + 1
    return [*head, (words, style), (" " * gap, ""), (number, "muted")]


def _sign(option: Option) -> list[Span]:
    if option.group == "fate":
        fate = FATE_OF[LETTERS[option.name]]  # type: ignore[index]
        return [letter(fate), gutter_sign(fate), (" ", "")]
    if option.group == "mark":
        return [_MARKS[option.name], (" ", "")]
    return [(" ", "")] if option.group == "kind" else [("  ", "")]


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
        """One of the keys in `KEYS`; a fate's letter comes as an event."""
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
