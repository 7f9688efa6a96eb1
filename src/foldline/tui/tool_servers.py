"""`/mcp`: how it is with the tool servers, and connecting one anew."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from foldline.history.paths import with_tilde
from foldline.tui.runner import Runner

if TYPE_CHECKING:
    from foldline.agent.mcp import ToolServers
    from foldline.tui.app import FoldlineApp

_NONE = "No MCP server is set up: [mcp.NAME] in your config.toml does it, see docs/mcp.md"

_EVERY = 0.25
"""Seconds between two looks at the servers while their list is open."""


def server_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    def show(runner: Runner, name: str) -> None:
        servers = runner.agent.state.servers
        if servers is None:
            app.chat.remark(_NONE)
        elif not name:
            _pick(app, servers)
        elif name in (names := [state.name for state in servers.states]):
            _connect(app, servers, name)
        else:
            app.chat.remark(f"There is no MCP server {name}. There are: {', '.join(names)}")

    return {"mcp": show}


def _pick(app: "FoldlineApp", servers: "ToolServers") -> None:
    """The list says how it is with each now, for as long as it is open."""
    from foldline.tui.keys.table import name_of
    from foldline.tui.lists.picker import KEYS, Choice, Picker

    def choices() -> list[Choice]:
        return [
            Choice(each.name, each.name, f"{each}{f', {with_tilde(str(each.log))}' if each.trouble else ''}")
            for each in servers.states
        ]

    def chosen(name: str | None) -> None:
        if name is not None:
            _connect(app, servers, name)

    picker = Picker(f"MCP servers: {name_of(KEYS, 'take')} reconnect", choices(), notes_in_full=True)
    app.push_screen(picker, chosen)
    picker.set_interval(_EVERY, lambda: picker.offer(choices()))


def _connect(app: "FoldlineApp", servers: "ToolServers", name: str) -> None:
    async def again() -> None:
        app.chat.remark(f"Connecting to {name} …")
        app.chat.remark(f"MCP server {name}: {await servers.restart(name)}")

    app.run_worker(again(), group=f"mcp-{name}", exclusive=True)
