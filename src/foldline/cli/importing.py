"""`foldline import`: another agent's session, copied into one of ours that can be continued."""

from pathlib import Path

from foldline.history import short_id

from .loop import run_async
from .output import note, say, say_json
from .sources import read_source


def run(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    folder = _folder(found.header.cwd)
    copy = run_async(found.session().copy(cwd=folder))
    try:
        copy.save_meta()
    finally:
        copy.close()
    if as_json:
        say_json(
            {"id": copy.id, "format": found.format, "entries": len(copy.entries), "cwd": str(folder),
             "path": str(copy.path)}
        )  # fmt: skip
        return 0
    say(f"{copy.id}: {len(copy.entries)} entries of {found.name} ({found.format}).")
    if str(folder) != found.header.cwd:
        was = f"{found.header.cwd} is not here" if found.header.cwd else "It names no folder"
        note(f"{was}: the session belongs to {folder} now.")
    note(f"`foldline -r {short_id(copy.id)}` in {folder} goes on with it. {source} stays as it is.")
    return 0


def _folder(recorded: str) -> Path:
    """Where the session was held, if that is a folder here; else the current one."""
    held = Path(recorded)
    return held if recorded and held.is_absolute() and held.is_dir() else Path.cwd()
