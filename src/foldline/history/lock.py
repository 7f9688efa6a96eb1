"""One writer per session: an OS lock that dies with its process, and a note of who holds it."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.protocol import FoldlineError

from .holder import Holder, note_holder, noted_holder
from .paths import HOLDER, LOCK, short_id

if TYPE_CHECKING:
    from filelock import BaseFileLock

_TRIES = 5
_PAUSE = 0.01
"""Seconds between two tries: whoever asks who holds a session has its lock for some microseconds itself."""
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


class SessionHeld(FoldlineError):
    """Another process writes to this session."""


class WriterLock:
    """The right to write to the session in `folder`. The operating system lets go of it when we die."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: BaseFileLock | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the file that is locked."""

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock is not None

    def acquire(self) -> None:
        """Take the lock, without waiting for its holder. Where it is ours already, make sure that it still
        is: a lock whose file was deleted keeps nobody out.

        Raises:
            SessionHeld: somebody else has it; the sentence says who.
            FoldlineError: there are no locks here.
            OSError: the folder cannot be written to.
        """
        if self._lock is not None:
            if _identity(self._folder / LOCK) == self._file:
                return
            self._lock.release()
            self._lock = None
        self._lock = self._taken()
        self._file = _identity(self._folder / LOCK)
        note_holder(self._folder)

    def release(self) -> None:
        if self._lock is None:
            return
        if _identity(self._folder / LOCK) == self._file:  # else the note is that of another writer by now
            with suppress(OSError):
                (self._folder / HOLDER).unlink(missing_ok=True)
        self._lock.release()
        self._lock = None

    def _taken(self) -> "BaseFileLock":
        import time

        from filelock import FileLock, Timeout  # costs time only where somebody writes

        if not self._folder.is_dir():  # moved away or deleted: `filelock` would make it anew
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder))
        # A lock by the mere existence of a file would not die with its process: rather none at all.
        path = self._folder / LOCK
        lock = FileLock(path, mode=0o600, blocking=False, thread_local=False, fallback_to_soft=False)
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE)
            try:
                lock.acquire()
                return lock
            except Timeout:
                continue
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    raise FoldlineError(_no_locks(self._folder)) from None
                raise
        raise SessionHeld(_held(self._folder, noted_holder(self._folder)))


def _held(folder: Path, holder: Holder) -> str:
    ref = short_id(folder.name)
    return (
        f"The session {folder.name} is being written by {holder}: it can be read here, or forked "
        f"(`foldline open {ref}`, `foldline fork {ref}`), but not continued."
    )


def _no_locks(folder: Path) -> str:
    return (
        f"The file system of {folder} has no locks, so that two processes could write to one session at "
        "once: nothing was written. FOLDLINE_HOME names another place for sessions."
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
