"""Help, over any screen: its keys first, then what works everywhere, then the slash commands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from textual import on
from textual.app import App
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from foldline.tui.blocks.cells import Span, Spans, crop, width_of, wrap_spans
from foldline.tui.keys.commands import CHAT, COMMANDS, Command, is_everywhere
from foldline.tui.keys.table import (
    ActiveTable,
    ScreenKey,
    active_tables,
    bindings,
    moves,
    name_of,
    names_of,
    table,
)
from foldline.tui.lists.screen import Field, PageScreen
from foldline.tui.widgets.lines import Line, boxed, filled

KEYS: Final = table(
    "help",
    *moves("line", letters=False, far="A screen", place="anywhere"),
    "List",
    ScreenKey[None](
        "close",
        ("escape", "f1"),
        "Empties the field, then closes. So does the key that opened the help.",
        place="anywhere",
    ),
)

_WIDEST: Final = 176
"""Cells of the box: two columns; longer lines are hard to read."""
COLUMN: Final = 70
"""Cells from which a column of help is good to read."""
_BETWEEN: Final = 3
_WIDEST_KEYS: Final = 26
"""Cells of the column of keys; longer ones stand on a line of their own."""


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A key or slash command, and what it does."""

    keys: str
    text: str
    works: bool = True
    """Whether it does anything now."""


@dataclass(frozen=True, slots=True)
class HelpGroup:
    """Rows that belong together."""

    title: str
    rows: tuple[HelpRow, ...]


@dataclass(frozen=True, slots=True)
class HelpPart:
    """The keys of one screen, or what works everywhere."""

    title: str
    """Nothing where it is the first, whose title the box has."""
    groups: tuple[HelpGroup, ...]

    @property
    def count(self) -> int:
        return sum(len(group.rows) for group in self.groups)


def found(parts: Sequence[HelpPart], typed: str) -> tuple[HelpPart, ...]:
    """What holds every word typed, in keys, text or the title of its group."""
    words = typed.lower().split()
    if not words:
        return tuple(parts)

    def holds(group: HelpGroup, row: HelpRow) -> bool:
        said = f"{row.keys} {row.text} {group.title}".lower()
        return all(word in said for word in words)

    kept = (
        replace(
            part,
            groups=tuple(
                HelpGroup(group.title, rows)
                for group in part.groups
                if (rows := tuple(row for row in group.rows if holds(group, row)))
            ),
        )
        for part in parts
    )
    return tuple(part for part in kept if part.groups)


def open_help(app: App[Any]) -> None:
    """Show what the keys of the screen in front mean; close it where it is shown."""
    screen = app.screen
    if isinstance(screen, HelpScreen):
        screen.dismiss()
    else:
        app.push_screen(HelpScreen(*help_of(screen)))


def help_of(screen: Screen[Any]) -> tuple[str, list[HelpPart]]:
    """The title and the parts of the help for a screen."""
    here = active_tables(screen)
    inner = [table for table in here if table.name != CHAT]
    parts = [_part(table) for table in (*inner, *(each for each in here if each.name == CHAT))]
    parts.append(HelpPart("On every screen", (HelpGroup("", tuple(_everywhere())),)))
    if any(table.name == CHAT for below in screen.app.screen_stack for table in active_tables(below)):
        parts.append(HelpPart("Slash commands, in the prompt", (HelpGroup("", tuple(_slash())),)))
    first, *others = (part for part in parts if part.count)
    return first.title, [replace(first, title=""), *others]


def _part(table: ActiveTable) -> HelpPart:
    rows: dict[str, list[HelpRow]] = {}
    for key, works in table.entries():
        if key.pressed and not (table.name == CHAT and is_everywhere(key)):
            also = f" Also /{key.slash}." if isinstance(key, Command) and key.slash else ""
            rows.setdefault(key.group, []).append(HelpRow(" ".join(key.names), key.help + also, works))
    return HelpPart(table.table.title, tuple(HelpGroup(group, tuple(each)) for group, each in rows.items()))


def _everywhere() -> Iterator[HelpRow]:
    for key in COMMANDS:
        if is_everywhere(key):
            yield HelpRow(" ".join(key.names), key.help)


def _slash() -> Iterator[HelpRow]:
    for command in sorted((command for command in COMMANDS if command.slash), key=lambda each: each.slash):
        yield HelpRow(command.usage, command.help)


