"""The chat's transcript: entries and what is being written as blocks, with the rail of each."""

from .feed import Transcript

__all__ = ["Transcript"]
