"""The page: a read-only text that scrolls."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from foldline.frontend.keymap import ScreenKey, moves, name_of, names_of, table
from foldline.text.harmless import clean_line
from foldline.tui.keys.bindings import bindings
from foldline.tui.lists.screen import ListScreen
from foldline.tui.look.cells import cut_right, wrap_spans
from foldline.tui.look.lines import Line, boxed, filled

KEYS: Final = table(
    "page",
    *moves("line"),
    "List",
    ScreenKey[None](
        "close",
        ("escape",),
        "Closes the page.",
        place="anywhere",
    ),
    title="Page of text",
)
MORE: Final = "{count} more lines ▼"
_WIDEST: Final = 120
"""Maximum width of the box, in cells."""


class TextScreen(ListScreen[None, Line]):
    """A page of text, wrapped between words. The page is as high as the text.

    `at` is the index of the first visible line.
    """

    DEFAULT_CSS = f"TextScreen > ListBox {{ width: {_WIDEST}; }}"
    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(self, title: str, text: str, *, at_end: bool = False) -> None:
        super().__init__()
        self._title = clean_line(title)
        self._text = text
        if at_end:
            self.at = len(text)

    def height_wanted(self) -> int:
        width = min(self.app.size.width, _WIDEST)
        return len(wrapped(self._text, width - 4)) + 2

    @property
    def _room(self) -> int:
        return max(self.box.size.height - 2, 1)

    def move(self, step: int) -> None:
        self.at = min(max(self.at + step, 0), max(len(self.rows) - self._room, 0))
        self.update()

    def do(self, command: str) -> None:
        step = max(self._room - 1, 1)
        match command:
            case "page-up":
                self.move(-step)
            case "page-down":
                self.move(step)
            case _:
                super().do(command)

    def draw(self, width: int, height: int) -> list[Line]:
        self.rows = wrapped(self._text, max(width - 4, 1))
        room = max(height - 2, 1)
        self.at = min(self.at, max(len(self.rows) - room, 0))
        lines = [[(" ", ""), *line] for line in self.rows[self.at : self.at + room]]
        title = ((cut_right(self._title, max(width - 8, 8)), "text bold"),)
        below = len(self.rows) - self.at - room
        aid = ((MORE.format(count=below), "muted"),) if below > 0 else ()
        return boxed(
            width,
            title,
            filled(lines, room),
            self.foot(width),
            aid,
        )

    def hints(self) -> list[tuple[str, str]]:
        scroll = f"{names_of(KEYS, 'up', 'down')} {name_of(KEYS, 'page-down')}"
        return [(scroll, "scroll"), (name_of(KEYS, "close"), "close")]


@lru_cache(maxsize=2)
def wrapped(text: str, width: int) -> Sequence[Line]:
    """Return the lines of a text, each at most `width` cells wide."""
    lines: list[Line] = []
    for line in text.removesuffix("\n").split("\n"):
        lines += wrap_spans([(clean_line(line), "text")], width) or [[]]
    return lines
