"""The title and the folder of a session of kimi-cli or Kimi Code, which lie in files beside it."""

from hashlib import md5
from pathlib import Path

from foldline.formats.base import JsonObject, object_in
from foldline.formats.beside import Beside, Names, SharedFiles


def beside_kimi(path: Path, session_id: str, shared: SharedFiles) -> Beside:
    """Return the title and the folder, as far as they are known."""
    if path.parts[-3:-1] == ("agents", "main"):
        folder = path.parents[2]
        folders = shared.index(folder.parents[2], "sessionId", "workDir")
        title = object_in(folder / "state.json").text("title")
        return Beside(title=title, cwd=folders.get(session_id, ""))
    has_folder = path.name in ("context.jsonl", "wire.jsonl")
    bucket = path.parent.parent if has_folder else path.parent
    folders = shared.names(bucket.parent.parent / "kimi.json", _folders_by_digest)
    state = object_in(path.with_name("state.json")) if has_folder else JsonObject()
    cwd = folders.get(bucket.name.rpartition("_")[2], "")
    return Beside(title=state.text("custom_title"), cwd=cwd)


def _folders_by_digest(path: Path) -> Names:
    """Return the working folders by digest: kimi-cli names a folder of sessions by it."""
    folders = [folder.text("path") for folder in object_in(path).objects("work_dirs")]
    digests = (md5(folder.encode(), usedforsecurity=False).hexdigest() for folder in folders)
    return dict(zip(digests, folders, strict=True))
