"""Approval of a folder's files, as by the user."""

import os
from pathlib import Path

from foldline.agent.project.trust import decide, folder_files


def agree(folder: Path) -> None:
    """Approve all files that this folder brings, in their current state.

    Never writes to the user's own data folder.
    """
    assert "FOLDLINE_HOME" in os.environ, "the test needs a data folder of its own"
    decide(folder_files(folder), "agreed")


def bring(path: Path, text: str) -> None:
    """Write a file into a folder and approve it."""
    path.write_text(text)
    agree(path.parent)
