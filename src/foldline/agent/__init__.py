"""The agent: executor, turn loop, tools and approvals."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> object:
    """Import `Agent` only when it is used.

    The program `foldline.agent.tools.pygrep` imports this package and does not need `Agent`.
    """
    if name == "Agent":
        from .agent import Agent

        return Agent
    raise AttributeError(name)
