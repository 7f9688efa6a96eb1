"""Converts between the names of keys in files, in Textual and on screen."""

import re
from collections.abc import Iterable
from contextlib import suppress
from string import punctuation
from typing import Final
from unicodedata import lookup, name

_SHORTER: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Unicode names of characters that have a shorter name in Textual (`KEY_NAME_REPLACEMENTS`)."""
_CHARACTERS: Final = {
    sign: _SHORTER.get(named, named)
    for sign in punctuation
    for named in (re.sub("[ -]", "_", name(sign).lower()),)
}
"""Textual's names for punctuation characters."""

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
"""Keys that always close a screen or cancel, whatever the keymap says."""

MODIFIERS: Final = ("alt", "ctrl", "shift")
"""The modifiers in Textual's order."""
_NAMED: Final = frozenset(
    {*_SHOWN, *(f"f{number}" for number in range(1, 25))} - {*MODIFIERS}
)
_CHARACTER_OF: Final = {name: character for character, name in _CHARACTERS.items()}

ALLOWED: Final = (
    "one character (`p`, `N`, `?`), a name (f1 to f24, enter, escape, tab, space, backspace, insert, delete, "
    "up, down, left, right, home, end, pageup, pagedown), or any of these prefixed with ctrl+, alt+ or shift+"
)
"""Description of the valid key names in files."""


def spelled(written: str) -> str | None:
    """Convert a key from a file (`Ctrl+E`, `F2`, `?`) to Textual's name.

    Returns None if the key is not valid.
    """
    if len(written) == 1:
        return _SPELLINGS.get(written) or _character(written)
    written = written.strip()
    head, _, last = written.rpartition("+")
    if written.endswith("++"):
        head, last = written[:-2], "+"
    modifiers: set[str] = set()
    if head:
        modifiers = {_SPELLINGS.get(part.lower(), part) for part in head.split("+")}
    if not modifiers <= {*MODIFIERS}:
        return None
    if len(last) == 1 and last not in _SPELLINGS:
        # `Ctrl+E` means Ctrl+e, because key names are usually written in upper case. Only Shift alone counts.
        if modifiers == {"shift"}:
            return last.upper() if last.isalpha() else None
        key = _character(last.lower())
    else:
        key = _SPELLINGS.get(last.lower(), last.lower())
        if key not in _NAMED and key not in _CHARACTER_OF:
            return None
    return None if key is None else "+".join((*sorted(modifiers), key))


def _character(written: str) -> str | None:
    if written == " ":
        return "space"
    return _CHARACTERS.get(written, written) if written.isprintable() else None


def key_name(key: str) -> str:
    """Convert Textual's name for a key to the displayed name.

    For example `Ctrl+J`, `Alt+↑`, `F2`, `?`, `p` or `N`.
    """
    if len(key) == 1:
        return key
    *modifiers, last = key.split("+")
    names = [_SHOWN.get(part, part.upper()) for part in modifiers]
    names.append(_SHOWN.get(last) or _CHARACTER_OF.get(last) or last.upper())
    return "+".join(names)


def character_of(key: str) -> str:
    """Return the character that a key types, or an empty string."""
    character = key if len(key) == 1 else _CHARACTER_OF.get(key, "")
    if not character:
        with suppress(KeyError):
            character = lookup(key.replace("_", " ").upper())
    return character if character.isprintable() else ""


def joined(names: list[str]) -> str:
    """Join the names of keys for a hint: `↑↓`, `Alt+↑↓`, `[ ]`.

    Returns only the first name if they differ too much.
    """
    if all(len(name) == 1 for name in names):
        return ("" if {*names} <= {*_ARROWS} else " ").join(names)
    parts = [name.rpartition("+") for name in names]
    modifiers, plus, _ = parts[0]
    lasts = [last for head, _, last in parts if head == modifiers and len(last) == 1]
    if plus and len(lasts) == len(names):
        return f"{modifiers}+{''.join(lasts)}"
    return names[0]


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def pressed_by(shown: str) -> list[tuple[str, str]]:
    """Split the keys of a hint into parts.

    Each part comes with Textual's name of its key. `Alt+↑↓` is split into `Alt+↑` and `↓`. A part that is not
    a key, such as `1–4` in `Tab 1–4`, gets the key of the part before it. The result is empty if the hint
    does not begin with a key.
    """
    parts: list[tuple[str, str]] = []
    for part in re.split("(?= )", shown):
        modifiers, plus, last = part.strip().rpartition("+")
        key = spelled(part.strip() or part)
        if (
            key is not None and not "\u2500" <= key <= "\u25ff"
        ):  # not box drawing, block elements or geometric shapes
            parts.append((part, key))
        elif last and (modifiers or {*last} <= {*_ARROWS}):
            text = part[: -len(last)]
            for sign in last:
                key = spelled(f"{modifiers}{plus}{sign}")
                if key:
                    parts.append((text + sign, key))
                text = ""
        elif parts:
            parts.append((part, parts[-1][1]))
    return parts
