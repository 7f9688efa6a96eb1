"""Facts about a session that agents store outside its own file.

These are its title, its folder, and whether another agent wrote the prompts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .base import bytes_in, json_lines

Names = dict[str, str]


@dataclass(frozen=True, slots=True)
class Beside:
    """Facts about a session from files other than its own."""

    title: str = ""
    cwd: str = ""
    by_agent: bool = False
    """Whether the session's prompts were written by another agent."""


class SharedFiles:
    """Caches data from files that many sessions share."""

    def __init__(self) -> None:
        self._names: dict[Path, Names] = {}

    def names(self, path: Path, read: Callable[[Path], Names]) -> Names:
        """Return the names that `read` extracts from a file."""
        if path not in self._names:
            self._names[path] = read(path)
        return self._names[path]

    def index(self, home: Path, key: str, value: str) -> Names:
        """Return the `value` field of each record in an agent's session index, by `key` field.

        If several records have the same key, the newest is used.
        """

        def read(path: Path) -> Names:
            records = [line.record for line in json_lines(bytes_in(path))[0]]
            return {record.text(key): record.text(value) for record in records}

        return self.names(home / "session_index.jsonl", read)
