"""Help, over any screen: its keys first, then what works everywhere, then the slash commands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.cells import cell_len
from textual import on
from textual.app import App
from textual.screen import Screen
from textual.widgets import Input

from foldline.sequences import grouped
from foldline.tui.blocks.cells import Span, Spans, crop, ruled, width_of, wrap_spans
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
from foldline.tui.widgets.lines import Line, boxed, filled, key_words

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

_WIDEST: Final = 120
"""Cells of the box: longer lines are hard to read."""
_WIDEST_KEYS: Final = 26
"""Cells of the column of keys; longer ones stand on a line of their own."""


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A key or slash command, and what it does."""

    part: str
    """Whose it is: a screen's, or everybody's. Nothing for the first, whose title the box has."""
    group: str
    keys: str
    text: str
    works: bool = True
    """Whether it does anything now."""


def found(rows: Sequence[HelpRow], typed: str) -> Sequence[HelpRow]:
    """The rows that hold every word typed, in keys, text or the title of their group."""
    words = typed.lower().split()
    return [
        row for row in rows if all(word in f"{row.keys} {row.text} {row.group}".lower() for word in words)
    ]


def open_help(app: App[Any]) -> None:
    """Show what the keys of the screen in front mean; close it where it is shown."""
    screen = app.screen
    if isinstance(screen, HelpScreen):
        screen.dismiss()
    else:
        app.push_screen(HelpScreen(*help_of(screen)))


def help_of(screen: Screen[Any]) -> tuple[str, list[HelpRow]]:
    """The title and the rows of the help for a screen."""
    rows = [row for table in sorted(active_tables(screen), key=_is_chat) for row in _of_table(table)]
    everywhere = [key for key in COMMANDS if is_everywhere(key)]
    rows += [HelpRow("On every screen", "", " ".join(key.names), key.help_text) for key in everywhere]
    if any(_is_chat(table) for below in screen.app.screen_stack for table in active_tables(below)):
        slash = sorted((command for command in COMMANDS if command.slash), key=lambda each: each.slash)
        rows += [HelpRow("Slash commands, in the prompt", "", each.usage, each.explained) for each in slash]
    first = rows[0].part
    return first, [replace(row, part="") if row.part == first else row for row in rows]


def _is_chat(table: ActiveTable) -> bool:
    return table.name == CHAT


def _of_table(table: ActiveTable) -> Iterator[HelpRow]:
    for key, works in table.entries():
        if key.pressed and not (_is_chat(table) and is_everywhere(key)):
            also = f" Also /{key.slash}." if isinstance(key, Command) and key.slash else ""
            yield HelpRow(table.table.title, key.group, " ".join(key.names), key.help_text + also, works)


class HelpScreen(PageScreen[Line]):
    """What keys and commands do; closing it gives everything back as it was."""

    DEFAULT_CSS = f"HelpScreen > ListBox {{ width: {_WIDEST}; height: 100%; }}"
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")
    margin = 3

    def __init__(self, title: str, rows: Sequence[HelpRow]) -> None:
        self._find = Field("find", "type to find a key or a command")
        super().__init__((), (self._find,))
        self._title = f"Help · {title}"
        self._all = self._shown = rows

    def field(self) -> Field:
        return self._find

    def height_wanted(self) -> str:
        return "100%"

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value == "?":  # the key that opened it, once more
            self.dismiss()
        self._shown, self.at = found(self._all, event.value), 0
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
        head = [(" ❯ ", "accent")]
        title, foot = ((self._title, "text bold"),), self._foot(width)
        return boxed(width, title, "", [head, *filled(lines, room)], foot, self._place(room))

    def _foot(self, width: int) -> Spans:
        scroll, close = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-down')}", name_of(KEYS, "close")
        whole = key_words(((scroll, "scroll"), (close, "close")))
        return whole if width_of(whole) <= width - 6 else key_words(((close, "close"),))

    def _place(self, room: int) -> Spans:
        count, total = len(self._shown), len(self._all)
        if count < total:
            return ((f"{count} of {total}", "muted"),)
        below = len(self.rows) - self.at - room
        return ((f"{below} more lines ▼", "muted"),) if below > 0 else ()


def help_lines(rows: Sequence[HelpRow], width: int) -> list[Line]:
    """All lines, each of exactly `width` cells."""
    lines: list[Line] = []
    for title, part in grouped((row.part, row) for row in rows).items():
        lines.append([])  # below the field, and between parts
        if title:
            lines.append([(title, "text bold")])
        keys = max((cells for row in part if (cells := cell_len(row.keys)) <= _WIDEST_KEYS), default=0) + 2
        for group, each in grouped((row.group, row) for row in part).items():
            if group:
                lines.append(ruled(f"── {group}", width, "muted", "─"))
            lines += [line for row in each for line in _row_lines(row, keys, width)]
    return [crop(line, width) for line in lines]


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
