"""The agent's hands: tools that read, search, change files and run commands, each a `Tool`."""

from .background import Jobs
from .base import Arguments, BaseTool, Tool, ToolContext, ToolOutcome, failed
from .bash import BashTool
from .edit import EditTool
from .failure import ToolFailure
from .fetch import FetchTool
from .glob import GlobTool
from .grep import GrepTool
from .jobs import JobsTool
from .ls import LsTool
from .memory import FileMemory
from .read import ReadTool
from .todo import TodoTool
from .write import WriteTool

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
    """The tools every session has, in the order the model is told about them."""
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
