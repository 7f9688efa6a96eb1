"""The Inspector's keys: one table that bindings, hints and the help list come from."""

from collections.abc import Container
from typing import Final

from foldline.tui.inspector.timekeys import TIME
from foldline.tui.keys.table import ScreenKey, hint_words, table

EDIT: Final = "Edit"
"""The group of the keys that change the view: only a session that is open for work has them."""


def _is_live(live: bool) -> bool:
    return live


KEYS: Final[tuple[ScreenKey[bool], ...]] = table(
    "inspector",
    ScreenKey(
        "move",
        ("up", "down", "k", "j"),
        "Moves the cursor by an entry.",
        "Move",
        "move",
        "↑↓",
        title="Move",
        own=True,
    ),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first entry, the last one. At the last line the panel follows.",
        "Move",
        title="Page",
        own=True,
    ),
    ScreenKey(
        "open",
        ("enter",),
        "Opens an entry in place, or closes it. On a file: its newest touch in History, again an older one.",
        "Move",
        "open",
        title="Open",
        own=True,
    ),
    ScreenKey(
        "next-panel",
        ("tab",),
        "To the next panel, on the entry marked ▷.",
        "Panels",
        "panel",
        "Tab 1–4",
        title="Next panel",
    ),
    ScreenKey("previous-panel", ("shift+tab",), "To the panel before.", "Panels", title="Previous panel"),
    ScreenKey("panel-1", ("1",), "To History: every entry since the first.", "Panels", title="History"),
    ScreenKey(
        "panel-2",
        ("2",),
        "To the LLM view: what the next request sends, item by item.",
        "Panels",
        title="LLM view",
    ),
    ScreenKey("panel-3", ("3",), "To the files that were modified and read.", "Panels", title="Files"),
    ScreenKey("panel-4", ("4",), "To the timeline: tokens per request.", "Panels", title="Timeline"),
    ScreenKey(
        "fold",
        ("g",),
        "To the compaction that folded or changed this entry; from one, back to what it stands for.",
        "Jump",
        "its fold",
        title="Its fold",
    ),
    ScreenKey("older-prompt", ("[",), "To the prompt before.", "Jump", "prompt", title="Previous prompt"),
    ScreenKey("newer-prompt", ("]",), "To the next prompt.", "Jump", "prompt", title="Next prompt"),
    ScreenKey(
        "older-fold",
        ("{",),
        "To the compaction or summary before.",
        "Jump",
        "fold",
        title="Previous fold",
    ),
    ScreenKey("newer-fold", ("}",), "To the next compaction or summary.", "Jump", "fold", title="Next fold"),
    ScreenKey(
        "filter",
        ("f",),
        "Chooses what this panel shows: by kind, by what became of it, by mark; asides, too.",
        "Search",
        "filter",
        title="Filter",
    ),
    ScreenKey(
        "search",
        ("/",),
        "Finds text in this panel, closed entries included.",
        "Search",
        "search",
        title="Search",
    ),
    ScreenKey("next-match", ("n",), "The next entry that holds it.", "Search", title="Next match"),
    ScreenKey("previous-match", ("N",), "The entry before that holds it.", "Search", title="Previous match"),
    ScreenKey(
        "copy",
        ("y",),
        "Copies the text of the entry, with OSC 52: the terminal puts it on the clipboard.",
        "Move",
        title="Copy",
    ),
    ScreenKey(
        "pin",
        ("p",),
        "Brings an entry and its tool group back verbatim and keeps them in every later fold; again, unpins.",
        EDIT,
        "pin",
        title="Pin",
        works=_is_live,
    ),
    ScreenKey(
        "hide",
        ("z",),
        "Puts a stub in the place of a tool result; again, shows it.",
        EDIT,
        "hide",
        title="Hide",
        works=_is_live,
    ),
    ScreenKey(
        "drop",
        ("x",),
        "Takes an entry and its tool group out of the view.",
        EDIT,
        "drop",
        title="Drop",
        works=_is_live,
    ),
    ScreenKey(
        "restore",
        ("r",),
        "Brings an entry and its tool group back verbatim.",
        EDIT,
        "restore",
        title="Restore",
        works=_is_live,
    ),
    ScreenKey(
        "undo",
        ("u",),
        "Takes back the newest change of the view: an edit, a fold, a clear, a rewind; then the one before.",
        EDIT,
        "undo",
        title="Undo",
        works=_is_live,
    ),
    *TIME,
    ScreenKey(
        "maximise",
        ("m",),
        "Beside the chat: the whole screen for the Inspector; again, back beside the chat.",
        "Panels",
        title="Maximise",
    ),
    ScreenKey("help", ("?", "f1"), "This list.", "Program", "keys", "?", title="Help"),
    ScreenKey(
        "close",
        ("escape", "f2"),
        "Closes the search, then the Inspector.",
        "Program",
        "close",
        "Esc",
        title="Close",
    ),
)
"""What decides which of them work: whether the session is open for work."""


def hints(closes: str, *, live: bool = False, idle: Container[str] = ()) -> tuple[tuple[str, str], ...]:
    """(keys, word) pairs for the row of hints, the last one for its right end. `idle` commands would do
    nothing at the place."""
    keys = [key for key in KEYS if key.id not in idle]
    return tuple((names, closes if word == "close" else word) for names, word in hint_words(keys, live))
