"""Folders as lists show them: short, and told by their end."""

import os


def shown_folder(path: str, cells: int) -> str:
    """A folder in about so many cells, cut on its left at a folder's name: its end says most."""
    shown = home_apart(path)
    while len(shown) > cells and os.sep in shown.removeprefix("…" + os.sep):
        shown = "…" + os.sep + shown.removeprefix("…" + os.sep).split(os.sep, 1)[1]
    return shown


def home_apart(path: str) -> str:
    """A path with `~` for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of text, not a path
    inside = path == home or path.startswith(home + os.sep)
    return "~" + path[len(home) :] if inside and len(home) > 1 else path
