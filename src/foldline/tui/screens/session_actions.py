"""What is done to sessions on disk: titles, archiving, deleting, copies, imports. Slow: for a thread.

All raise FoldlineError where another process writes to the session, or the disk refused. Each runs in a loop
of its thread's own: the screen's is not kept from drawing by a long history.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from foldline.context.numbers import many
from foldline.data import real_path
from foldline.files import is_folder
from foldline.history import Folder, Session, archive, clip_cells, delete, short_id, unarchive
from foldline.history.paths import holds_home
from foldline.protocol import FoldlineError, Title
from foldline.tui.screens.sessions_list import Listed

_TITLE_CELLS: Final = 200
"""Of a title that is kept. Lists show less of it."""


def kept_title(text: str) -> str:
    """A title as it is kept: one line. Empty where there is nothing to keep."""
    return clip_cells(text, _TITLE_CELLS)


def rename_session(path: Path, title: str) -> str:
    """Give a session another title."""
    session = Session.open(path)
    try:
        asyncio.run(session.append(Title(title=title), durable=True))
        session.save_meta()
    finally:
        session.close()
    return f"{short_id(session.id)} is called “{title}” now."


def archive_session(home: Path, row: Listed) -> str:
    """Archive a session, or bring an archived one back."""
    name = short_id(row.id)
    if row.archived:
        unarchive(home, row.path)
        return f"{name} is among the sessions again."
    archive(home, row.path)
    return f"{name} is archived: 3 shows it, x brings it back."


def delete_session(home: Path, row: Listed) -> str:
    """Delete a session for good."""
    gone = delete(home, row.path)
    return f"{short_id(row.id)} is deleted: {many(gone.files, 'file')}."


def fork_session(path: Path, home: Path, root: Path, until: int | None = None) -> Path:
    """The event file of a copy, which ends with the entry `until` where one is given. It belongs to the
    folder its session was held in, wherever that is from `root`."""
    session = Session.open(path)
    place = Folder(root).place(session.header)
    folder = place.folder if place.tie is not None else session.cwd
    return _kept(session.copy(home=home, cwd=folder, until=until))


def import_session(row: Listed, home: Path, root: Path) -> Path:
    """The event file of a copy of another agent's session, in the folder it was held in, or in `root` where
    that is not here."""
    from foldline.formats import read_foreign  # in a thread: nobody waits for it before

    found = read_foreign(row.path, row.agent)
    if not found.entries:
        raise FoldlineError(f"{row.path} holds nothing that could go on.")
    held = Path(found.header.cwd)
    folder = held if held.is_absolute() and is_folder(held) and not holds_home(held) else root
    session = Session.from_entries(found.header, found.entries, damage=found.damage)
    return _kept(session.copy(home=home, cwd=folder, named=real_path(folder) != real_path(root)))


def _kept(copying: Coroutine[Any, Any, Session]) -> Path:
    copy = asyncio.run(copying)
    try:
        copy.save_meta()
    finally:
        copy.close()
    assert copy.path is not None, "it was written"
    return copy.path
