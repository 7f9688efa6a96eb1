"""Builders for tests of the agent's tools: a context in a folder, and a call."""

from collections.abc import Callable
from pathlib import Path

from foldline.agent.tools import ToolContext, ToolOutcome, default_tools

TOOLS = {tool.spec.name: tool for tool in default_tools()}


def tool_context(
    cwd: Path,
    *,
    max_tokens: int = 10_000,
    output: Callable[[str], None] = lambda text: None,
) -> ToolContext:
    return ToolContext(
        cwd=cwd,
        output=output,
        max_tokens=max_tokens,
        spill_dir=cwd.parent / f"{cwd.name}-spill",
    )


async def call(
    context: ToolContext, tool_name: str, /, **arguments: object
) -> ToolOutcome:
    return await TOOLS[tool_name].run(arguments, context)
