"""The list a filter is chosen from: three columns of choices, each with what it would show. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from foldline.context.view import FateKind
from foldline.tui.blocks import Span, cut_right
from foldline.tui.blocks.cells import width_of
from foldline.tui.inspector import filter_keys
from foldline.tui.inspector.filters import ASIDES, EVERYTHING, FATES, Filter, Option, Tally
from foldline.tui.inspector.places import LETTERS, letter, rail
from foldline.tui.widgets.completion import window_start
from foldline.tui.widgets.frames import HEAVY, edge, sides
from foldline.tui.widgets.rows import crop

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
    for name, word in filter_keys.hints():
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
        return [letter(fate), rail(fate), (" ", "")]
    if option.group == "mark":
        return [_MARKS[option.name], (" ", "")]
    return [(" ", "")] if option.group == "kind" else [("  ", "")]
