"""Finds the working folder of a resumed session, before the first paint shows it."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from foldline.data import (
    EVENTS,
    archive_dir,
    data_home,
    is_kept,
    matches_id,
    real_path,
    sessions_dir,
    typed_path,
)
from foldline.files import is_file, is_folder, opened

SESSION_MOVED = "This session was recorded in {old}. It continues in {new}."
USE_FOREIGN_FOLDER = (
    "Another program recorded this session in {recorded}. "
    "Continue there instead of in {here}?"
)
FOLDER_MISSING = (
    "The session's folder, {recorded}, no longer exists. Continue in {here}?"
)
NOT_RESUMED = (
    "The session was not resumed. Resume it from the folder where its project is now."
)
_LONGEST_HEADER = 64 * 1024
"""Maximum size of a header that is read here, in bytes.

Longer headers are read by `read_header`.
"""
_SHORTEST_ID = 3
"""Minimum length of a partial id. `find_session` rejects shorter ones."""


def folder_of(ref: str, here: Path, ask: Callable[[str], bool] | None = None) -> Path:
    """Return the working folder of a session that is resumed from `here`.

    The recorded folder of an imported session is used only if the user agrees.

    Args:
        ask: asks the user a yes/no question. By default, the question is asked in the terminal.

    Raises:
        FoldlineError: the folder no longer exists, and the user declined to continue in `here`.
    """
    return quick_folder(ref, here) or _checked_folder(ref, here, ask)


def quick_folder(ref: str, here: Path) -> Path | None:
    """Return the recorded folder, but only in simple cases.

    This avoids the slow import of the session readers before the first paint.
    """
    with suppress(OSError, ValueError):
        file = _file(ref)
        if file is None:
            return None
        header = _header(file)
        recorded = header.get("cwd")
        if recorded == real_path(here):
            return here
        identity = header.get("folder", {})
        if (
            "parent" in header
            or not is_kept(data_home(), file)
            or not isinstance(identity, dict)
        ):
            return None
        # A renamed folder keeps its inode number, which shows that the session belongs to it.
        is_renamed = str(identity.get("id")).startswith(f"{here.stat().st_ino:x}-")
        if not is_renamed and isinstance(recorded, str) and os.path.isabs(recorded):  # noqa: PTH117
            return Path(recorded) if is_folder(recorded) else None
    return None


def _file(ref: str) -> Path | None:
    """Return the only event file that `ref` matches.

    `ref` is a path, a folder, or the start or end of an id.

    Returns None if no file matches, or more than one.
    """
    path = typed_path(ref)
    for file in (path, path / EVENTS):
        if is_file(file):
            return file
    folders = [folder for folder in _sessions() if matches_id(folder.name, ref)]
    exact = [folder for folder in folders if folder.name == ref]
    if not exact and len(ref) < _SHORTEST_ID:
        return None
    match exact or folders:
        case [folder]:
            return Path(folder.path, EVENTS)
    return None


def _sessions() -> "list[os.DirEntry[str]]":
    """Return the folders of all stored sessions."""
    folders: list[os.DirEntry[str]] = []
    for root in (sessions_dir(data_home()), archive_dir(data_home())):
        if root.is_dir():
            for project in os.scandir(root):
                folders += os.scandir(project.path) if project.is_dir() else ()
    return folders


def _header(file: Path) -> dict[str, Any]:
    with opened(file) as events:
        header = json.loads(events.readline(_LONGEST_HEADER))
    return (
        header if isinstance(header, dict) and header.get("type") == "session" else {}
    )


def _checked_folder(ref: str, here: Path, ask: Callable[[str], bool] | None) -> Path:
    from foldline.history import Folder, find_session, read_header
    from foldline.history.origin import is_foreign
    from foldline.protocol import FoldlineError

    from .output import confirmed, note

    agrees = ask or partial(confirmed, yes=False, option="a terminal")
    path = find_session(data_home(), ref)
    header = read_header(path)
    place = Folder(here).place(header)
    if (
        place.tie == "path"
        and is_foreign(header, path)
        and str(place.folder) != real_path(here)
    ):
        # Another program's file names the folder, and files in it would be read without approval.
        question = USE_FOREIGN_FOLDER.format(recorded=header.cwd, here=here)
        return place.folder if agrees(question) else here
    if place.tie is None:
        question = FOLDER_MISSING.format(recorded=header.cwd, here=place.folder)
        if not agrees(question):
            raise FoldlineError(NOT_RESUMED)
    elif place.tie != "path" and ask is None:  # the chat shows its own notice
        note(SESSION_MOVED.format(old=header.cwd, new=place.folder))
    return place.folder
