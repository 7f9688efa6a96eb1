"""The recorded sessions of other agents, which lie beside the project and are never copied into it."""

import os
from pathlib import Path

import pytest

from support.limits import ALL

SHARED = Path(os.environ.get("FOLDLINE_SHARED_SESSIONS", Path(__file__).parents[3] / "shared" / "sessions"))

needs_recorded = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the recorded sessions are not here: {SHARED} (FOLDLINE_SHARED_SESSIONS)"
)


def recorded(folder: str) -> list[Path]:
    """All files below one folder of the recorded sessions; empty where they are absent."""
    return sorted(path for path in (SHARED / folder).rglob("*") if path.is_file())


READ = ("claude-code", "codex", "kimi", "mini-swe-agent", "opencode", "pi")


SMALL = 700_000
"""Bytes of the largest of those that `make test` takes: half of them, a fifth of their bytes, each format."""


def readable() -> list[Path]:
    """The recorded sessions that are long enough to be folded, in formats that are read."""
    found = [path for folder in READ for path in recorded(folder)]
    return found if ALL else [path for path in found if path.stat().st_size < SMALL]
