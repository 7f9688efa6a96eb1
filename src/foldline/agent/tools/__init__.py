"""The agent's tools: they read, search, change files and run commands, each a `Tool`."""

from .base import Arguments, BaseTool, FileMemory, Tool, ToolContext, ToolFailure, ToolOutcome, failed
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
    """The tools every session has, in the order of a request."""
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
