"""The Inspector's keys: one table that bindings, hints and the help list come from."""

from collections.abc import Container
from typing import Final

from foldline.tui.keys.names import joined
from foldline.tui.keys.table import (
    HELP,
    ScreenKey,
    cursor_keys,
    hint_words,
    jump_keys,
    key_of,
    name_of,
    panel_keys,
    search_keys,
    table,
)

EDIT: Final = "Edit"
"""The group of the keys that change the view: only a session that is open for work has them."""


def _key(
    id: str,
    keys: str,
    help: str,
    title: str,
    hint: str = "",
    shown: str = "",
    *,
    own: bool = False,
    palette: bool = True,
) -> ScreenKey[bool]:
    return ScreenKey(id, tuple(keys.split()), help, "", hint, shown, own=own, title=title, palette=palette)


def _edit_key(id: str, key: str, help: str) -> ScreenKey[bool]:
    return ScreenKey(id, (key,), help, EDIT, id, title=id.capitalize(), works=lambda live: live)


KEYS: Final[tuple[ScreenKey[bool], ...]] = table(
    "inspector",
    "Move",
    *cursor_keys(
        "Moves the cursor by an entry.",
        "A screen up or down, the first entry, the last one. At the last line the panel follows.",
    ),
    _key(
        "open",
        "enter",
        "Opens an entry in place, or closes it. On a file: its newest touch in History, again an older one.",
        "Open",
        "open",
        own=True,
    ),
    "Panels",
    *panel_keys(
        "History: every entry since the first",
        "LLM view: what the next request sends, item by item",
        "Files: those that were modified and read",
        "Timeline: tokens per request",
        mark="entry",
        shown="Tab 1–4",
        below="the timeline",
    ),
    "Jump",
    _key(
        "compaction",
        "g",
        "To the compaction that took or changed this entry; from one, back to what it stands for.",
        "Its compaction",
        "compaction",
    ),
    _key(
        "subagent",
        "o",
        "Opens the session of the subagent that this entry started, or is the answer of.",
        "Its subagent",
        "subagent",
    ),
    *jump_keys("prompt", ("[", "]"), hint="prompt"),
    *jump_keys("compaction", ("{", "}"), hint="compaction"),
    "Search",
    _key(
        "filter",
        "f",
        "Chooses what this panel shows: by kind, state or mark; system notes, too.",
        "Filter",
        "filter",
    ),
    *search_keys("Finds text in this panel, closed entries included.", "entry"),
    "Move",
    _key(
        "copy",
        "y",
        "Copies the text of the entry, with OSC 52: the terminal puts it on the clipboard.",
        "Copy",
    ),
    _edit_key(
        "pin",
        "p",
        "Brings an entry and its tool group back verbatim and keeps them in every later compaction; again, "
        "unpins.",
    ),
    _edit_key("hide", "z", "Puts a placeholder in the place of a tool result; again, shows it."),
    _edit_key("drop", "x", "Takes an entry and its tool group out of the view."),
    _edit_key("restore", "r", "Brings an entry and its tool group back verbatim."),
    _edit_key(
        "undo",
        "u",
        "Takes back the newest change of the view: an edit, a compaction, a clear, a rewind; then the one "
        "before.",
    ),
    "Time",
    _key(
        "older-request",
        ",",
        "All panels as of the request before. Nothing can be edited there.",
        "As of the request before",
    ),
    _key("newer-request", ".", "As of the next request.", "As of the next request"),
    _key(
        "before-compaction",
        "<",
        "Right after the compaction before: what it left of the view.",
        "As of the compaction before",
    ),
    _key("after-compaction", ">", "Right after the next compaction.", "As of the next compaction"),
    _key("now", "0", "Back to now, to where you were.", "Back to now"),
    _key(
        "along",
        "left right",
        "On the timeline: one request. Home: the first one. End: now. Enter: the first entry it sent anew.",
        "Along the timeline",
        own=True,
        palette=False,
    ),
    _key(
        "mark",
        "space",
        "Marks an entry: pin, hide, drop and restore act on all that are marked. On the timeline: marks the "
        "shown request to compare others with. Again, unmarks it.",
        "Mark",
    ),
    _key(
        "diff",
        "d",
        "Compares this request with the one before; on a compaction, the views before and after it; with a "
        "marked request, that one and this.",
        "Compare requests",
        "compare",
    ),
    "Panels",
    _key(
        "maximise",
        "m",
        "Beside the chat: the whole screen for the Inspector; again, back beside the chat.",
        "Maximise",
    ),
    "Program",
    HELP,
    _key("close", "escape f2", "Closes the search, then the Inspector.", "Close", "close", "Esc"),
)
"""What decides which of them work: whether the session is open for work."""


def hints(closes: str, *, live: bool = False, idle: Container[str] = ()) -> list[tuple[str, str]]:
    """(keys, word) pairs for the row of hints, the last one for its right end. `idle` commands would do
    nothing at the place."""
    keys = [key for key in KEYS if key.id not in idle]
    return [(names, closes if word == "close" else word) for names, word in hint_words(keys, live)]


_PAST_HINTS: Final = (
    (("older-request", "newer-request"), "request"),
    (("now",), "now"),
    (("before-compaction", "after-compaction"), "compactions"),
    (("diff",), "compare"),
    (("move",), "move"),
    (("open",), "open"),
    (("next-panel",), "panel"),
    (("search",), "search"),
    (("filter",), "filter"),
    (("help",), "keys"),
    (("close",), "close"),
)
_TIMELINE_HINTS: Final = (
    (("along",), "one request"),
    (("before-compaction", "after-compaction"), "compactions"),
    (("open",), "its first entry"),
    (("now",), "now"),
    (("mark",), "mark"),
    (("diff",), "compare"),
    (("next-panel",), "panel"),
    (("help",), "keys"),
    (("close",), "close"),
)


def time_hints(*, on_timeline: bool) -> list[tuple[str, str]]:
    """(keys, word) of what works on the timeline, or in the other panels at an earlier moment."""
    return [(names(*commands), word) for commands, word in (_TIMELINE_HINTS if on_timeline else _PAST_HINTS)]


def scrubbing_words() -> str:
    """The lower edge of the timeline: `, . one request · < > compactions · 0 back to now`."""
    requests, compactions = (
        names("older-request", "newer-request"),
        names("before-compaction", "after-compaction"),
    )
    return f"{requests} one request · {compactions} compactions · {name_of(KEYS, 'now')} back to now"


def names(*commands: str) -> str:
    """How hints call the keys of commands that belong together."""
    shown = (
        "".join(key_of(KEYS, each).names[:2]) if each == "along" else name_of(KEYS, each) for each in commands
    )
    return joined([name for name in shown if name])
