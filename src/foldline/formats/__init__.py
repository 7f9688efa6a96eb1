"""Converts other agents' sessions to Foldline's protocol.

A file's format is detected from its content, and each format has its own reader. The agents' files are never
changed.
"""

from .base import ForeignSession
from .detection import FORMATS, Format
from .reader import file_in, file_of, read_foreign, session_file

__all__ = [
    "FORMATS",
    "ForeignSession",
    "Format",
    "file_in",
    "file_of",
    "read_foreign",
    "session_file",
]
