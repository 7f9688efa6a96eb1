"""Files that a folder brings, agreed to as the user would."""

import os
from pathlib import Path

from foldline.agent.trust import brought, decide


def agree(folder: Path) -> None:
    """Agree to all that this folder brings, as it is now; never in one's own data folder."""
    assert "FOLDLINE_HOME" in os.environ, "the test needs a data folder of its own"
    decide(brought(folder), "agreed")


def bring(path: Path, text: str) -> None:
    """Put a file into a folder, and agree to it."""
    path.write_text(text)
    agree(path.parent)
