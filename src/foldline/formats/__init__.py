"""Other agents' sessions read into our protocol: detection by content, a reader a format, never a write."""

from .base import ForeignSession
from .detection import FORMATS, Format
from .reader import file_in, file_of, read_foreign, session_file

__all__ = ["FORMATS", "ForeignSession", "Format", "file_in", "file_of", "read_foreign", "session_file"]
