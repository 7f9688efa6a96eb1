"""The key tables of all screens, for `docs/commands.md` and for checking the user's key bindings.

Screens must not import this module, because it refers to all of them. To keep startup fast, it imports a
table only when the table is needed.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from foldline.agent.settings.layers import RawSetting
from foldline.frontend.commands import CHAT
from foldline.frontend.key_names import ALLOWED, listed, spelled
from foldline.frontend.keymap import KeyTable, declared
from foldline.protocol import FoldlineError

SCREENS: Final = {
    CHAT: "foldline.frontend.commands",
    "transcript": "foldline.tui.transcript.keys",
    "inspector": "foldline.tui.browser.keys",
    "sessions": "foldline.tui.overlays.sessions_view",
    "diff": "foldline.tui.overlays.diff",
    "picker": "foldline.tui.lists.picker",
    "line": "foldline.tui.lists.line",
    "page": "foldline.tui.lists.page",
}
"""The module that declares each key table, by the table's name."""


def table_of(screen: str) -> KeyTable[Any]:
    """Return the key table of a screen in `SCREENS`."""
    import_module(SCREENS[screen])
    keys = declared(screen)
    assert keys is not None, f"{SCREENS[screen]} declares {screen}"
    return keys


# --- the user's `[keys]` --------------------------------------------------------------------------------

NO_SCREEN: Final = (
    'there is no such screen. Each screen has its own table, [keys.SCREEN] with COMMAND = "KEY". '
    "Available: {screens}."
)
NO_COMMAND: Final = (
    "the screen {screen} has no such command, or its keys are fixed. "
    "Available: {commands}."
)
INVALID_KEY: Final = "{name!r} is not a key. Allowed: {allowed}."


def check(given: Sequence[RawSetting]) -> None:
    """Check the user's keys.

    If two commands share a key, Textual's keymap keeps the one that the user has chosen.

    Raises:
        FoldlineError: A screen, command or key does not exist.
    """
    for item in given:
        if problem := _problem(item):
            raise FoldlineError(f"{item.origin}: {item.key}: {problem}")


def _problem(item: RawSetting) -> str:
    """Return why a key setting cannot be used; empty if it can."""
    if len(item.names) != 3 or item.names[1] not in SCREENS:
        return NO_SCREEN.format(screens=listed(SCREENS))
    screen, command = item.names[1:]
    commands = [key.id for key in table_of(screen) if not key.own]
    if command not in commands:
        return NO_COMMAND.format(screen=screen, commands=listed(commands))
    names = item.value if isinstance(item.value, list) else [item.value]
    for name in names:
        if not isinstance(name, str) or spelled(name) is None:
            return INVALID_KEY.format(name=name, allowed=ALLOWED)
    return ""
