"""`foldline import`: another agent's session, or ours as one file, copied into one that can be continued."""

import os
from pathlib import Path

from foldline.agent.api_keys import mask_of
from foldline.data import real_path
from foldline.files import is_folder
from foldline.formats.bundle import BUNDLED, unpack
from foldline.history import EVENTS, Session, short_id
from foldline.history.archive import share_files
from foldline.history.paths import holds_home

from .loop import run_async
from .output import entries_of, note, say, say_json
from .sources import Source, read_source


def run(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    folder = _folder(found.header.cwd)
    session = found.session()
    session.mask = mask_of(os.environ)
    copy = run_async(session.copy(cwd=folder, named=not _is_here(folder)))
    try:
        _bring_along(found, copy)
        copy.save_meta()
    finally:
        copy.close()
    if as_json:
        say_json(
            {"id": copy.id, "format": found.format, "entries": len(copy.entries), "cwd": str(folder),
             "path": str(copy.path)}
        )  # fmt: skip
        return 0
    say(f"{copy.id}: {entries_of(len(copy.entries))} of {found.name} ({found.format}).")
    if str(folder) != found.header.cwd:
        was = f"{found.header.cwd} is not here" if found.header.cwd else "It names no folder"
        if found.header.cwd and holds_home(Path(found.header.cwd)):
            was = f"It names {found.header.cwd}, in which nobody should work unasked"
        note(f"{was}: the session belongs to {folder} now.")
    note(f"`foldline -r {short_id(copy.id)}` in {folder} goes on with it. {source} stays as it is.")
    return 0


def _bring_along(found: Source, copy: Session) -> None:
    """The whole outputs and kept contents that lie beside the session, or are packed with it."""
    assert copy.path is not None
    folder = copy.path.parent
    if found.ours and found.path.name == EVENTS:
        share_files(found.path.parent, folder)
    elif found.format == BUNDLED:
        damaged = unpack(found.path, folder)
        if damaged:
            note(f"{found.name}: damaged, and left out: {', '.join(damaged)}.")


def _is_here(folder: Path) -> bool:
    return real_path(folder) == real_path(Path.cwd())


def _folder(recorded: str) -> Path:
    """Where the session was held, if that is a folder here that is worked in; else the current one."""
    held = Path(recorded)
    is_here = bool(recorded) and held.is_absolute() and is_folder(held)
    return held if is_here and not holds_home(held) else Path.cwd()
