"""Facts about a session that agents store outside its own file.

These are its title, its folder, and whether another agent wrote the prompts.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .base import bytes_in, json_lines


@dataclass(frozen=True, slots=True)
class Beside:
    """Facts about a session from files other than its own."""

    title: str = ""
    cwd: str = ""
    by_agent: bool = False
    """Whether the session's prompts were written by another agent."""


def modified(path: Path) -> int:
    """Return when a file was last changed, in nanoseconds; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def session_index(home: Path, key: str, value: str) -> dict[str, str]:
    """Return the `value` field of each record in an agent's session index, by `key` field.

    If several records have the same key, the newest is used.
    """
    path = home / "session_index.jsonl"
    return _read_index(path, modified(path), key, value)


@lru_cache(maxsize=4)
def _read_index(path: Path, modified: int, key: str, value: str) -> dict[str, str]:
    """Read an index, which many sessions share, only once as long as it does not change."""
    records = [line.record for line in json_lines(bytes_in(path))[0]]
    return {record.text(key): record.text(value) for record in records}
