"""Tool servers: programs and services that offer tools through the Model Context Protocol (MCP).

`ToolServers` manages all configured servers, and `ServerConfig` describes one of them. The `mcp` package is
imported only when a server starts, because it is optional and its import takes a third of a second.
"""

from .servers import ToolServers
from .transport import ServerConfig

__all__ = ["ServerConfig", "ToolServers"]
