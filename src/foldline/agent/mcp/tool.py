"""A tool of a server, as the agent uses it: asked for like a command, answered like one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foldline.llm.base import ToolSpec
from foldline.protocol import Rule

from ..approvals import Level
from ..tools import ToolContext, ToolOutcome
from ..tools.text import one_line
from .results import outcome_of
from .server import Server
from .troubles import Trouble


@dataclass(frozen=True)
class ServerTool:
    """Always of the level `run`: what a server says of its own harmlessness is its own word."""

    spec: ToolSpec
    tool: str
    """What its server calls it."""
    server: Server
    level: Level = "run"

    def title(self, arguments: dict[str, Any]) -> str:
        given = json.dumps(arguments, ensure_ascii=False) if arguments else ""
        return one_line(f"{self.server.name}: {self.tool} {given}")

    def inside(self, arguments: dict[str, Any], context: ToolContext) -> bool:
        """Nothing tells where its server reaches: the user's word on the tool has to do."""
        return True

    def rules(self, arguments: dict[str, Any]) -> Sequence[Rule]:
        """An "always" stands for this one tool, whatever it is given; or for all of its server."""
        return (Rule(tool=self.spec.name), Rule(tool=f"{self.server.prefix}*"))

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            sentence = (
                f"{self.spec.name} was not run: its arguments hold half a character (a lone surrogate)."
            )
            return ToolOutcome(sentence, is_error=True, brief="bad arguments ✗")
        try:
            result = await self.server.call(self.tool, arguments, context.output)
        except Trouble as trouble:
            sentence = f"The MCP server {self.server.name} {trouble}."
            return ToolOutcome(sentence, is_error=True, brief="failed ✗")
        return await outcome_of(result, context, self.spec.name)
