"""Whether the keys that a reader chose can be: a sentence says what is wrong with `[keys]`."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from foldline.agent.layers import KEY_SETTINGS, Given
from foldline.protocol import FoldlineError
from foldline.tui.keys.command import CHAT
from foldline.tui.keys.keymap import Keymap, keymap_of
from foldline.tui.keys.names import ALLOWED, WAYS_OUT, is_text, key_name, spelled
from foldline.tui.keys.screens import EVERYWHERE, SCREENS
from foldline.tui.keys.table import ScreenKey
from foldline.tui.keys.terminal import NEVER, why_unsure


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
    table = {key.id: key for key in SCREENS[screen].table() if _is_free(key)}
    fixed = next((key for key in SCREENS[screen].table() if key.id == command and not _is_free(key)), None)
    if fixed is not None:
        raise FoldlineError(
            f"{item.origin}: {item.key} cannot be chosen: {' '.join(fixed.names) or fixed.id} is the same on "
            f"every screen; [{KEY_SETTINGS}.{screen}] has {_listed(table)}."
        )
    if command not in table:
        raise FoldlineError(
            f"{item.origin}: {item.key}: the screen {screen} has no command {command}; "
            f"{_close(command, table)}it has {_listed(table)}."
        )
    return table[command]


def _is_free(key: ScreenKey[Any]) -> bool:
    return not key.own


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
        for other in SCREENS[name].table():
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
