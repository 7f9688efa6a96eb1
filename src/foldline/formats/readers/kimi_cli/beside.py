"""Reads the title and folder of a kimi-cli or Kimi Code session.

Both are stored outside the session's own file.
"""

from functools import lru_cache
from hashlib import md5
from pathlib import Path

from foldline.formats.base import object_in
from foldline.formats.beside import Beside, modified, session_index


def beside_kimi(path: Path, session_id: str) -> Beside:
    """Return the title and the folder of a session.

    Either is empty if it is unknown.
    """
    if is_of_main_agent(path):
        folder = path.parents[2]
        folders = session_index(folder.parents[2], "sessionId", "workDir")
        state = object_in(folder / "state.json")
        return Beside(state.text("title"), folders.get(session_id, ""))
    bucket = path.parent
    title = ""
    if path.name in ("context.jsonl", "wire.jsonl"):
        bucket = bucket.parent
        title = object_in(path.with_name("state.json")).text("custom_title")
    kimi = bucket.parent.parent / "kimi.json"
    folders = _folders_by_digest(kimi, modified(kimi))
    digest = bucket.name.rpartition("_")[2]
    return Beside(title, folders.get(digest, ""))


def is_of_main_agent(path: Path) -> bool:
    """Return whether this is the wire file of Kimi Code's main agent."""
    return path.parts[-3:-1] == ("agents", "main")


@lru_cache(maxsize=4)
def _folders_by_digest(path: Path, modified: int) -> dict[str, str]:
    """Return the working folders by their digests.

    kimi-cli uses these digests as names of session folders.
    """
    folders = {}
    for record in object_in(path).objects("work_dirs"):
        folder = record.text("path")
        digest = md5(folder.encode(), usedforsecurity=False)
        folders[digest.hexdigest()] = folder
    return folders
