"""The folder a session is resumed in: known before the first paint, which shows that folder."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from foldline.data import EVENTS, archive_dir, data_home, is_kept, real_path, sessions_dir, typed_path
from foldline.files import is_file, is_folder, opened

_LONGEST_HEADER = 64 * 1024
"""Bytes; a longer one is read with all care."""
_LEAST_OF_AN_ID = 3
"""Characters; what less means is for `find_session` to say."""


def folder_of(ref: str, here: Path, ask: Callable[[str], bool] | None = None) -> Path:
    """The working folder of a session that is resumed from `here`, wherever that is now.

    One that came from elsewhere is not believed where that is: the user says, asked by `ask`, or here in the
    terminal.

    Raises:
        FoldlineError: it is gone, and the user does not want to continue in this one.
    """
    return at_a_glance(ref, here) or _looked_into(ref, here, ask)


def at_a_glance(ref: str, here: Path) -> Path | None:
    """The folder of a session that was plainly held there, by us; None where that takes a closer look.

    What reads sessions takes long to import: here nothing of it is, and it comes after the first paint.
    """
    with suppress(OSError, ValueError):
        file = _file(ref)
        header = _header(file) if file is not None else {}
        held_in, mark = header.get("cwd"), header.get("folder", {})
        if held_in == real_path(here):
            return here
        is_ours = file is not None and "parent" not in header and is_kept(data_home(), file)
        # A folder that was renamed keeps its inode, and takes its sessions along.
        may_be_here = not isinstance(mark, dict) or str(mark.get("id")).startswith(f"{here.stat().st_ino:x}-")
        if is_ours and not may_be_here and isinstance(held_in, str) and os.path.isabs(held_in):  # noqa: PTH117
            return Path(held_in) if is_folder(held_in) else None
    return None


def _file(ref: str) -> Path | None:
    """The one event file that is meant, by its path, its folder, or an end of its id."""
    path = typed_path(ref)
    for file in (path, path / EVENTS):
        if is_file(file):
            return file
    found = [each for each in _sessions() if each.name.startswith(ref) or each.name.endswith(ref)]
    exact = [each for each in found if each.name == ref]
    if len(exact or found) != 1 or not (exact or len(ref) >= _LEAST_OF_AN_ID):
        return None
    return Path((exact or found)[0].path, EVENTS)


def _sessions() -> "list[os.DirEntry[str]]":
    """The folders of all sessions that are kept."""
    found: list[os.DirEntry[str]] = []
    for root in (sessions_dir(data_home()), archive_dir(data_home())):
        if root.is_dir():
            for folder in os.scandir(root):
                found += os.scandir(folder.path) if folder.is_dir() else ()
    return found


def _header(file: Path) -> dict[str, Any]:
    with opened(file) as events:
        header = json.loads(events.readline(_LONGEST_HEADER))
    return header if isinstance(header, dict) and header.get("type") == "session" else {}


def _looked_into(ref: str, here: Path, ask: Callable[[str], bool] | None) -> Path:
    from foldline.history import Folder, find_session, read_header
    from foldline.history.origin import is_foreign
    from foldline.protocol import FoldlineError

    from .output import confirmed, note

    agreed = ask or partial(confirmed, yes=False, how="y")
    path = find_session(data_home(), ref)
    header = read_header(path)
    place = Folder(here).place(header)
    if place.tie == "path" and is_foreign(header, path) and str(place.folder) != real_path(here):
        # Its reads would count as inside, whatever folder somebody else wrote there.
        question = f"This session was imported, and names {header.cwd}. Let it work there, not in {here}?"
        return place.folder if agreed(question) else here
    if place.tie is None:
        question = f"{header.cwd}, where this session was held, is gone. Go on with it in {place.folder}?"
        if not agreed(question):
            raise FoldlineError("The session was not resumed: do so in the folder where its project is now.")
    elif place.tie != "path" and ask is None:  # the chat says so itself
        note(f"This session was held in {header.cwd}; it continues in {place.folder}.")
    return place.folder
