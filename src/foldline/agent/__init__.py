"""The agent: its executor, the turn loop, tools and approvals."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> object:
    """Lazily: `grep` without ripgrep starts `foldline.agent.tools.pygrep`, which needs none of this."""
    if name == "Agent":
        from .agent import Agent

        return Agent
    raise AttributeError(name)
