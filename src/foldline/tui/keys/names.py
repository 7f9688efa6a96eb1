"""Keys by name: as people write them, as Textual calls them, as the screen shows them. Pure."""

import re
from contextlib import suppress
from string import punctuation
from typing import Final
from unicodedata import lookup, name

from textual.keys import KEY_NAME_REPLACEMENTS

_CHARACTERS: Final = {
    sign: KEY_NAME_REPLACEMENTS.get(named, named)
    for sign in punctuation
    for named in (re.sub("[ -]", "_", name(sign).lower()),)
}
"""Textual's names of what is neither letter nor digit."""

_SHOWN: Final = {
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "space": "Space",
    "backspace": "Backspace",
    "insert": "Ins",
    "delete": "Del",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "ctrl": "Ctrl",
    "alt": "Alt",
    "shift": "Shift",
}

_SPELLINGS: Final = {
    **{shown.lower(): name for name, shown in _SHOWN.items()},
    **{name: name for name in _SHOWN},
    "return": "enter",
    "page_up": "pageup",
    "page_down": "pagedown",
    "pgdown": "pagedown",
    "control": "ctrl",
    "option": "alt",
    "meta": "alt",
}

_ARROWS: Final = "↑↓←→"

WAYS_OUT: Final = ("escape", "ctrl+c")
"""They do what they do on every screen, whatever else is chosen."""

MODIFIERS: Final = ("alt", "ctrl", "shift")
"""In the order Textual writes them in."""
_NAMED: Final = frozenset({*_SHOWN, *(f"f{number}" for number in range(1, 25))} - {*MODIFIERS})
_CHARACTER_OF: Final = {name: character for character, name in _CHARACTERS.items()}

ALLOWED: Final = (
    "one character (`p`, `N`, `?`), a name (f1 to f24, enter, escape, tab, space, backspace, insert, delete, "
    "up, down, left, right, home, end, pageup, pagedown), or one of these behind ctrl+, alt+ or shift+"
)
"""What a key may be called in a file, in words."""


def spelled(written: str) -> str | None:
    """Textual's name of a key that somebody wrote: `Ctrl+E`, `F2`, `?`; None where there is no such key."""
    if len(written) == 1:
        return _SPELLINGS.get(written) or _character(written)
    written = written.strip()
    head, _, last = written.rpartition("+")
    if written.endswith("++"):
        head, last = written[:-2], "+"
    held = {_SPELLINGS.get(part.lower(), part) for part in head.split("+")} if head else set()
    if not held <= {*MODIFIERS}:
        return None
    if len(last) == 1 and last not in _SPELLINGS:
        # A letter is written as on its key cap; with Shift alone it is another character.
        if held == {"shift"}:
            return last.upper() if last.isalpha() else None
        key = _character(last.lower())
    else:
        key = _SPELLINGS.get(last.lower(), last.lower())
        key = key if key in _NAMED or key in _CHARACTER_OF else None
    return None if key is None else "+".join((*sorted(held), key))


def _character(written: str) -> str | None:
    if written == " ":
        return "space"
    return _CHARACTERS.get(written, written) if written.isprintable() else None


def key_name(key: str) -> str:
    """A key as people know it: `Ctrl+J`, `Alt+↑`, `F2`, `?`; a letter alone as it is typed."""
    *held, last = [key] if len(key) == 1 else key.split("+")
    as_typed = last if len(last) == 1 and not held else last.upper()
    names = [_SHOWN.get(part, part.upper()) for part in held]
    return "+".join((*names, _SHOWN.get(last) or _CHARACTER_OF.get(last) or as_typed))


def character_of(key: str) -> str:
    """The character that a key types; empty where it types none."""
    with suppress(KeyError):
        sign = key if len(key) == 1 else _CHARACTER_OF.get(key) or lookup(key.replace("_", " ").upper())
        return sign if sign.isprintable() else ""
    return ""


_TYPING: Final = frozenset({"space", "backspace", "delete", "left", "right", "home"})


def is_text(key: str) -> bool:
    """Whether an editor needs a key: it is a character, or moves and deletes in the text."""
    return len(key) == 1 or key in _CHARACTER_OF or key in _TYPING


def joined(names: list[str]) -> str:
    """How keys that share a place in a row are shown: `↑↓`, `Alt+↑↓`, `[ ]`; others by the first."""
    if all(len(name) == 1 for name in names):
        return ("" if {*names} <= {*_ARROWS} else " ").join(names)
    head, plus, last = names[0].rpartition("+")
    same = plus and all(
        name.rpartition("+")[0] == head and len(name.rpartition("+")[2]) == 1 for name in names
    )
    return f"{head}+{''.join(name.rpartition('+')[2] for name in names)}" if same and last else names[0]


def pressed_by(shown: str) -> list[tuple[str, str]]:
    """What hints call keys, part by part with the key, in Textual's name, that each stands for: `Alt+↑↓` is
    `Alt+↑` and `↓`. A part that names none, as in `Tab 1–4`, goes with the one before; empty where the
    first does."""
    parts: list[tuple[str, str]] = []
    for part in re.split("(?= )", shown):
        held, plus, last = part.strip().rpartition("+")
        key = spelled(part.strip() or part)
        if key is not None and not "\u2500" <= key <= "\u25ff":  # no line or mark that is drawn
            parts.append((part, key))
        elif last and (held or {*last} <= {*_ARROWS}):
            lead = part[: -len(last)]
            each = [(sign, spelled(f"{held}{plus}{sign}")) for sign in last]
            parts += [((lead if not at else "") + sign, key) for at, (sign, key) in enumerate(each) if key]
        elif parts:
            parts.append((part, parts[-1][1]))
    return parts
