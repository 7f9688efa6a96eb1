"""Archiving, restoring and deleting sessions: a whole folder at once, while nobody writes to it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from foldline.data import EVENTS, archive_dir, sessions_dir
from foldline.files import make_private
from foldline.protocol import FoldlineError, system_words

from .lock import SessionHeld, WriterLock, noted_holder
from .paths import HOLDER, explained


def archive(home: Path, events: Path) -> Path:
    """Move a session to the archive, where lists leave it out; gives its event file there. Raises
    FoldlineError where that cannot be; nothing has changed then."""
    return _moved(events, sessions_dir(home), archive_dir(home))


def unarchive(home: Path, events: Path) -> Path:
    """Move an archived session back among the others; gives its event file there. Raises FoldlineError."""
    return _moved(events, archive_dir(home), sessions_dir(home))


def kept_folder(home: Path, events: Path) -> Path:
    """The folder of a session that lies among ours, so that it is ours to move and to delete. Raises
    FoldlineError where it lies elsewhere, or only a link to it lies there."""
    folder = Path(os.path.abspath(events)).parent  # noqa: PTH100 - `resolve` would follow the links
    roots = [Path(os.path.abspath(root(home))) for root in (sessions_dir, archive_dir)]  # noqa: PTH100
    if events.name != EVENTS or folder.parent.parent not in roots:
        raise FoldlineError(f"{events} is not one of the sessions kept in {home}: it was left as it is.")
    if folder.is_symlink():
        raise FoldlineError(f"{folder} is a link to {folder.readlink()}: both were left as they are.")
    return folder


@contextmanager
def held(folder: Path, done: str) -> Iterator[None]:
    """Nobody else writes to the session in `folder` during it; `done` is what cannot be done where somebody
    does: "moved". Raises FoldlineError."""
    lock = WriterLock(folder)
    try:
        with explained(f"The session in {folder} cannot be {done}"):
            lock.acquire()
    except SessionHeld:
        who = noted_holder(folder)
        raise FoldlineError(
            f"The session {folder.name} is being written by {who}: it cannot be {done} now."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _moved(events: Path, source: Path, target: Path) -> Path:
    folder = kept_folder(source.parent, events)
    key = folder.parent.name
    goal = target / key / folder.name
    if folder.parent.parent.name != source.name:
        known = "archived already" if target == archive_dir(target.parent) else "not archived"
        raise FoldlineError(f"The session {folder.name} is {known}.")
    if os.path.lexists(goal):
        raise FoldlineError(f"There is another session in {goal}: {folder.name} was left where it is.")
    with held(folder, "moved"):
        with explained(f"The session {folder.name} cannot be moved to {goal}"):
            make_private(goal.parent)
            folder.rename(goal)
        with suppress(OSError):
            (goal / HOLDER).unlink(missing_ok=True)  # ours, and released now
    return goal / EVENTS


LEAVING = ".deleted"
"""Ends the name of a folder that is being taken away."""


class Deleted(NamedTuple):
    """What is gone."""

    folder: Path
    files: int
    size: int
    """Bytes in these files, those that a fork holds as well included."""


def delete(home: Path, events: Path) -> Deleted:
    """Delete a session with its folder: it leaves the lists in one step, before the first file goes. Links in
    it go, what they lead to stays. Raises FoldlineError; its sentence says where what is left lies."""
    folder = kept_folder(home, events)
    leaving = folder.with_name(f".{folder.name}{LEAVING}")
    files, size = _measured(folder)
    with held(folder, "deleted"):
        with explained(f"The session in {folder} cannot be deleted"):
            if os.path.lexists(leaving):  # an earlier deletion of the same id that was cut short
                shutil.rmtree(leaving)
            folder.rename(leaving)
        try:
            shutil.rmtree(leaving)
        except OSError as error:
            raise FoldlineError(
                f"The session {folder.name} was deleted, but not all its files are gone: "
                f"{system_words(error)}; what is left lies in {leaving}."
            ) from None
    with suppress(OSError):
        folder.parent.rmdir()  # where it was the last one
    return Deleted(folder, files, size)


def _measured(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return files, size
