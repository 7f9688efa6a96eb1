"""The agent's tools, which read, search and change files, run commands and fetch pages.

Each one is a `Tool`.
"""

from .base import (
    Arguments,
    BaseTool,
    FileMemory,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
    failed,
)
from .bash import BashTool, JobsTool
from .files import EditTool, ReadTool, WriteTool
from .history import TodoTool
from .jobs import Jobs
from .search import GlobTool, GrepTool, LsTool
from .web import FetchTool

__all__ = [
    "Arguments",
    "BaseTool",
    "FileMemory",
    "Jobs",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolOutcome",
    "default_tools",
    "failed",
]


def default_tools() -> tuple[Tool, ...]:
    """Return the tools that every session has, in the order in which requests list them."""
    return (
        ReadTool(),
        WriteTool(),
        EditTool(),
        BashTool(),
        JobsTool(),
        GrepTool(),
        GlobTool(),
        LsTool(),
        FetchTool(),
        TodoTool(),
    )
