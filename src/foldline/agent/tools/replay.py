"""Tools that give recorded results and touch nothing. For the guided tour."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from foldline.llm.base import ToolSpec
from foldline.protocol import Rule, ToolResultMessage

from ..approvals import Level
from .base import Tool, ToolContext, ToolOutcome


class Harmless:
    """What a tool that only gives recorded results says of its calls: nobody has to be asked."""

    level: Level = "read"

    def inside(self, arguments: dict[str, Any], context: ToolContext) -> bool:
        return True

    def rules(self, arguments: dict[str, Any]) -> Sequence[Rule]:
        return ()

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        return None


class ReplayTool(Harmless):
    """Looks like another tool, and answers its calls with what was recorded, in order."""

    def __init__(self, tool: Tool, results: Iterable[ToolResultMessage]) -> None:
        self._tool = tool
        self._results = deque(results)

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def title(self, arguments: dict[str, Any]) -> str:
        return self._tool.title(arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        if not self._results:
            return ToolOutcome("The recording ends here: the tour runs no tools.", True, "not run")
        result = self._results.popleft()
        details = result.details
        return ToolOutcome(result.text, result.is_error, details.brief, details.files, details.diff)


def replayed(tools: Sequence[Tool], results: Sequence[ToolResultMessage]) -> tuple[Tool, ...]:
    """The tools with the results that were recorded for each."""
    return tuple(
        ReplayTool(tool, [result for result in results if result.name == tool.spec.name]) for tool in tools
    )
