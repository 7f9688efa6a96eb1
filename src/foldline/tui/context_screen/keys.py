"""The keys of the Context screen."""

from typing import TYPE_CHECKING, Final

from foldline.tui.keys.table import ScreenKey, table

if TYPE_CHECKING:
    from foldline.tui.context_screen.screen import ContextPanels


def _edit_key(id: str, key: str, help: str, hint: str = "") -> "ScreenKey[ContextPanels]":
    return ScreenKey(id, (key,), help, "Edit", hint, works=lambda panels: panels.editable)


KEYS: Final[tuple["ScreenKey[ContextPanels]", ...]] = table(
    "context",
    "Panels",
    ScreenKey("move", ("up", "down", "k", "j"), "Moves the cursor.", own=True),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        own=True,
    ),
    ScreenKey("next-panel", ("tab",), "To the other panel.", hint="panel", shown="Tab"),
    ScreenKey("previous-panel", ("shift+tab",), "To the other panel.", palette=False),
    ScreenKey("panel-1", ("1",), "To Use: the window by category."),
    ScreenKey("panel-2", ("2",), "To Largest: the heaviest items of the next request."),
    ScreenKey(
        "enter",
        ("enter",),
        "In Use: goes to the largest item of this category. In Largest: opens it in the Inspector.",
        own=True,
    ),
    ScreenKey(
        "open", ("o",), "Opens the entry in the Inspector.", hint="open", works=lambda panels: panels.on_entry
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
        works=lambda panels: panels.undoable,
    ),
    "Search",
    ScreenKey("search", ("/",), "Finds text in this panel.", hint="search"),
    ScreenKey("next-match", ("n",), "The next row that holds it."),
    ScreenKey("previous-match", ("N",), "The row before that holds it."),
    "Program",
    ScreenKey("inspector", ("f2",), "The Inspector, at the entry under the cursor."),
    ScreenKey("preview", ("f3",), "The Compact preview: what would be done.", hint="preview"),
    ScreenKey("help", ("?", "f1"), "This list.", hint="keys", shown="?"),
    ScreenKey("close", ("escape", "f4"), "Ends the search, else closes.", hint="close", shown="Esc"),
)
