"""Putting sessions away, and back: a whole folder at once, while nobody writes to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foldline.data import EVENTS, archive_dir, sessions_dir
from foldline.files import make_private
from foldline.protocol import FoldlineError, system_words

from ..holder import noted_holder
from ..lock import SessionHeld, WriterLock
from ..paths import HOLDER


def archive(home: Path, events: Path) -> Path:
    """Put a session where lists leave it out; its event file there.

    Raises:
        FoldlineError: it is there already, it is not one that we keep, another process writes to it, or the
            disk refused. Nothing has changed.
    """
    return _moved(events, sessions_dir(home), archive_dir(home))


def bring_back(home: Path, events: Path) -> Path:
    """Put an archived session back among the others; its event file there.

    Raises:
        FoldlineError: it is not archived, another process writes to it, or the disk refused.
    """
    return _moved(events, archive_dir(home), sessions_dir(home))


def kept_folder(home: Path, events: Path) -> Path:
    """The folder of a session that lies among ours, so that it is ours to move and to delete.

    Raises:
        FoldlineError: it lies elsewhere, or only a link to it lies there.
    """
    folder = Path(os.path.abspath(events)).parent  # noqa: PTH100 - `resolve` would follow the links
    roots = [Path(os.path.abspath(root(home))) for root in (sessions_dir, archive_dir)]  # noqa: PTH100
    if events.name != EVENTS or folder.parent.parent not in roots:
        raise FoldlineError(f"{events} is not one of the sessions kept in {home}: it was left as it is.")
    if folder.is_symlink():
        raise FoldlineError(f"{folder} is a link to {folder.readlink()}: both were left as they are.")
    return folder


@contextmanager
def held(folder: Path, deed: str) -> Iterator[None]:
    """Nobody writes to the session in `folder` meanwhile. `deed` is what cannot be done else: "moved".

    Raises:
        FoldlineError: another process writes to it, or the folder cannot be written to.
    """
    lock = WriterLock(folder)
    try:
        lock.acquire()
    except SessionHeld:
        who = noted_holder(folder)
        raise FoldlineError(
            f"The session {folder.name} is being written by {who}: it cannot be {deed} meanwhile."
        ) from None
    except OSError as error:
        raise FoldlineError(f"The session in {folder} cannot be {deed}: {system_words(error)}.") from None
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
        try:
            make_private(goal.parent)
            folder.rename(goal)
        except OSError as error:
            raise FoldlineError(
                f"The session {folder.name} cannot be moved to {goal}: {system_words(error)}."
            ) from None
        with suppress(OSError):
            (goal / HOLDER).unlink(missing_ok=True)  # we named ourselves, and let go of it
    return goal / EVENTS
