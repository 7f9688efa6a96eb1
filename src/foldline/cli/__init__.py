"""The front door: the command line. Imports next to nothing, so that `foldline --version` is instant."""

from .door import main

__all__ = ["main"]
