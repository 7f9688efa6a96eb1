"""One writer per session: an OS lock that dies with its process, and a note of who holds it."""

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
_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK}


class _Note(Record):
    """The content of `holder.json`."""

    pid: int = Field(gt=0, lt=2**31, strict=True)
    host: str = Field(max_length=255)
    since: AwareDatetime
    ticks: int = 0
    """When the process started, in the kernel's own measure: not that of a later one with its number."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a session."""

    pid: int = 0
    """0 where the session is held, and nothing believable says by whom."""
    host: str = ""
    """Empty for this machine."""
    since: datetime | None = None
    """In the time zone of this process."""
    suspended: bool = False

    @property
    def name(self) -> str:
        """`process 4711`, `process 4711 on box2`, `another process`."""
        if not self.pid:
            return "another process"
        if not self.host and self.pid == os.getpid():
            return "this process"
        return f"process {self.pid} on {self.host}" if self.host else f"process {self.pid}"

    @property
    def since_words(self) -> str:
        """`14:05`, with the date where that is not today; empty where it is not known."""
        if self.since is None:
            return ""
        today = self.since.date() == datetime.now().astimezone().date()
        return f"{self.since:%H:%M}" if today else f"{self.since:%Y-%m-%d %H:%M}"

    def __str__(self) -> str:
        """`process 4711 (since 14:05)`."""
        more = [f"since {self.since_words}"] if self.since else []
        more += ["suspended"] if self.suspended else []
        return f"{self.name} ({', '.join(more)})" if more else self.name


def holder_of(folder: Path) -> Holder | None:
    """Who writes to the session in `folder` just now; None where nobody does. Never writes."""
    note = _note_in(folder)
    if note is not None and note.pid == os.getpid() and _is_running(note):
        # Not asked of the system: on NFS, closing the file we ask with would let go of our own lock.
        return Holder(note.pid, since=note.since)
    if not _is_held(folder / LOCK):
        return None
    return _told(note)


def note_holder(folder: Path) -> None:
    """Note that this process holds the session. A courtesy to others, the lock holds without it: no failure
    is reported; an older note goes."""
    note = _Note(
        pid=os.getpid(),
        host=socket.gethostname(),
        since=datetime.now().astimezone().replace(microsecond=0),
        ticks=_process(os.getpid())[1],
    )
    target = folder / HOLDER
    try:
        put_private(target, note.model_dump_json().encode())
    except OSError:
        with suppress(OSError):
            target.unlink(missing_ok=True)


def noted_holder(folder: Path) -> Holder:
    """Who holds a session that is known to be held."""
    return _told(_note_in(folder))


# --- what the system and the note say -----------------------------------------------------------------


def _is_held(lock: Path) -> bool:
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


def _note_in(folder: Path) -> _Note | None:
    try:
        return _Note.model_validate_json(read_regular(folder / HOLDER, _NOTE_BYTES))
    except (OSError, ValidationError):
        return None


def _told(note: _Note | None) -> Holder:
    """The holder that a note names, as far as it can be believed."""
    if note is None:
        return Holder()
    with suppress(OverflowError, ValueError, OSError):  # a year that this time zone does not reach
        since = note.since.astimezone()
        if note.host != socket.gethostname():
            return Holder(note.pid, note.host, since)
        if _is_running(note):
            return Holder(note.pid, since=since, suspended=_process(note.pid)[0] in ("T", "t"))
    return Holder()


def _is_running(note: _Note) -> bool:
    """Whether the process that wrote this note, on this machine, still runs; not another with its number."""
    if note.host != socket.gethostname():
        return False
    state, ticks = _process(note.pid)
    if state:
        return not note.ticks or ticks == note.ticks
    try:
        os.kill(note.pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _process(pid: int) -> tuple[str, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, IndexError, ValueError):
        return "", 0


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
        """Take the lock, without waiting; where it is ours, make sure that it still is: a lock whose file was
        deleted keeps nobody out. Raises SessionHeld, FoldlineError where there are no locks here, OSError."""
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
                if error.errno not in _NO_LOCKS:
                    raise
                raise FoldlineError(
                    f"The file system of {self._folder} has no locks, and two processes could write to one "
                    "session: nothing was written. FOLDLINE_HOME names another place for sessions."
                ) from None
        name, ref = self._folder.name, short_id(self._folder.name)
        raise SessionHeld(
            f"The session {name} is being written by {noted_holder(self._folder)}: it can be read here, or "
            f"forked (`foldline open {ref}`, `foldline fork {ref}`), but not continued."
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
