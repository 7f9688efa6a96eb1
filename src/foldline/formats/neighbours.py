"""Finds the information that other agents store outside their session files."""

from hashlib import sha256
from pathlib import Path

from foldline.formats.readers.gemini.reader import project_of
from foldline.formats.readers.kimi_cli.beside import beside_kimi
from foldline.formats.readers.klaude import reader as klaude

from .base import object_in
from .beside import Beside, session_index


def beside(agent: str, path: Path, session_id: str) -> Beside:
    """Return the facts about a session that are outside its own file."""
    match agent:
        case "codex":
            return Beside(title=_codex_title(path, session_id))
        case "kimi-cli":
            return beside_kimi(path, session_id)
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


def _codex_title(path: Path, session_id: str) -> str:
    """Return the title that the user gave the session.

    Codex keeps these titles in an index file.
    """
    roots = (
        above
        for above in path.parents
        if above.name in ("sessions", "archived_sessions")
    )
    home = next(roots, path.parent).parent
    return session_index(home, "id", "thread_name").get(session_id, "")


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
