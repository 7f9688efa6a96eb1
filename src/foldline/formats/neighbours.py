"""Reads what other agents store beside their sessions: titles, folders, and a subagent's parent."""

from dataclasses import dataclass
from hashlib import md5, sha256
from pathlib import Path

from . import klaude
from .base import JsonObject, bytes_in, json_lines, object_in
from .gemini import project_of

Names = dict[str, str]


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a session without its own file."""

    title: str = ""
    cwd: str = ""
    by_agent: bool = False
    """Whether another agent, and no person, wrote its prompts."""


class Neighbours:
    """Looks beside sessions. Files that many sessions share are read once."""

    def __init__(self) -> None:
        self._shared: dict[Path, Names] = {}

    def of(self, agent: str, path: Path, session_id: str) -> Beside:
        match agent:
            case "codex":
                return self._codex(path, session_id)
            case "kimi-cli":
                return self._kimi(path, session_id)
            case "klaude-code":
                meta = klaude.beside(path)
                return Beside(meta.text("title"), meta.text("work_dir"), klaude.is_by_agent(meta))
            case "mistral-vibe":
                meta = object_in(path.with_name("meta.json"))
                return Beside(meta.text("title"), meta.text("environment", "working_directory"))
            case "gemini-cli":
                return Beside(cwd=_gemini_folder(path))
            case _:
                return Beside()

    def _codex(self, path: Path, session_id: str) -> Beside:
        """The names that users give to sessions stand in an index, the newest last."""
        roots = (above for above in path.parents if above.name in ("sessions", "archived_sessions"))
        home = next(roots, path.parent).parent
        return Beside(title=self._in_index(home, "id", "thread_name").get(session_id, ""))

    def _kimi(self, path: Path, session_id: str) -> Beside:
        if path.parts[-3:-1] == ("agents", "main"):
            folder = path.parents[2]
            folders = self._in_index(folder.parents[2], "sessionId", "workDir")
            state = object_in(folder / "state.json")
            return Beside(title=state.text("title"), cwd=folders.get(session_id, ""))
        inside = path.name in ("context.jsonl", "wire.jsonl")
        bucket = path.parent.parent if inside else path.parent
        known = bucket.parent.parent / "kimi.json"
        if known not in self._shared:
            self._shared[known] = _kimi_folders(object_in(known))
        state = object_in(path.with_name("state.json")) if inside else JsonObject()
        cwd = self._shared[known].get(bucket.name.rpartition("_")[2], "")
        return Beside(title=state.text("custom_title"), cwd=cwd)

    def _in_index(self, home: Path, key: str, value: str) -> Names:
        path = home / "session_index.jsonl"
        if path not in self._shared:
            records = [line.record for line in json_lines(bytes_in(path))[0]]
            self._shared[path] = {record.text(key): record.text(value) for record in records}
        return self._shared[path]


def _gemini_folder(path: Path) -> str:
    """Gemini CLI calls the folder of a project's sessions by a digest of its path, or says there which it is.

    A digest says only whether it is that of the folder we are in.
    """
    named, here = project_of(path), str(Path.cwd())
    digest = sha256(here.encode(errors="surrogateescape")).hexdigest()
    return named or (here if path.parent.parent.name == digest else "")


def _kimi_folders(known: JsonObject) -> Names:
    """Working folders by their digest, which is what kimi-cli calls a folder of sessions."""
    paths = [folder.text("path") for folder in known.objects("work_dirs")]
    return {md5(path.encode(), usedforsecurity=False).hexdigest(): path for path in paths}
