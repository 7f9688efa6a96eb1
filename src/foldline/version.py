"""The version number.

This module imports nothing, so that `foldline --version` responds instantly.
"""

__version__ = "0.1.0"
