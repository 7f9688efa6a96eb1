"""`foldline mcp login NAME` and `logout NAME`: a tool server at an address that wants people to sign in."""

import asyncio
from pathlib import Path
from typing import Literal

from foldline.agent.mcp import ToolServers
from foldline.protocol import FoldlineError, system_words

from .agents import tool_servers
from .output import note
from .settings import settings_here


def sign(action: Literal["login", "logout"], name: str) -> int:
    servers = tool_servers(settings_here(), Path.cwd())
    known = {} if servers is None else servers.by_name
    if servers is None or name not in known:
        there = f"There are: {', '.join(known)}." if known else "None is set up: see docs/mcp.md."
        raise FoldlineError(f"There is no MCP server {name!r}. {there}")
    if action == "login":
        return asyncio.run(_log_in(servers, name))
    try:
        note(
            f"You are signed out of {name}."
            if known[name].sign_out()
            else f"You were not signed in to {name}."
        )
    except OSError as error:
        raise FoldlineError(f"You could not be signed out of {name}: {system_words(error)}.") from None
    return 0


async def _log_in(servers: ToolServers, name: str) -> int:
    servers.tell = note
    try:
        state = await servers.restart(name)
        note(f"{name}: {state}.")
    finally:
        await servers.aclose()
    return 0 if state.state == "connected" else 1
