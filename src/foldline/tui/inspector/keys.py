"""The Inspector's keys: one table that bindings, hints and the help list come from."""

from collections.abc import Iterator
from typing import Final

from textual.binding import Binding, BindingType

from foldline.tui.blocks import Block, RuleBlock, TextBlock
from foldline.tui.commands import Command, key_name

EDIT: Final = "Edit"
"""The group of the keys that change the view: only a session that is open for work has them."""

KEYS: Final[tuple[Command, ...]] = (
    Command("move", "Move", "Moves the cursor by an entry.", "Move", ("up", "down", "k", "j"), hint="move"),
    Command(
        "page",
        "Page",
        "A screen up or down, the first entry, the last one. At the last line the panel follows.",
        "Move",
        ("pageup", "pagedown", "home", "end"),
    ),
    Command(
        "open",
        "Open",
        "Opens an entry in place, or closes it. On a file: its newest touch in History, again an older one.",
        "Move",
        ("enter",),
        hint="open",
    ),
    Command(
        "next-panel",
        "Next panel",
        "To the next panel, on the entry marked ▷.",
        "Panels",
        ("tab",),
        hint="panel",
    ),
    Command("previous-panel", "Previous panel", "To the panel before.", "Panels", ("shift+tab",)),
    Command("panel-1", "History", "To History: every entry since the first.", "Panels", ("1",)),
    Command(
        "panel-2", "LLM view", "To the LLM view: what the next request sends, item by item.", "Panels", ("2",)
    ),
    Command("panel-3", "Files", "To the files that were modified and read.", "Panels", ("3",)),
    Command(
        "fold",
        "Its fold",
        "To the compaction that folded or changed this entry.",
        "Jump",
        ("g",),
        hint="its fold",
    ),
    Command("older-prompt", "Previous prompt", "To the prompt before.", "Jump", ("[",), hint="prompt"),
    Command("newer-prompt", "Next prompt", "To the next prompt.", "Jump", ("]",), hint="prompt"),
    Command(
        "older-fold", "Previous fold", "To the compaction or summary before.", "Jump", ("{",), hint="fold"
    ),
    Command("newer-fold", "Next fold", "To the next compaction or summary.", "Jump", ("}",), hint="fold"),
    Command(
        "search",
        "Search",
        "Finds text in this panel, closed entries included.",
        "Search",
        ("/",),
        hint="search",
    ),
    Command("next-match", "Next match", "The next entry that holds it.", "Search", ("n",)),
    Command("previous-match", "Previous match", "The entry before that holds it.", "Search", ("N",)),
    Command(
        "pin",
        "Pin",
        "Brings an entry and its tool group back verbatim and keeps them in every later fold; again, unpins.",
        EDIT,
        ("p",),
        hint="pin",
    ),
    Command(
        "hide",
        "Hide",
        "Puts a stub in the place of a tool result; again, shows it.",
        EDIT,
        ("z",),
        hint="hide",
    ),
    Command("drop", "Drop", "Takes an entry and its tool group out of the view.", EDIT, ("x",), hint="drop"),
    Command(
        "restore",
        "Restore",
        "Brings an entry and its tool group back verbatim.",
        EDIT,
        ("r",),
        hint="restore",
    ),
    Command(
        "undo",
        "Undo",
        "Takes back the newest change of the view: an edit, a fold, a clear, a rewind; then the one before.",
        EDIT,
        ("u",),
        hint="undo",
    ),
    Command("help", "Help", "This list.", "Program", ("?", "f1"), hint="keys"),
    Command(
        "close", "Close", "Closes the search, then the Inspector.", "Program", ("escape", "f2"), hint="close"
    ),
)

_BUILT_IN: Final = ("move", "page", "open")
"""Carried out by the panel's own component."""


def bindings() -> list[BindingType]:
    """A binding for each key that is the Inspector's own."""
    return [
        Binding(",".join(command.keys), f"inspect('{command.id}')", command.title, show=False)
        for command in KEYS
        if command.id not in _BUILT_IN
    ]


_SHORT: Final = {
    "move": "↑↓",
    "prompt": "[ ]",
    "fold": "{ }",
    "panel": "Tab 1–3",
    "close": "Esc",
    "keys": "?",
}


def _keys(live: bool) -> list[Command]:
    return [command for command in KEYS if live or command.group != EDIT]


def hints(closes: str, *, live: bool = False) -> tuple[tuple[str, str], ...]:
    """(keys, word) pairs for the row of hints, the last one for its right end."""
    words = dict.fromkeys(command.hint for command in _keys(live) if command.hint)
    keys = {command.hint: key_name(command.keys[0]) for command in reversed(KEYS) if command.hint}
    return tuple(
        (
            _SHORT.get(word, keys[word].lower() if len(keys[word]) == 1 else keys[word]),
            closes if word == "close" else word,
        )
        for word in words
    )


def _name(key: str) -> str:
    """A key as people know it; letters as they are typed."""
    return key if len(key) == 1 else {"home": "Home"}.get(key, key_name(key))


def help_blocks(*, live: bool = False) -> Iterator[Block]:
    """A rule for each group, a paragraph for each key."""
    group = ""
    for number, command in enumerate(_keys(live)):
        if command.group != group:
            yield RuleBlock((number, 0), command.group, "muted", gap=int(bool(group)), stop=False, wide=False)
            group = command.group
        keys = " ".join(_name(key) for key in command.keys)
        yield TextBlock((number, 1), command.help, lead=((f"{keys:<18} ", "accent"),))
