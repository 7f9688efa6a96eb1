"""The keys of the Settings screen: one table that bindings, hints and the help list come from."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table
from foldline.tui.settings.state import SettingsState


def _in_list(state: SettingsState) -> bool:
    return not state.editing and not state.searching


def _changeable(state: SettingsState) -> bool:
    return _in_list(state) and state.setting is not None


def _typed(state: SettingsState) -> bool:
    return _changeable(state) and state.setting is not None and state.setting.is_typed


def _set(state: SettingsState) -> bool:
    return _changeable(state) and state.setting is not None and state.setting.own is not None


KEYS: Final[tuple[ScreenKey[SettingsState], ...]] = table(
    "settings",
    ScreenKey(
        "change",
        ("enter", "space"),
        "Another value: the next one, one of a list, or a field to type it in. It is kept in your "
        "config.toml, with everything else in that file as it is.",
        "Setting",
        "changes",
        works=_changeable,
    ),
    ScreenKey(
        "edit",
        ("e",),
        "Types the value, also one that is on no list. A wrong one is told while you type.",
        "Setting",
        "types",
        works=_typed,
    ),
    ScreenKey(
        "reset",
        ("r", "delete"),
        "Takes it out of your config.toml: what holds without it holds again.",
        "Setting",
        "resets",
        works=_set,
    ),
    ScreenKey(
        "search",
        ("slash",),
        "Finds settings by key, value, meaning, or who set them.",
        "List",
        "finds",
        "/",
        works=_in_list,
    ),
    ScreenKey("up", ("up", "k"), "One setting up.", "List"),
    ScreenKey("down", ("down", "j"), "One setting down.", "List"),
    ScreenKey("page-up", ("pageup",), "Ten settings up.", "List"),
    ScreenKey("page-down", ("pagedown",), "Ten settings down.", "List"),
    ScreenKey("first", ("home", "ctrl+home"), "To the first setting.", "List", works=_in_list),
    ScreenKey("last", ("end", "ctrl+end"), "To the last setting.", "List", works=_in_list),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Leaves the field, ends the search, then closes.", "Program"),
)
