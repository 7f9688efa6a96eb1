"""All screens that have keys, by name: for `docs/commands.md`, and for the keys that a reader chose.

Screens do not import it. A table is imported when it is asked for: most screens are never opened, and none is
before the first paint.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

from foldline.agent.layers import KEY_SETTINGS, Given
from foldline.protocol import FoldlineError
from foldline.tui.keys.commands import CHAT, EVERYWHERE
from foldline.tui.keys.names import ALLOWED, WAYS_OUT, is_text, key_name, spelled
from foldline.tui.keys.table import Keymap, KeyTable, ScreenKey, declared, keymap_of

SCREENS: Final = {
    CHAT: "keys.commands",
    "transcript": "transcript.panel",
    "inspector": "inspector.keys",
    "difference": "inspector.compare",
    "filter": "inspector.filters",
    "preview": "preview.keys",
    "context": "screens.context",
    "sessions": "screens.sessions_view",
    "rewind": "screens.rewind",
    "tree": "screens.tree",
    "diff": "screens.diff",
    "approvals": "screens.permissions",
    "jobs": "screens.jobs",
    "output": "screens.jobs",
    "settings": "screens.settings",
    "setup": "screens.setup",
    "picker": "lists.picker",
    "help": "screens.help",
    "tour": "demo.app",
}
"""The module that declares each table."""


def table_of(screen: str) -> KeyTable[Any]:
    """The table of a screen in `SCREENS`."""
    import_module(f"foldline.tui.{SCREENS[screen]}")
    found = declared(screen)
    assert found is not None, f"{SCREENS[screen]} declares {screen}"
    return found


# --- `[keys]` of a reader -------------------------------------------------------------------------------

NEVER: Final = {
    "ctrl+i": "Tab",
    "ctrl+m": "Enter",
    "ctrl+h": "Backspace",
    "ctrl+left_square_bracket": "Esc",
}
"""Keys most terminals send as another one, byte for byte."""

_KEPT: Final = {
    "some desktops keep it": r"ctrl\+(up|down|left|right)|alt\+escape",
    "some terminals switch tabs or windows with it": r"ctrl\+(tab|pageup|pagedown)",
    "many terminals send it as the key without Shift, Ctrl or Alt": (
        r"(shift|ctrl)\+(enter|backspace)|shift\+space"
    ),
    "some terminals scroll with it": r"shift\+(pageup|pagedown|home|end|up|down)",
    "some terminals become as large as the screen with it": r"f11|alt\+enter",
    "some terminals open their own help with it": "f1",
    "some terminals open their menu with it": "f10",
    "drop-down terminals hide with it": "f12",
    "few keyboards have it": r"f(1[3-9]|2\d)",
    "input methods and some desktops keep it": r"ctrl\+space",
    "terminals paste with it": r"shift\+insert",
    "it stops the output where flow control is on": r"ctrl\+s",
    "it resumes output where flow control is on": r"ctrl\+q",
    "terminals suspend the program with it": r"ctrl\+z",
    "terminals end the program with it": r"ctrl\+backslash",
    "tmux waits for its own key after it": r"ctrl\+b",
    "screen waits for its own key after it": r"ctrl\+a",
    "some desktops open the window's menu with it": r"alt\+space",
    "desktops switch windows with it": r"alt\+tab",
    "desktops have it for windows": r"alt\+f\d+",
    "some desktops and terminals have it for themselves": r"alt\+ctrl\+.*",
    "the terminal has it for itself, or cannot tell it from Ctrl+": r"ctrl\+shift\+.*",
    "not every terminal sends it": r"(ctrl|shift)\+f\d+",
}
"""Why keys of these names may not arrive."""


def why_unsure(key: str) -> str:
    """Why a key, by Textual's name, may not arrive; empty for one that does everywhere."""
    if key in NEVER:
        return f"most terminals send it as {NEVER[key]}"
    return next((why for why, names in _KEPT.items() if re.fullmatch(names, key)), "")


def check(given: Sequence[Given]) -> None:
    """Look whether what was set of the keys can be.

    Raises:
        FoldlineError: there is no such screen, command or key, or two commands share one.
    """
    asked = [(item, _command_of(item)) for item in given]
    for item, key in asked:
        _refuse_key(item, key)
    keymap = keymap_of(given)
    for item, key in asked:
        _refuse_clash(keymap, key, item)


