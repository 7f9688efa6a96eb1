"""Every key and command as Markdown tables, for `docs/commands.md`."""

from collections.abc import Iterator

from foldline.tui.keys.command import CHAT
from foldline.tui.keys.commands import COMMANDS
from foldline.tui.keys.screens import SCREENS, Table


def commands_page() -> str:
    """The chat's commands by group, then the keys of every other screen."""
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
    for name, screen in SCREENS.items():
        if screen.table() is not COMMANDS:
            yield "\n".join(
                (f"## {screen.title}", "", f"In `config.toml`: `[keys.{name}]`.", "", *_rows(screen.table()))
            )


def _rows(keys: Table) -> Iterator[str]:
    yield "| keys | what it does | name |"
    yield "|---|---|---|"
    for key in keys:
        yield f"| {_keys(key.names)} | {key.help} | {'' if key.own else f'`{key.id}`'} |"


def _keys(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
