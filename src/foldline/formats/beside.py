"""What other agents write down beside their sessions: titles, folders, and whose session one is."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5, sha256
from pathlib import Path

from foldline.files import read_regular

from .base import JsonObject, list_at, object_at, parse_object, text_at
from .gemini import project_of

Names = dict[str, str]


@dataclass(frozen=True, slots=True)
class Beside:
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
                return _klaude(path)
            case "gemini-cli":
                return Beside(cwd=_gemini_folder(path))
            case _:
                return Beside()

    def _codex(self, path: Path, session_id: str) -> Beside:
        """The names that users give to sessions stand in an index, the newest last."""
        roots = (above for above in path.parents if above.name in ("sessions", "archived_sessions"))
        home = next(roots, path.parent).parent
        names = self._read(home / "session_index.jsonl", _thread_names)
        return Beside(title=names.get(session_id, ""))

    def _kimi(self, path: Path, session_id: str) -> Beside:
        if path.parts[-3:-1] == ("agents", "main"):
            folder = path.parent.parent.parent
            folders = self._read(folder.parent.parent.parent / "session_index.jsonl", _kimi_code_folders)
            state = _object(folder / "state.json")
            return Beside(title=text_at(state, "title"), cwd=folders.get(session_id, ""))
        inside = path.name in ("context.jsonl", "wire.jsonl")
        bucket = path.parent.parent if inside else path.parent
        folders = self._read(bucket.parent.parent / "kimi.json", _kimi_folders)
        state = _object(path.with_name("state.json")) if inside else {}
        cwd = folders.get(bucket.name.rpartition("_")[2], "")
        return Beside(title=text_at(state, "custom_title"), cwd=cwd)

    def _read(self, path: Path, names: Callable[[bytes], Names]) -> Names:
        if path not in self._shared:
            self._shared[path] = names(_bytes(path))
        return self._shared[path]


def _klaude(path: Path) -> Beside:
    meta = _object(path.with_name("meta.json"))
    by_agent = bool(object_at(meta, "sub_agent_state") or text_at(meta, "parent_session_id"))
    return Beside(text_at(meta, "title"), text_at(meta, "work_dir"), by_agent)


def _gemini_folder(path: Path) -> str:
    """Gemini CLI calls the folder of a project's sessions by a digest of its path, or says there which it is.

    Of a digest can be told only whether it is that of the folder we are in.
    """
    named, here = project_of(path), str(Path.cwd())
    digest = sha256(here.encode(errors="surrogateescape")).hexdigest()
    return named or (here if path.parent.parent.name == digest else "")


def _thread_names(data: bytes) -> Names:
    return _by_line(data, "id", "thread_name")


def _kimi_code_folders(data: bytes) -> Names:
    return _by_line(data, "sessionId", "workDir")


def _kimi_folders(data: bytes) -> Names:
    """Working folders by their digest, which is what kimi-cli calls a folder of sessions."""
    known = list_at((parse_object(data) or {}).get("work_dirs"))
    paths = [text_at(object_at(folder).get("path")) for folder in known]
    return {md5(path.encode(), usedforsecurity=False).hexdigest(): path for path in paths}


def _by_line(data: bytes, key: str, value: str) -> Names:
    records = [parse_object(line) or {} for line in data.splitlines()]
    return {text_at(record.get(key)): text_at(record.get(value)) for record in records}


def _object(path: Path) -> JsonObject:
    return parse_object(_bytes(path)) or {}


def _bytes(path: Path) -> bytes:
    """The content of a file; nothing where it cannot be had: such files only add to what is known."""
    try:
        return read_regular(path)
    except OSError:
        return b""
