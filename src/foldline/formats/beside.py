"""What an agent stores beside a session: its title, its folder, whether another agent prompted it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .base import bytes_in, json_lines

Names = dict[str, str]


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a session without its own file."""

    title: str = ""
    cwd: str = ""
    by_agent: bool = False
    """Whether another agent, and no person, wrote its prompts."""


class SharedFiles:
    """Files that many sessions share. Each is read once."""

    def __init__(self) -> None:
        self._names: dict[Path, Names] = {}

    def names(self, path: Path, read: Callable[[Path], Names]) -> Names:
        """Return the names in a file, as `read` finds them."""
        if path not in self._names:
            self._names[path] = read(path)
        return self._names[path]

    def index(self, home: Path, key: str, value: str) -> Names:
        """Return two fields of the records in an agent's index of sessions; of a key, the newest counts."""

        def read(path: Path) -> Names:
            records = [line.record for line in json_lines(bytes_in(path))[0]]
            return {record.text(key): record.text(value) for record in records}

        return self.names(home / "session_index.jsonl", read)
