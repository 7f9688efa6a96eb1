"""The keys of the Context screen."""

from dataclasses import dataclass
from typing import Final

from foldline.tui.keys.table import ScreenKey, table


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    on_entry: bool = False
    """Whether the cursor is on an entry of the history."""
    editable: bool = False
    """Whether edits apply to it."""
    undoable: bool = False
    """Whether anything that changed the view is in force."""


def _edit_key(id: str, key: str, help: str, hint: str = "") -> ScreenKey[Facts]:
    return ScreenKey(id, (key,), help, "Edit", hint, works=lambda facts: facts.editable)


KEYS: Final[tuple[ScreenKey[Facts], ...]] = table(
    "context",
    ScreenKey("move", ("up", "down", "k", "j"), "Moves the cursor.", "Panels", own=True),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        "Panels",
        own=True,
    ),
    ScreenKey("next-panel", ("tab",), "To the other panel.", "Panels", "panel", "Tab"),
    ScreenKey("previous-panel", ("shift+tab",), "To the other panel.", "Panels", palette=False),
    ScreenKey("panel-1", ("1",), "To Use: the window by category.", "Panels"),
    ScreenKey("panel-2", ("2",), "To Largest: the heaviest items of the next request.", "Panels"),
    ScreenKey(
        "enter",
        ("enter",),
        "In Use: goes to the largest item of this category. In Largest: opens it in the Inspector.",
        "Panels",
        own=True,
    ),
    ScreenKey(
        "open", ("o",), "Opens the entry in the Inspector.", "Panels", "open", works=lambda f: f.on_entry
    ),
    _edit_key("pin", "p", "Pins an entry and its tool group: compactions keep them. Again, unpins.", "pin"),
    _edit_key("hide", "z", "Replaces a tool result with a placeholder; again, shows it.", "hide"),
    _edit_key("drop", "x", "Takes an entry and its tool group out of the view.", "drop"),
    _edit_key("restore", "r", "Brings an entry and its tool group back verbatim."),
    ScreenKey(
        "undo",
        ("u",),
        "Takes back the newest change of the view, then the one before.",
        "Edit",
        "undo",
        works=lambda facts: facts.undoable,
    ),
    ScreenKey("search", ("/",), "Finds text in this panel.", "Search", "search"),
    ScreenKey("next-match", ("n",), "The next row that holds it.", "Search"),
    ScreenKey("previous-match", ("N",), "The row before that holds it.", "Search"),
    ScreenKey("inspector", ("f2",), "The Inspector, at the entry under the cursor.", "Program"),
    ScreenKey("preview", ("f3",), "The Compact preview: what would be done.", "Program", "preview"),
    ScreenKey("help", ("?", "f1"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "f4"), "Ends the search, else closes.", "Program", "close", "Esc"),
)
