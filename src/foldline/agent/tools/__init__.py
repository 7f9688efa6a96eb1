"""The agent's hands: tools that read, search, change files and run commands, each a `Tool`."""

from .base import Arguments, BaseTool, Tool, ToolContext, ToolFailure, ToolOutcome
from .bash import BashTool
from .edit import EditTool
from .glob import GlobTool
from .grep import GrepTool
from .ls import LsTool
from .memory import FileMemory
from .read import ReadTool
from .todo import TodoTool
from .write import WriteTool

__all__ = [
    "Arguments",
    "BaseTool",
    "FileMemory",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolOutcome",
    "default_tools",
]


def default_tools() -> tuple[Tool, ...]:
    """The tools every session has, in the order the model is told about them."""
    return (ReadTool(), WriteTool(), EditTool(), BashTool(), GrepTool(), GlobTool(), LsTool(), TodoTool())
