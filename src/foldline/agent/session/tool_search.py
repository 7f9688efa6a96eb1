"""The `tool_search` tool, with which the model finds server tools.

It is offered if there are too many server tools to offer them all.
"""

import re

from pydantic import Field

from foldline.agent.extensions.mcp import ToolServers
from foldline.agent.extensions.mcp.servers import ServerTool
from foldline.agent.tools import Arguments, BaseTool, ToolContext, ToolOutcome
from foldline.text.harmless import escaped_line

from .toolset import SEARCH_TOOL, Toolset

_MOST = 8
"""Maximum number of tools that one search offers; others are only counted.

The limit exists because later requests include every offered tool.
"""
NONE_FOUND = "No tool matches these words. Try others. Servers: {servers}."
MORE_FOUND = "{count} more match. Search with other words to find them."
_WORD = re.compile(r"[^\W_]+")


class ToolSearchArguments(Arguments):
    query: str = Field(
        description="Words that describe what the tool should do, or its name."
    )


class ToolSearch(BaseTool[ToolSearchArguments]):
    name = SEARCH_TOOL
    description = "Find more tools. You can call them from your next step on."
    arguments = ToolSearchArguments

    def __init__(self, toolset: Toolset, servers: ToolServers) -> None:
        self.description = f"{self.description} Servers: {', '.join(servers.by_name)}."  # type: ignore[misc]
        super().__init__()
        self._toolset = toolset
        self._servers = servers

    def headline(self, arguments: ToolSearchArguments) -> str:
        return arguments.query

    async def act(
        self, arguments: ToolSearchArguments, context: ToolContext
    ) -> ToolOutcome:
        matches = self._matches(arguments.query)
        if not matches:
            servers = [
                f"{name}: {len(server.offers)} tools"
                for name, server in self._servers.by_name.items()
            ]
            text = NONE_FOUND.format(servers="; ".join(servers))
            return ToolOutcome(text, brief="none found")
        best = matches[:_MOST]
        self._toolset.discovered |= {tool.spec.name for tool in best}
        lines = [
            f"{tool.spec.name}: {escaped_line(tool.spec.description)}" for tool in best
        ]
        if len(matches) > _MOST:
            lines.append(MORE_FOUND.format(count=len(matches) - _MOST))
        return ToolOutcome("\n".join(lines), brief=f"{len(best)} found")

    def _matches(self, query: str) -> list[ServerTool]:
        """Return the tools that match the query, best match first."""
        tools = [tool for tool in self._servers.tools if isinstance(tool, ServerTool)]
        scores = {tool.spec.name: _score(query, tool) for tool in tools}
        matches = [tool for tool in tools if scores[tool.spec.name]]
        return sorted(matches, key=lambda tool: -scores[tool.spec.name])


def _score(query: str, tool: ServerTool) -> int:
    """Score a match.

    A match of the full name scores highest, then words in the name, then words in the description.
    """
    if query.strip() == tool.spec.name:
        return 1_000
    name = tool.spec.name.casefold()
    description = tool.spec.description.casefold()
    score = 0
    for word in {word.casefold() for word in _WORD.findall(query)}:
        if word in name:
            score += 3
        if word in description:
            score += 1
    return score
