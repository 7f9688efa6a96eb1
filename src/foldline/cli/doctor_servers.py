"""What `foldline doctor` says of tool servers; only when asked to, it connects to them."""

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from foldline.agent.mcp import ToolServers
from foldline.agent.mcp.servers import MISSING
from foldline.agent.settings import Settings
from foldline.context.numbers import many
from foldline.history.doctor import Finding

from .tool_servers import tool_servers

_PATIENCE = 60.0
"""Seconds all servers together have to start."""


def examine_servers(settings: Settings, network: bool) -> Iterator[Finding]:
    servers = tool_servers(settings, Path.cwd())
    if servers is None:
        return
    if find_spec("mcp") is None:
        found, _, advice = MISSING.removesuffix(".").partition(": ")
        yield Finding("bad", "MCP", found, advice)
    elif not network:
        names = ", ".join(state.name for state in servers.states)
        count = many(len(servers.states), "server")
        yield Finding("ok", "MCP", f"{count} set up: {names}; `--network` tries whether they answer")
    else:
        yield from asyncio.run(_tried(servers))


async def _tried(servers: ToolServers) -> list[Finding]:
    servers.start()
    await servers.settled(_PATIENCE)
    states = servers.states
    await servers.aclose()
    return [
        Finding("ok", f"MCP {state.name}", str(state))
        if state.state == "connected"
        else Finding("bad", f"MCP {state.name}", str(state), f"its log is {state.log}")
        for state in states
    ]
