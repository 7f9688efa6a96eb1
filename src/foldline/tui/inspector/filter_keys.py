"""The keys of the list a filter is chosen from: bindings, its lower edge and the help come from it."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table

KEYS: Final[tuple[ScreenKey[None], ...]] = table(
    "filter",
    ScreenKey("up", ("up", "k"), "To the choice above.", "Move", title="Choice above"),
    ScreenKey("down", ("down", "j"), "To the choice below.", "Move", title="Choice below"),
    ScreenKey("left", ("left", "h"), "To the column at the left.", "Move", title="Column at the left"),
    ScreenKey("right", ("right", "l"), "To the column at the right.", "Move", title="Column at the right"),
    ScreenKey(
        "choose", ("space",), "Chooses it, or no longer; the panel follows at once.", "Filter", "chooses"
    ),
    ScreenKey("take", ("enter",), "Chooses it and goes back to the panel.", "Filter", "takes"),
    ScreenKey(
        "fate",
        ("L", "C", "H", "S", "T", "R", "X", "D"),
        "Chooses what became of an entry by its letter.",
        "Filter",
        title="A fate by its letter",
        own=True,
    ),
    ScreenKey("asides", ("a",), "Shows asides, too, or hides them.", "Filter", title="Asides"),
    ScreenKey("clear", ("backspace",), "Shows everything again.", "Filter", "all", title="Clear the filter"),
    ScreenKey(
        "close", ("escape", "f"), "Back to the panel; the filter stays.", "Program", "closes", title="Close"
    ),
)
"""Nothing decides which of them work: all do, always."""


def hints() -> tuple[tuple[str, str], ...]:
    """(key, word) of what stands in the lower edge."""
    return tuple((key.name, key.hint) for key in KEYS if key.hint)
