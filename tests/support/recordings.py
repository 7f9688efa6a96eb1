"""Recorded sessions of other agents, stored outside the repository."""

import os
from pathlib import Path

import pytest

from support.limits import ALL

SHARED = Path(
    os.environ.get(
        "FOLDLINE_SHARED_SESSIONS", Path(__file__).parents[3] / "shared" / "sessions"
    )
)

needs_recorded = pytest.mark.skipif(
    not SHARED.is_dir(),
    reason=f"the recorded sessions are not here: {SHARED} (FOLDLINE_SHARED_SESSIONS)",
)


def recordings(folder: str) -> list[Path]:
    """Return all files below a folder of the recorded sessions; empty if absent."""
    return sorted(path for path in (SHARED / folder).rglob("*") if path.is_file())


READ = ("claude-code", "codex", "kimi", "mini-swe-agent", "opencode", "pi")


SMALL = 700_000
"""Largest file in bytes unless FOLDLINE_TESTS=all: half of the files, a fifth of the bytes, every format."""


def compactable_recordings() -> list[Path]:
    """Return the recorded sessions in supported formats that are long enough to compact."""
    paths = [path for folder in READ for path in recordings(folder)]
    return paths if ALL else [path for path in paths if path.stat().st_size < SMALL]
