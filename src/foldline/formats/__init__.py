"""Other agents' sessions read into our protocol: detection by content, a reader a format, never a write."""

from .base import ForeignSession
from .known import FORMATS, Format
from .reader import read_foreign, session_file

__all__ = ["FORMATS", "ForeignSession", "Format", "read_foreign", "session_file"]
