"""The `door` fixture: runs commands in a home folder of its own."""

from support.command_line import cli

__all__ = ["cli"]