def unsure_keys(keymap: Keymap) -> Iterator[str]:
    """A sentence for each command that was given only keys which do not arrive in every terminal."""
    for (screen, command), keys in keymap.chosen.items():
        reasons = [why_unsure(key) for key in keys if key not in WAYS_OUT]
        if reasons and all(reasons):
            yield f"keys.{screen}.{command}: {key_name(keys[-1])} may not arrive, {reasons[-1]}"


def _command_of(item: Given) -> ScreenKey[Any]:
    if len(item.names) != 3:
        raise FoldlineError(
            f"{item.origin}: there is no setting {item.key}; each screen has a table of its own: "
            f'[{KEY_SETTINGS}.SCREEN] with COMMAND = "KEY"; screens are {_listed(SCREENS)}.'
        )
    _, screen, command = item.names
    if screen not in SCREENS:
        raise FoldlineError(
            f"{item.origin}: {item.key}: there is no screen {screen}; {_close(screen, SCREENS)}"
            f"there are {_listed(SCREENS)}."
        )
    table: dict[str, ScreenKey[Any]] = {key.id: key for key in table_of(screen)}
    free, key = [name for name, each in table.items() if not each.own], table.get(command)
    if key is None:
        raise FoldlineError(
            f"{item.origin}: {item.key}: the screen {screen} has no command {command}; "
            f"{_close(command, free)}it has {_listed(free)}."
        )
    if key.own:
        raise FoldlineError(
            f"{item.origin}: {item.key} cannot be chosen: {' '.join(key.names) or key.id} is the same on "
            f"every screen; [{KEY_SETTINGS}.{screen}] has {_listed(free)}."
        )
    return key


def _refuse_key(item: Given, key: ScreenKey[Any]) -> None:
    written = [item.value] if isinstance(item.value, str) else item.value
    if not isinstance(written, list) or not written or not all(isinstance(each, str) for each in written):
        raise FoldlineError(
            f"{item.origin}: {item.key} cannot be {item.value!r}; allowed: a key or a list of keys."
        )
    for each in written:
        if why := _why_not(each, key):
            raise FoldlineError(f"{item.origin}: {item.key} cannot be {each!r}; {why}.")


def _why_not(written: str, key: ScreenKey[Any]) -> str:
    name = spelled(written)
    if name is None:
        return f"allowed: {ALLOWED}"
    if name in NEVER:
        return f"terminals send that as {NEVER[name]}"
    if key.place != "panel" and is_text(name) and name not in key.keys:
        return "in a field that is typing; allowed: f1 to f24, enter, tab, or a key behind ctrl+ or alt+"
    return ""


def _refuse_clash(keymap: Keymap, key: ScreenKey[Any], item: Given) -> None:
    """A key has one meaning on a screen, and a key that works on all of them has it on all of them."""
    for pressed in keymap.chosen[key.screen, key.id]:
        for other in _beside(key):
            keys = keymap.keys_of(other.screen, other.id, other.keys)
            if pressed in {spelled(each) for each in keys}:
                raise FoldlineError(
                    f"{item.origin}: {item.key} cannot be {key_name(pressed)!r}: that is "
                    f"{KEY_SETTINGS}.{other.screen}.{other.id}; give one of them another key."
                )


_TOGETHER = frozenset({CHAT, "transcript"})
"""Two tables on one screen: what the first binds anywhere, the second cannot have."""


def _beside(key: ScreenKey[Any]) -> Iterator[ScreenKey[Any]]:
    """What may not share a key with this command."""
    reaches_all = key.screen == CHAT and key.id in EVERYWHERE
    together = sorted(_TOGETHER) if key.screen in _TOGETHER and key.place != "prompt" else ()
    for name in SCREENS if reaches_all else dict.fromkeys((key.screen, CHAT, *together)):
        for other in table_of(name):
            # `?` and F1 are help on every screen, its own and the one that works everywhere.
            is_same = other.id == key.id and (name == key.screen or key.id in EVERYWHERE)
            works_there = name == key.screen or reaches_all or other.id in EVERYWHERE
            if not is_same and (works_there or (name in together and other.place != "prompt")):
                yield other


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _close(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]}? " if close else ""
