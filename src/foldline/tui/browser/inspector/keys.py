"""The Inspector's keys: one table for bindings, hints and help."""

from collections.abc import Container
from typing import Final

from foldline.frontend.keymap import (
    HELP,
    ScreenKey,
    cursor_keys,
    hint_words,
    jump_keys,
    name_of,
    names_of,
    panel_keys,
    search_keys,
    table,
)

EDIT: Final = "Edit"
"""The group of keys that change the view. They do not work in read-only Inspectors."""


def _key(
    id: str,
    keys: str,
    help: str,
    title: str,
    hint: str = "",
    shown: str = "",
    *,
    own: bool = False,
) -> ScreenKey[bool]:
    return ScreenKey(
        id,
        tuple(keys.split()),
        help,
        "",
        hint,
        shown,
        own=own,
        title=title,
    )


def _edit_key(id: str, key: str, help: str) -> ScreenKey[bool]:
    return ScreenKey(
        id, (key,), help, EDIT, id, title=id.capitalize(), works=lambda live: live
    )


KEYS: Final[tuple[ScreenKey[bool], ...]] = table(
    "inspector",
    "Move",
    *cursor_keys(
        "Moves the cursor up or down one entry.",
        "Goes up or down one screen, or to the first or last entry. At the last line, the panel follows new "
        "entries.",
    ),
    _key(
        "open",
        "enter",
        "Expands or collapses an entry in place. On a file: goes to its latest access. Press again for "
        "earlier ones.",
        "Open",
        "open",
        own=True,
    ),
    "Panels",
    *panel_keys(
        "History: all entries",
        "LLM view: the items of the next request",
        "Files: modified and read files",
        mark="entry",
        shown="Tab 1–3",
    ),
    "Jump",
    _key(
        "compaction",
        "g",
        "Goes to the compaction that summarised or changed this entry; from a compaction, back to an entry.",
        "Its compaction",
        "compaction",
    ),
    _key(
        "subagent",
        "o",
        "Opens the session of the subagent that this entry started, or whose result this entry is.",
        "Its subagent",
        "subagent",
    ),
    *jump_keys("prompt", ("[", "]"), hint="prompt"),
    *jump_keys("compaction", ("{", "}"), hint="compaction"),
    "Search",
    *search_keys(
        "Finds text in this panel, also in closed entries. Finds entries by their properties with tool:bash, "
        "kind:user, state:hidden or mark:failed.",
        "entry",
    ),
    "Move",
    _key(
        "copy",
        "y",
        "Copies the text of the entry to the clipboard, through the terminal (OSC 52).",
        "Copy",
    ),
    _edit_key(
        "pin",
        "p",
        "Restores an entry and its tool group verbatim, and keeps them in later compactions. Again: unpins "
        "them.",
    ),
    _edit_key(
        "hide",
        "z",
        "Replaces a tool result with a placeholder. Again: shows it.",
    ),
    _edit_key("drop", "x", "Removes an entry and its tool group from the view."),
    _edit_key("restore", "r", "Restores an entry and its tool group verbatim."),
    _edit_key(
        "undo",
        "u",
        "Undoes the newest change to the view (edit, compaction, clear or rewind). Press again for earlier "
        "ones.",
    ),
    "Time",
    _key(
        "older-request",
        ",",
        "Shows all panels as of the previous request, read-only.",
        "As of the previous request",
        "request",
    ),
    _key(
        "newer-request",
        ".",
        "Shows all panels as of the next request.",
        "As of the next request",
        "request",
    ),
    _key(
        "before-compaction",
        "<",
        "Goes back: all panels show the state just after the previous compaction.",
        "As of the previous compaction",
        "compaction",
    ),
    _key(
        "after-compaction",
        ">",
        "Goes forward: all panels show the state just after the next compaction.",
        "As of the next compaction",
        "compaction",
    ),
    _key(
        "now",
        "0",
        "Returns to the current state and your earlier position.",
        "Back to now",
        "now",
    ),
    _key(
        "timeline",
        "4",
        "Shows or hides the timeline, with the tokens per request.",
        "Timeline",
    ),
    _key(
        "first-entry",
        "f",
        "Goes to the first entry that the shown request added.",
        "First entry of the request",
    ),
    _key(
        "mark",
        "space",
        "Marks an entry, so that pin, hide, drop and restore act on all marked entries. In an earlier state: "
        "marks the shown request for comparison with others. Again: removes the mark.",
        "Mark",
        "mark",
    ),
    _key(
        "diff",
        "d",
        "Compares this request with the marked one, or with the previous one. On a compaction: compares the "
        "views before and after it. Again: shows the next of these comparisons.",
        "Compare requests",
        "compare",
    ),
    "Panels",
    _key(
        "maximise",
        "m",
        "Shows the Inspector full screen. Again: beside the chat.",
        "Maximise",
    ),
    _key(
        "by-size",
        "s f4",
        "Shows what fills the window by category, and lists the items by size. Again: lists them in order.",
        "By size",
        "by size",
    ),
    _key(
        "notes",
        "a",
        "Shows or hides system notes in History: requests, notices, approvals and edits.",
        "System notes",
    ),
    "Program",
    HELP,
    _key(
        "close",
        "escape f2",
        "Ends the search, then closes the Inspector.",
        "Close",
        "close",
        "Esc",
    ),
)
"""The key table. The argument of each key's `works` is whether the session can be edited."""


_TIME: Final = frozenset(
    {
        "older-request",
        "newer-request",
        "before-compaction",
        "after-compaction",
        "now",
        "mark",
    }
)
"""Commands whose hints are shown only in an earlier state."""
_OF_ROWS: Final = frozenset(
    key.id for key in KEYS if key.group in ("Jump", "Search")
) | {"move", "compaction", "subagent"}
"""Commands whose hints make room for those of `_TIME` in an earlier state."""


def hints(
    closes: str,
    *,
    live: bool = False,
    past: bool = False,
    idle: Container[str] = (),
) -> list[tuple[str, str]]:
    """Return the (keys, word) pairs of the key hints, with the close key last.

    Args:
        closes: the word for the close key.
        live: whether the session can be edited.
        past: whether an earlier state is shown.
        idle: commands that have no effect on the current row.
    """
    hidden = _OF_ROWS if past else _TIME
    keys = [key for key in KEYS if key.id not in hidden and key.id not in idle]
    return [
        (names, closes if word == "close" else word)
        for names, word in hint_words(keys, live)
    ]


def scrubbing_words() -> str:
    """Return the hints at the bottom of the timeline: `, . request · < > compaction · 0 back to now`."""
    requests = names_of(KEYS, "older-request", "newer-request")
    compactions = names_of(KEYS, "before-compaction", "after-compaction")
    return f"{requests} request · {compactions} compaction · {name_of(KEYS, 'now')} back to now"
