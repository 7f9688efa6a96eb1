"""One writer per session: an OS lock that dies with its process, and a note of who holds it."""

import json
import os
import socket
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.protocol import FoldlineError

from .paths import HOLDER, LOCK

if TYPE_CHECKING:
    from filelock import BaseFileLock


class SessionHeld(FoldlineError):
    """Another process writes to this session."""


class WriterLock:
    """The right to write to the session in `folder`. The operating system lets go of it when we die."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: BaseFileLock | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock is not None

    def acquire(self) -> None:
        """Take the lock, without waiting.

        Raises:
            SessionHeld: somebody else has it; the sentence says who.
            OSError: the folder cannot be written to.
        """
        if self._lock is not None:
            return
        from filelock import FileLock, Timeout  # costs time only where somebody writes

        lock = FileLock(self._folder / LOCK, blocking=False, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise SessionHeld(self._held_sentence()) from None
        self._lock = lock
        with suppress(OSError):  # only a courtesy to the next process: the lock holds without it
            self._note_holder()

    def release(self) -> None:
        if self._lock is None:
            return
        with suppress(OSError):
            (self._folder / HOLDER).unlink(missing_ok=True)
        self._lock.release()
        self._lock = None

    def _note_holder(self) -> None:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        (self._folder / HOLDER).write_text(json.dumps(holder), encoding="utf-8")

    def _held_sentence(self) -> str:
        who = "another process"
        with suppress(OSError, ValueError, KeyError, TypeError):
            holder = json.loads((self._folder / HOLDER).read_text(encoding="utf-8"))
            since = datetime.fromisoformat(holder["since"])
            here = "" if holder["host"] == socket.gethostname() else f" on {holder['host']}"
            who = f"process {int(holder['pid'])}{here} (since {since:%Y-%m-%d %H:%M})"
        return (
            f"The session {self._folder.name} is being written by {who}: "
            "it can be read here, or forked (`foldline import`), but not continued."
        )
