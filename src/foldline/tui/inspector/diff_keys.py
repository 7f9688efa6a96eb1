"""The keys of the difference of two views: one table that bindings, hints and the help list come from."""

from dataclasses import dataclass
from typing import Final

from foldline.tui.keys.table import ScreenKey, table


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    on_entry: bool = False
    """Whether the cursor is on an item."""
    others: bool = False
    """Whether there is another pair to compare."""


KEYS: Final[tuple[ScreenKey[Facts], ...]] = table(
    "difference",
    ScreenKey("move", ("up", "down", "k", "j"), "Moves the cursor.", "Move", "move", "↑↓", own=True),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        "Move",
        own=True,
    ),
    ScreenKey(
        "toggle",
        ("enter",),
        "Opens or closes what is under the cursor: items that are the same, a text, what changed in it.",
        "Move",
        "open or close",
        own=True,
    ),
    ScreenKey(
        "open",
        ("o",),
        "Goes to the entry in History.",
        "Jump",
        "entry in History",
        works=lambda f: f.on_entry,
    ),
    ScreenKey(
        "next-pair",
        ("d",),
        "Compares the next pair: with the marked request, before and after the fold, with the one before.",
        "Compare",
        "next pair",
        works=lambda f: f.others,
    ),
    ScreenKey("help", ("?", "f1"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Back to where you were.", "Program", "close", "Esc"),
)
