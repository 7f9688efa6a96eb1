"""Tool servers: programs and services that speak the Model Context Protocol, and lend the agent their tools.

`ToolServers` holds all that are set up, `ServerConfig` says what one of them is. Nothing here imports the
package `mcp` before a server is started: it is an extra, and costs a third of a second.
"""

from .servers import ServerState, ToolServers
from .transport import ServerConfig

__all__ = ["ServerConfig", "ServerState", "ToolServers"]
