"""What an agent stores beside a session: its title, its folder, whether another agent prompted it."""

from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

from .base import JsonObject, bytes_in, json_lines, object_in

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

    def index(self, home: Path, key: str, value: str) -> Names:
        """Two fields of the records in an agent's index of sessions; of a key, the newest counts."""
        path = home / "session_index.jsonl"
        if path not in self._names:
            records = [line.record for line in json_lines(bytes_in(path))[0]]
            self._names[path] = {record.text(key): record.text(value) for record in records}
        return self._names[path]

    def kimi_folders(self, path: Path) -> Names:
        """Working folders by their digest, by which kimi-cli names a folder of sessions."""
        if path not in self._names:
            folders = [folder.text("path") for folder in object_in(path).objects("work_dirs")]
            digests = (md5(folder.encode(), usedforsecurity=False).hexdigest() for folder in folders)
            self._names[path] = dict(zip(digests, folders, strict=True))
        return self._names[path]


def beside_kimi(path: Path, session_id: str, shared: SharedFiles) -> Beside:
    """The title and the folder of a session of kimi-cli or Kimi Code."""
    if path.parts[-3:-1] == ("agents", "main"):
        folder = path.parents[2]
        folders = shared.index(folder.parents[2], "sessionId", "workDir")
        title = object_in(folder / "state.json").text("title")
        return Beside(title=title, cwd=folders.get(session_id, ""))
    has_folder = path.name in ("context.jsonl", "wire.jsonl")
    bucket = path.parent.parent if has_folder else path.parent
    folders = shared.kimi_folders(bucket.parent.parent / "kimi.json")
    state = object_in(path.with_name("state.json")) if has_folder else JsonObject()
    cwd = folders.get(bucket.name.rpartition("_")[2], "")
    return Beside(title=state.text("custom_title"), cwd=cwd)
