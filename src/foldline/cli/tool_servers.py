"""`foldline mcp login NAME` and `logout NAME`: sign in to a tool server, or sign out."""

import asyncio
from pathlib import Path
from typing import Literal

from foldline.agent.extensions.mcp import ToolServers
from foldline.protocol import FoldlineError, system_words

from .agents import tool_servers
from .output import note
from .settings import settings_here

NO_SERVERS = "There is no MCP server {name!r}. None is set up: see docs/extending.md."
NO_SUCH_SERVER = "There is no MCP server {name!r}. Available: {servers}."


def sign(action: Literal["login", "logout"], name: str) -> int:
    servers = tool_servers(settings_here(), Path.cwd())
    if servers is None:
        raise FoldlineError(NO_SERVERS, name=name)
    if name not in servers.by_name:
        available = ", ".join(servers.by_name)
        raise FoldlineError(NO_SUCH_SERVER, name=name, servers=available)
    if action == "login":
        return asyncio.run(_log_in(servers, name))
    try:
        was_signed_in = servers.by_name[name].sign_out()
    except OSError as error:
        raise FoldlineError(
            f"Signing out of {name} failed: {system_words(error)}."
        ) from None
    note(
        f"You have been signed out of {name}."
        if was_signed_in
        else f"You were not signed in to {name}."
    )
    return 0


async def _log_in(servers: ToolServers, name: str) -> int:
    servers.tell = note
    try:
        server = await servers.restart(name)
        note(f"{name}: {server}.")
        return 0 if server.state == "connected" else 1
    finally:
        await servers.aclose()
