"""The Rewind screen: the places a session can go back to, and what going there would do."""

from .screen import RewindScreen
from .state import RewindState

__all__ = ["RewindScreen", "RewindState"]
