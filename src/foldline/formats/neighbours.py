"""Finds the information that other agents store outside their session files."""

from hashlib import sha256
from pathlib import Path

from foldline.formats.readers.gemini.reader import project_of
from foldline.formats.readers.kimi_cli.beside import beside_kimi
from foldline.formats.readers.klaude import reader as klaude

from .base import object_in
from .beside import Beside, SharedFiles


class Neighbours:
    """Looks up facts about sessions outside their own files.

    Files that many sessions share are read only once.
    """

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
                return Beside(
                    meta.text("title"), meta.text("work_dir"), klaude.is_by_agent(meta)
                )
            case "mistral-vibe":
                meta = object_in(path.with_name("meta.json"))
                return Beside(
                    meta.text("title"), meta.text("environment", "working_directory")
                )
            case "gemini-cli":
                return Beside(cwd=_gemini_folder(path))
            case _:
                return Beside()

    def _codex(self, path: Path, session_id: str) -> Beside:
        """Return the title that the user gave the session.

        Codex keeps these titles in an index file.
        """
        roots = (
            above
            for above in path.parents
            if above.name in ("sessions", "archived_sessions")
        )
        home = next(roots, path.parent).parent
        names = self._shared.index(home, "id", "thread_name")
        return Beside(title=names.get(session_id, ""))


def _gemini_folder(path: Path) -> str:
    """Return the project folder of a Gemini CLI session; empty if unknown.

    Usually, a file next to the sessions contains the project's path. Without this file, only the path's
    digest is known, because it is the name of the session folder. It is compared with the digest of the
    current folder's path.
    """
    named = project_of(path)
    here = str(Path.cwd())
    digest = sha256(here.encode(errors="surrogateescape")).hexdigest()
    if named:
        return named
    return here if path.parent.parent.name == digest else ""
