"""All screens that have keys, by name: for `[keys.NAME]` and `docs/commands.md`. Screens do not import it.

A table is imported when it is asked for: most screens are never opened, and none is before the first paint.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from foldline.tui.keys.commands import CHAT, COMMANDS
from foldline.tui.keys.table import KeyTable, ScreenKey, declared

SCREENS: Final = {
    CHAT: "keys.commands",
    "transcript": "transcript.panel",
    "inspector": "inspector.keys",
    "difference": "inspector.compare",
    "filter": "inspector.filter_bar",
    "preview": "preview.keys",
    "context": "context_screen.state",
    "sessions": "screens.sessions_view",
    "rewind": "screens.rewind",
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


def commands_page() -> str:
    """Every key and command as Markdown tables: the chat's by group, then those of every other screen."""
    return "\n\n".join((*_chat(), *_screens())) + "\n"


def _chat() -> Iterator[str]:
    yield f"## Chat\n\nIn `config.toml`: `[keys.{CHAT}]`; [an example](guide.md#keys-of-your-own)."
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows = [f"### {group}", "", "| keys | command | what it does | name |", "|---|---|---|---|"]
        for command in (command for command in COMMANDS if command.group == group):
            usage = f"`{command.usage}`" if command.usage else ""
            what = f"{command.title}. {command.help}"
            rows.append(f"| {_keys(command.names)} | {usage} | {what} | `{command.id}` |")
        yield "\n".join(rows)


def _screens() -> Iterator[str]:
    for name in SCREENS:
        if name != CHAT:
            table = table_of(name)
            head = [f"## {table.title}", "", f"In `config.toml`: `[keys.{name}]`.", ""]
            head += ["| keys | what it does | name |", "|---|---|---|"]
            yield "\n".join((*head, *map(_row, table)))


def _row(key: ScreenKey[Any]) -> str:
    return f"| {_keys(key.names)} | {key.help} | {'' if key.own else f'`{key.id}`'} |"


def _keys(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
