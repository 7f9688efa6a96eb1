"""Folders as people name them."""

import os


def home_apart(path: str) -> str:
    """A path with `~` for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of text, not a path
    inside = path == home or path.startswith(home + os.sep)
    return "~" + path[len(home) :] if inside and len(home) > 1 else path
