"""The version, in a module that imports nothing: `foldline --version` must be instant."""

__version__ = "0.1.0"
