"""Folders as lists show them: short, and told by their end."""

import os

from foldline.history.paths import with_tilde


def shown_folder(path: str, cells: int) -> str:
    """A folder in about so many cells, cut on its left at a folder's name: its end says most."""
    shown = with_tilde(path)
    while len(shown) > cells and os.sep in shown.removeprefix("…" + os.sep):
        shown = "…" + os.sep + shown.removeprefix("…" + os.sep).split(os.sep, 1)[1]
    return shown
