"""The tool by which the model finds tools of servers that are too many to be offered all at once."""

import re

from pydantic import Field

from .mcp import ToolServers
from .mcp.servers import ServerTool
from .state import SEARCH_TOOL, AgentState
from .tools import Arguments, BaseTool, ToolContext, ToolOutcome
from .tools.text import one_line

_MOST = 8
"""Tools that one search finds: each goes with every request from then on."""
_WORD = re.compile(r"[^\W_]+")


class SearchArguments(Arguments):
    query: str = Field(description="Words of what the tool should do, or its name.")


class ToolSearch(BaseTool[SearchArguments]):
    name = SEARCH_TOOL
    description = "Find tools: those found can be called from your next step on."
    arguments = SearchArguments

    def __init__(self, state: AgentState, servers: ToolServers) -> None:
        self.description = f"{self.description} There are more of the servers {', '.join(servers.by_name)}."  # type: ignore[misc]
        super().__init__()
        self._state = state
        self._servers = servers

    def headline(self, arguments: SearchArguments) -> str:
        return arguments.query

    async def act(self, arguments: SearchArguments, context: ToolContext) -> ToolOutcome:
        tools = [tool for tool in self._servers.tools if isinstance(tool, ServerTool)]
        worth = {tool.spec.name: _worth(arguments.query, tool) for tool in tools}
        best = sorted((tool for tool in tools if worth[tool.spec.name]), key=lambda t: -worth[t.spec.name])
        if not best:
            there = "; ".join(
                f"{name}: {len(server.offers)} tools" for name, server in self._servers.by_name.items()
            )
            return ToolOutcome(
                f"No tool fits these words. Try others. There are: {there}.", brief="none found"
            )
        found = best[:_MOST]
        self._state.found_tools |= {tool.spec.name for tool in found}
        lines = [f"{tool.spec.name}: {one_line(tool.spec.description)}" for tool in found]
        left = (
            f"\n{len(best) - _MOST} more fit: search with other words for them." if len(best) > _MOST else ""
        )
        return ToolOutcome("\n".join(lines) + left, brief=f"{len(found)} found")


def _worth(query: str, tool: ServerTool) -> int:
    """How well a tool fits: its whole name, then words of its name, then words of what it does."""
    if query.strip() == tool.spec.name:
        return 1_000
    name, about = tool.spec.name.casefold(), tool.spec.description.casefold()
    words = {word.casefold() for word in _WORD.findall(query)}
    return sum(3 * (word in name) + (word in about) for word in words)