class HelpScreen(PageScreen[Line]):
    """What keys and commands do; closing it gives everything back as it was."""

    DEFAULT_CSS: ClassVar[str] = f"HelpScreen > ListBox {{ width: {_WIDEST}; height: 100%; }}"
    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")
    margin = 3

    def __init__(self, title: str, parts: Sequence[HelpPart]) -> None:
        self._find = Field("find", "type to find a key or a command")
        super().__init__((), (self._find,))
        self._title = f"Help · {title}"
        self._parts = parts
        self._shown = tuple(parts)

    def field(self) -> Field:
        return self._find

    def height_wanted(self) -> str:
        return "100%"

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value == "?":  # the key that opened it, once more
            self.dismiss()
        self._shown, self.at = found(self._parts, event.value), 0
        self.update()

    def leave(self) -> None:
        if self._find.value:
            self._find.value = ""
        else:
            self.dismiss()

    def draw(self, width: int, height: int) -> list[Line]:
        self.rows = help_lines(self._shown, max(width - 4, 1)) or [
            [("Nothing here is called that.", "muted")]
        ]
        room = max(height - self.margin, 1)
        self.at = min(self.at, max(len(self.rows) - room, 0))
        lines = [[(" ", ""), *line] for line in self.rows[self.at : self.at + room]]
        head: Line = [(" ❯ ", "accent")]
        title, foot = ((self._title, "text bold"),), self._foot(width)
        return boxed(width, title, "", [head, *filled(lines, room)], foot, self._place(room))

    def _foot(self, width: int) -> Spans:
        find, closes = "type to find", f"{name_of(KEYS, 'close')} close"
        scroll = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-down')} scroll"
        whole = " · ".join((find, scroll, closes))
        return ((whole if len(whole) <= width - 6 else f"{find} · {closes}", "muted"),)

    def _place(self, room: int) -> Spans:
        count, total = (sum(part.count for part in parts) for parts in (self._shown, self._parts))
        if count < total:
            return ((f"{count} of {total}", "muted"),)
        below = len(self.rows) - self.at - room
        return ((f"{below} more lines ▼", "muted"),) if below > 0 else ()


def help_lines(parts: Sequence[HelpPart], width: int) -> list[Line]:
    """All lines, each of exactly `width` cells."""
    columns = max(width // COLUMN, 1)
    inner = (width - _BETWEEN * (columns - 1)) // columns
    lines: list[Line] = []
    for part in parts:
        lines.append([])  # below the field, and between parts
        if part.title:
            lines.append([(part.title, "text bold")])
        keys = _keys_column(part)
        blocks = [block for group in part.groups for block in _blocks(group, keys, inner)]
        lines += _side_by_side(_in_columns(blocks, columns), inner)
    return [crop(line, width) for line in lines]


def _keys_column(part: HelpPart) -> int:
    widths = [width_of([(row.keys, "")]) for group in part.groups for row in group.rows]
    return min(max((width for width in widths if width <= _WIDEST_KEYS), default=0), _WIDEST_KEYS) + 2


def _blocks(group: HelpGroup, keys: int, width: int) -> Iterator[list[Line]]:
    """What stays together in a column: a group with its title, else each row."""
    rows = [list(_row_lines(row, keys, width)) for row in group.rows]
    if group.title:
        rule = [(f"── {group.title} ", "muted"), ("─" * max(width - len(group.title) - 4, 0), "muted")]
        yield [rule, *(line for row in rows for line in row)]
    else:
        yield from rows


def _row_lines(row: HelpRow, keys: int, width: int) -> Iterator[Line]:
    own = width_of([(row.keys, "")])
    text: Spans = ((row.text, "text" if row.works else "muted"),)
    if not row.works:
        text = (*text, (" Not now.", "muted"))
    lead: Span = (row.keys, "accent" if row.works else "muted")
    if own > keys - 2:
        yield [(" ", ""), lead]
        lead, own = ("", ""), 0
    for at, line in enumerate(wrap_spans(list(text), max(width - keys - 1, 8))):
        first: Line = [(" ", ""), lead, (" " * (keys - own), "")]
        yield [*(first if not at else [(" " * (keys + 1), "")]), *line]


def _in_columns(blocks: Sequence[list[Line]], columns: int) -> list[list[Line]]:
    """The blocks one below the other, in as many columns of about the same height; none is torn apart."""
    least = max((len(block) for block in blocks), default=0)
    total = sum(len(block) for block in blocks)
    height = max(least, -(-total // columns))
    while True:
        placed: list[list[Line]] = [[]]
        for block in blocks:
            if placed[-1] and len(placed[-1]) + len(block) > height:
                placed.append([])
            placed[-1] += block
        if len(placed) <= columns:
            return placed
        height += 1


def _side_by_side(columns: Sequence[list[Line]], width: int) -> Iterator[Line]:
    for number in range(max(map(len, columns), default=0)):
        line: Line = []
        for at, column in enumerate(columns):
            if at:
                line.append((" " * _BETWEEN, ""))
            line += crop(column[number] if number < len(column) else [], width)
        yield line
