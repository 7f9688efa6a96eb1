"""Renames and copies sessions on disk, for the command line and the list of sessions.

The functions block between their awaits: call them in a thread or outside an event loop.
"""

import os
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from foldline.agent.settings.api_keys import mask_of
from foldline.data import real_path
from foldline.files import is_folder
from foldline.formats.base import ForeignChild
from foldline.formats.subagents import keep_subagents
from foldline.history import Folder, Session
from foldline.history.paths import holds_home
from foldline.protocol import Title


async def rename_session(path: Path, title: Title) -> Session:
    """Append a title to a session."""
    session = Session.open(path)
    try:
        await session.append(title, durable=True)
        session.save_meta()
    finally:
        session.close()
    return session


async def fork_session(
    session: Session, here: Path, *, home: Path | None = None, until: int | None = None
) -> Session:
    """Copy a session up to the entry `until`.

    The copy works in the session's folder. If this folder has moved, `here` is used to find it.
    """
    place = Folder(here).place(session.header)
    folder = session.cwd if place.tie is None else place.folder
    return await _saved(session.copy(home=home, cwd=folder, until=until))


async def import_copy(
    original: Session,
    children: Iterable[ForeignChild],
    here: Path,
    *,
    home: Path | None = None,
) -> Session:
    """Copy another agent's session and its subagents. API keys in it are masked."""
    folder = working_folder(original.header.cwd, here)
    original.mask = mask_of(os.environ)
    is_named = real_path(folder) != real_path(here)
    copy = await _saved(original.copy(home=home, cwd=folder, named=is_named))
    keep_subagents(children, event_file(copy), str(folder), original.mask)
    return copy


def working_folder(recorded: str, here: Path) -> Path:
    """Return the recorded folder.

    Returns `here` instead if the recorded folder does not exist or contains the user's home.
    """
    folder = Path(recorded)
    if (
        recorded
        and folder.is_absolute()
        and is_folder(folder)
        and not holds_home(folder)
    ):
        return folder
    return here


def event_file(session: Session) -> Path:
    """Return the event file of a session on disk."""
    assert session.path is not None, "the session is on disk"
    return session.path


async def _saved(copying: Coroutine[Any, Any, Session]) -> Session:
    copy = await copying
    try:
        copy.save_meta()
    finally:
        copy.close()
    return copy
