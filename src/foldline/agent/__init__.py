"""Doing: the agent, its executor, the turn loop, tools and approvals."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent
    from .executor import Executor

__all__ = ["Agent", "Executor"]


def __getattr__(name: str) -> object:
    """Lazily: `grep` without ripgrep starts `foldline.agent.tools.pygrep`, which needs none of this."""
    if name == "Agent":
        from .agent import Agent

        return Agent
    if name == "Executor":
        from .executor import Executor

        return Executor
    raise AttributeError(name)
