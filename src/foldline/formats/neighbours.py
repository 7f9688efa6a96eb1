"""Finds what other agents store beside their sessions."""

from hashlib import sha256
from pathlib import Path

from .base import object_in
from .beside import Beside, SharedFiles
from .readers.gemini.reader import project_of
from .readers.kimi_cli.beside import beside_kimi
from .readers.klaude import reader as klaude


class Neighbours:
    """Looks beside sessions. Files that many sessions share are read once."""

    def __init__(self) -> None:
        self._shared = SharedFiles()

    def of(self, agent: str, path: Path, session_id: str) -> Beside:
        match agent:
            case "codex":
                return self._codex(path, session_id)
            case "kimi-cli":
                return beside_kimi(path, session_id, self._shared)
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
        """The names that users give to sessions stand in an index."""
        roots = (above for above in path.parents if above.name in ("sessions", "archived_sessions"))
        home = next(roots, path.parent).parent
        names = self._shared.index(home, "id", "thread_name")
        return Beside(title=names.get(session_id, ""))


def _gemini_folder(path: Path) -> str:
    """The project of a session of Gemini CLI, if it is known.

    The folder of a project's sessions is named by a digest of its path, unless a file there has the path. A
    digest only says whether it is that of the folder we are in.
    """
    named, here = project_of(path), str(Path.cwd())
    digest = sha256(here.encode(errors="surrogateescape")).hexdigest()
    if named:
        return named
    return here if path.parent.parent.name == digest else ""
