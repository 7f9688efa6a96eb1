"""The lock for writing to a session.

It consists of an operating-system lock, and a note that names the holder.
"""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field, ValidationError

from foldline.files import put_private, read_regular
from foldline.protocol import FoldlineError
from foldline.protocol.messages import Record

from .paths import HOLDER, LOCK, short_id

if TYPE_CHECKING:
    from filelock import BaseFileLock


_NOTE_BYTES = 4096
"""Maximum number of bytes that are read from a note.

If the note is longer, what was read is not valid JSON, and is ignored.
"""
SESSION_HELD = (
    "The session {name} is being written by {holder}. You can read it (`foldline open {ref}`) or fork it "
    "(`foldline fork {ref}`), but not continue it."
)
NO_LOCKS = (
    "The file system of {folder} does not support locks, so two processes could write to the same session. "
    "Nothing was written. Set FOLDLINE_HOME to a folder on another file system."
)
_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK}


class _HolderNote(Record):
    """Content of `holder.json`."""

    pid: int = Field(gt=0, lt=2**31, strict=True)
    host: str = Field(max_length=255)
    since: AwareDatetime
    ticks: int = 0
    """Start time of the process, in clock ticks.

    It distinguishes the process from a later one with the same id.
    """


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that is writing to a session."""

    pid: int = 0
    """Process id; 0 if the holder is unknown."""
    host: str = ""
    """Host name; empty for this machine."""
    since: datetime | None = None
    """Time at which the lock was taken, in this process's time zone."""
    suspended: bool = False

    @property
    def name(self) -> str:
        """Name for messages.

        This is `process 4711`, `process 4711 on box2` or `another process`.
        """
        if not self.pid:
            return "another process"
        if not self.host and self.pid == os.getpid():
            return "this process"
        where = f" on {self.host}" if self.host else ""
        return f"process {self.pid}{where}"

    @property
    def since_words(self) -> str:
        """Time at which the lock was taken, for example `14:05`.

        Includes the date unless this is today. Empty if the time is unknown.
        """
        if self.since is None:
            return ""
        is_today = self.since.date() == datetime.now().astimezone().date()
        form = "%H:%M" if is_today else "%Y-%m-%d %H:%M"
        return self.since.strftime(form)

    def __str__(self) -> str:
        """Format as `process 4711 (since 14:05)`."""
        details: list[str] = []
        if self.since:
            details.append(f"since {self.since_words}")
        if self.suspended:
            details.append("suspended")
        if not details:
            return self.name
        return f"{self.name} ({', '.join(details)})"


def holder_of(folder: Path) -> Holder | None:
    """Return the process that is writing to a session now, if any."""
    note = _note_in(folder)
    if note is not None and note.pid == os.getpid() and _is_running(note):
        # Do not test the lock: on NFS, closing the second descriptor would release our own lock.
        return Holder(note.pid, since=note.since)
    if not _is_locked(folder / LOCK):
        return None
    return _holder_from(note)


def note_holder(folder: Path) -> None:
    """Write a note that names this process as the holder.

    The note is only informative, so failures are ignored. In this case, an older note is removed.
    """
    note = _HolderNote(
        pid=os.getpid(),
        host=socket.gethostname(),
        since=datetime.now().astimezone().replace(microsecond=0),
        ticks=_process_state(os.getpid())[1],
    )
    target = folder / HOLDER
    try:
        put_private(target, note.model_dump_json().encode())
    except OSError:
        with suppress(OSError):
            target.unlink(missing_ok=True)


def noted_holder(folder: Path) -> Holder:
    """Return the holder of a session that is known to be locked, according to the note."""
    return _holder_from(_note_in(folder))


# --- the lock and the note ----------------------------------------------------------------------------


def _is_locked(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(descriptor)
    return False


def _note_in(folder: Path) -> _HolderNote | None:
    try:
        return _HolderNote.model_validate_json(
            read_regular(folder / HOLDER, _NOTE_BYTES)
        )
    except (OSError, ValidationError):
        return None


def _holder_from(note: _HolderNote | None) -> Holder:
    """Return the holder that a note names.

    Impossible values are left out.
    """
    if note is None:
        return Holder()
    # The year may be out of range in this time zone.
    with suppress(OverflowError, ValueError, OSError):
        since = note.since.astimezone()
        if note.host != socket.gethostname():
            return Holder(note.pid, note.host, since)
        if _is_running(note):
            state, _ = _process_state(note.pid)
            return Holder(note.pid, since=since, suspended=state in ("T", "t"))
    return Holder()


def _is_running(note: _HolderNote) -> bool:
    """Return whether the process named in a note is still running."""
    if note.host != socket.gethostname():
        return False
    state, ticks = _process_state(note.pid)
    if state:
        return not note.ticks or ticks == note.ticks
    try:
        os.kill(note.pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _process_state(pid: int) -> tuple[str, int]:
    """Return a process's state and start time, according to proc(5).

    The state is empty if it is unknown.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        _, _, after_name = stat.rpartition(b")")
        fields = after_name.split()
        return fields[0].decode(), int(fields[19])
    except (OSError, IndexError, ValueError):
        return "", 0


_ATTEMPTS = 5
_PAUSE = 0.01
"""Seconds between two attempts to take the lock.

Several attempts are made because `holder_of` also takes the lock, for some microseconds.
"""
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


class SessionHeld(FoldlineError):
    """Raised if another process is writing to the session."""


class WriterLock:
    """A lock for writing to a session.

    The operating system releases the lock if the process dies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: BaseFileLock | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the locked file."""

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock is not None

    def acquire(self) -> None:
        """Take the lock without waiting.

        A lock whose file was deleted has no effect, so the lock is taken again.

        Raises:
            SessionHeld: another process holds the lock.
            FoldlineError: the file system does not support locks.
            OSError: the lock file could not be written.
        """
        if self._lock is not None:
            if _identity(self._folder / LOCK) == self._file:
                return
            self._lock.release()
            self._lock = None
        self._lock = self._acquire_file()
        self._file = _identity(self._folder / LOCK)
        note_holder(self._folder)

    def release(self) -> None:
        if self._lock is None:
            return
        # If the lock file was replaced, the note belongs to another writer.
        if _identity(self._folder / LOCK) == self._file:
            with suppress(OSError):
                (self._folder / HOLDER).unlink(missing_ok=True)
        self._lock.release()
        self._lock = None

    def _acquire_file(self) -> "BaseFileLock":
        import time

        from filelock import FileLock, Timeout  # slow, and needed only for writing

        # `filelock` would create a moved or deleted folder again.
        if not self._folder.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder)
            )
        # A lock by the mere existence of a file would outlive its process.
        path = self._folder / LOCK
        lock = FileLock(
            path, mode=0o600, blocking=False, thread_local=False, fallback_to_soft=False
        )
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE)
            try:
                lock.acquire()
                return lock
            except Timeout:
                continue
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                raise FoldlineError(NO_LOCKS, folder=self._folder) from None
        name = self._folder.name
        holder = noted_holder(self._folder)
        raise SessionHeld(
            SESSION_HELD.format(name=name, holder=holder, ref=short_id(name))
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
