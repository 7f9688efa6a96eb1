"""Keys that do not reach a program everywhere: terminals and desktops keep them, or cannot tell them apart.

From the manuals of xterm, GNOME Terminal, Konsole, Windows Terminal, Terminal.app, tmux and screen; what a
terminal sends at all is in ECMA-48, what more the kitty protocol makes it send is offered by some only.
"""

from collections.abc import Callable
from typing import Final

NEVER: Final = {
    "ctrl+i": "Tab",
    "ctrl+m": "Enter",
    "ctrl+h": "Backspace",
    "ctrl+left_square_bracket": "Esc",
}
"""Keys most terminals send as another one, byte for byte."""

_DESKTOP: Final = "some desktops keep it"
_TABS: Final = "some terminals switch tabs or windows with it"
_PLAIN: Final = "many terminals send it as the key without Shift, Ctrl or Alt"
_SCROLLS: Final = "some terminals scroll with it"

_KEPT: Final = {
    "f1": "some terminals open their own help with it",
    "f10": "some terminals open their menu with it",
    "f11": "some terminals become as large as the screen with it",
    "f12": "drop-down terminals hide with it",
    "ctrl+up": _DESKTOP,
    "ctrl+down": _DESKTOP,
    "ctrl+left": _DESKTOP,
    "ctrl+right": _DESKTOP,
    "ctrl+tab": _TABS,
    "ctrl+pageup": _TABS,
    "ctrl+pagedown": _TABS,
    "ctrl+space": "input methods and some desktops keep it",
    "shift+enter": _PLAIN,
    "ctrl+enter": _PLAIN,
    "alt+enter": "some terminals become as large as the screen with it",
    "shift+space": _PLAIN,
    "shift+backspace": _PLAIN,
    "ctrl+backspace": _PLAIN,
    "shift+pageup": _SCROLLS,
    "shift+pagedown": _SCROLLS,
    "shift+home": _SCROLLS,
    "shift+end": _SCROLLS,
    "shift+up": _SCROLLS,
    "shift+down": _SCROLLS,
    "shift+insert": "terminals paste with it",
    "ctrl+s": "it stops the output where flow control is on",
    "ctrl+q": "it goes on with the output where flow control is on",
    "ctrl+z": "terminals suspend the program with it",
    "ctrl+backslash": "terminals end the program with it",
    "ctrl+b": "tmux waits for its own key after it",
    "ctrl+a": "screen waits for its own key after it",
    "alt+space": "some desktops open the window's menu with it",
    "alt+tab": "desktops switch windows with it",
    "alt+escape": _DESKTOP,
}

_FAMILIES: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (
        lambda key: key.startswith("ctrl+shift+"),
        "the terminal has it for itself, or cannot tell it from Ctrl+",
    ),
    (lambda key: key.startswith("alt+ctrl+"), "some desktops and terminals have it for themselves"),
    (lambda key: key.startswith("alt+f") and key[5:].isdigit(), "desktops have it for windows"),
    (lambda key: key.startswith(("ctrl+f", "shift+f")) and key[-1].isdigit(), "not every terminal tells it"),
    (lambda key: key[0] == "f" and key[1:].isdigit() and int(key[1:]) > 12, "few keyboards have it"),
)


def why_unsure(key: str) -> str:
    """Why a key, by Textual's name, may not arrive; empty for one that does everywhere."""
    if key in NEVER:
        return f"most terminals send it as {NEVER[key]}"
    return _KEPT.get(key) or next((why for holds, why in _FAMILIES if holds(key)), "")
