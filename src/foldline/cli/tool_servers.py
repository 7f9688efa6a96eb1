"""From the settings to the tool servers of one session."""

import os
from pathlib import Path

from foldline.agent.mcp import ServerConfig, ToolServers
from foldline.agent.settings import Settings
from foldline.history import data_home

LOGS = "mcp"
"""The folder of what servers write to their error output, below our data."""


def tool_servers(settings: Settings, folder: Path) -> ToolServers | None:
    """The servers that are set up and enabled, none of them started; None where there is none."""
    configs = [
        ServerConfig(
            name,
            command=table.command,
            args=tuple(table.args),
            env=table.env,
            cwd=table.cwd,
            url=table.url,
            headers=table.headers,
            timeout=table.timeout,
        )
        for name, table in settings.mcp.items()
        if table.enabled
    ]
    if not configs:
        return None
    return ToolServers(configs, folder=folder, logs=data_home() / LOGS, environ=os.environ)
