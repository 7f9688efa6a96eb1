"""Archives, restores and deletes session folders."""

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

NOT_IN_HOME = "{events} is not a session in {home}, so it was not changed."
IS_LINK = "{folder} is a link to {target}. Neither was changed."
IN_USE = "The session {name} is being written by {holder}, so it cannot be {done} now."
ALREADY_ARCHIVED = "The session {name} is already archived."
NOT_ARCHIVED = "The session {name} is not archived."
PLACE_TAKEN = "The session {name} was not moved: there is another session in {goal}."
PARTLY_DELETED = "The session {name} was deleted, but some of its files remain in {folder}: {reason}."


def archive(home: Path, events: Path) -> Path:
    """Move a session to the archive, and return its new event file.

    Raises:
        FoldlineError: the session cannot be moved. It remains unchanged.
    """
    return _move(events, sessions_dir(home), archive_dir(home), ALREADY_ARCHIVED)


def unarchive(home: Path, events: Path) -> Path:
    """Move a session out of the archive, and return its new event file.

    Raises:
        FoldlineError: the session cannot be moved. It remains unchanged.
    """
    return _move(events, archive_dir(home), sessions_dir(home), NOT_ARCHIVED)


def kept_folder(home: Path, events: Path) -> Path:
    """Return the folder of a session stored in `home`.

    Raises:
        FoldlineError: the session is not in `home`, or its folder is a link.
    """
    folder = _absolute(events).parent
    roots = [_absolute(sessions_dir(home)), _absolute(archive_dir(home))]
    if events.name != EVENTS or folder.parent.parent not in roots:
        raise FoldlineError(NOT_IN_HOME, events=events, home=home)
    if folder.is_symlink():
        raise FoldlineError(IS_LINK, folder=folder, target=folder.readlink())
    return folder


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


@contextmanager
def held(folder: Path, done: str) -> Iterator[None]:
    """Hold the writer's lock of the session in `folder`.

    Args:
        done: past participle that completes error messages, such as "moved" in "cannot be moved".

    Raises:
        FoldlineError: another process holds the lock, or the disk failed, also during the work with the
            lock.
    """
    lock = WriterLock(folder)
    with explained(f"The session in {folder} cannot be {done}"):
        try:
            lock.acquire()
        except SessionHeld:
            raise FoldlineError(
                IN_USE, name=folder.name, holder=noted_holder(folder), done=done
            ) from None
        try:
            yield
        finally:
            lock.release()


def _move(events: Path, source: Path, target: Path, refusal: str) -> Path:
    """Move a session between two roots.

    Args:
        refusal: error message if the session is not in `source`.
    """
    folder = kept_folder(source.parent, events)
    key = folder.parent.name
    goal = target / key / folder.name
    if folder.parent.parent.name != source.name:
        raise FoldlineError(refusal, name=folder.name)
    if os.path.lexists(goal):
        raise FoldlineError(PLACE_TAKEN, name=folder.name, goal=goal)
    with held(folder, "moved"):
        with explained(f"The session {folder.name} cannot be moved to {goal}"):
            make_private(goal.parent)
            folder.rename(goal)
        with suppress(OSError):
            (goal / HOLDER).unlink(missing_ok=True)  # our own note
    return goal / EVENTS


LEAVING = ".deleted"
"""Suffix in the names of folders that are being deleted."""


class Deleted(NamedTuple):
    """Result of deleting a session."""

    folder: Path
    files: int
    size: int
    """Total size of the deleted files, in bytes. Files shared with forks are included."""


def delete(home: Path, events: Path) -> Deleted:
    """Delete a session with its folder.

    The folder is renamed first, so that the session disappears from lists at once. Links in the folder are
    removed, but their targets are not.

    Raises:
        FoldlineError: not all files could be deleted. The message names the remaining folder.
    """
    folder = kept_folder(home, events)
    leaving = folder.with_name(f".{folder.name}{LEAVING}")
    files, size = _measure(folder)
    with held(folder, "deleted"):
        if os.path.lexists(leaving):  # from an interrupted deletion of the same id
            shutil.rmtree(leaving)
        folder.rename(leaving)
        try:
            shutil.rmtree(leaving)
        except OSError as error:
            reason = system_words(error)
            raise FoldlineError(
                PARTLY_DELETED, name=folder.name, folder=leaving, reason=reason
            ) from None
    with suppress(OSError):
        folder.parent.rmdir()  # only if it is empty now
    return Deleted(folder, files, size)


def _measure(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return files, size
