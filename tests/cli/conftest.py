"""Run the command line with a home and folder of its own."""

from support.command_line import cli

__all__ = ["cli"]
