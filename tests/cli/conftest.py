"""The front door of a house of its own."""

from support.front_door import door

__all__ = ["door"]
