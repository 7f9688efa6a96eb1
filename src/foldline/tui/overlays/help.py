"""The help: the keys of the screen below, keys that work everywhere, and slash commands."""

from collections.abc import Iterator
from typing import Any, Final

from textual import on
from textual.app import App
from textual.screen import Screen
from textual.widgets import Input

from foldline.frontend.commands import CHAT, COMMANDS, ChatCommand, is_everywhere
from foldline.frontend.keymap import ScreenKey
from foldline.tui.keys.bindings import ActiveTable, active_tables
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem

EVERYWHERE: Final = "on every screen"
SLASH: Final = "slash command"
NOT_NOW: Final = "unavailable now"


class HelpScreen(Picker):
    """The list of keys and commands."""

    DEFAULT_CSS = "HelpScreen > ListBox { height: 100%; }"

    def height_wanted(self) -> str:
        return "100%"

    @on(Input.Changed)
    def _closed_by_its_key(self, event: Input.Changed) -> None:
        if event.value == "?":  # the key that opened the help
            self.dismiss(None)

    def hints(self) -> list[tuple[str, str]]:
        return super().hints()[-1:]


def open_help(app: App[Any]) -> None:
    """Open the help for the screen in front.

    If the help is already open, close it.
    """
    screen = app.screen
    if isinstance(screen, HelpScreen):
        screen.dismiss()
    else:
        titles = [table.table.title for table in _sorted_tables(screen)]
        title = " · ".join(("Help", *titles[:1]))
        app.push_screen(HelpScreen(title, help_items(screen)))


def _sorted_tables(screen: Screen[Any]) -> list[ActiveTable]:
    return sorted(active_tables(screen), key=_is_chat)


def help_items(screen: Screen[Any]) -> Iterator[PickerItem]:
    """Yield an item for each key and command of a screen, with its group at the right."""
    for table in _sorted_tables(screen):
        for key, works in table.entries():
            if key.pressed and not (_is_chat(table) and is_everywhere(key)):
                yield _key_item(key, key.group if works else NOT_NOW)
    for command in COMMANDS:
        if is_everywhere(command):
            yield _key_item(command, EVERYWHERE)
    below = [
        table for other in screen.app.screen_stack for table in active_tables(other)
    ]
    if any(map(_is_chat, below)):
        for command in sorted(COMMANDS, key=lambda command: command.slash):
            if command.slash:
                yield PickerItem(
                    f"/{command.slash}", command.usage, command.explained, SLASH
                )


def _key_item(key: ScreenKey[Any], group: str) -> PickerItem:
    also = ""
    if isinstance(key, ChatCommand) and key.slash:
        also = f" Also /{key.slash}."
    return PickerItem(key.binding_id, " ".join(key.names), key.help_text + also, group)


def _is_chat(table: ActiveTable) -> bool:
    return table.name == CHAT
