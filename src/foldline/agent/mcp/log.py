"""What a server writes to its standard error: the newest of it, in a file only its owner may read."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from foldline.files import make_private, open_own

_KEPT = 128 * 1024
"""Bytes. The file may grow to twice that, then only the newest are kept."""
_LONGEST_LINE = 16 * 1024
_CATCH_UP = 0.3
"""Seconds; longer where others still hold the output open, and then nobody knows when."""


class ServerLog:
    """One file for one server, through all its starts. What cannot be written is given up: it is a log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = ""
        """The last line it wrote that says something."""
        self._lock = threading.Lock()
        self._follower: threading.Thread | None = None
        self._tail = bytearray()

    def note(self, sentence: str) -> None:
        """One line of ours."""
        self._keep(f"-- {sentence}\n".encode("utf-8", "replace"))

    def writer(self, masked: Callable[[str], str]) -> TextIO:
        """An end for a process to write to. Close it here once the process has it.

        A thread empties it until all who have it are gone: a server that writes more than is kept is never
        held up. `masked` hides what must not be kept.
        """
        reading, writing = os.pipe()
        self.last = ""
        self._follower = threading.Thread(target=self._follow, args=(reading, masked), daemon=True)
        self._follower.start()
        return os.fdopen(writing, "w")

    def caught_up(self) -> None:
        """Wait a moment until all is read that a process wrote which has ended."""
        if self._follower is not None:
            self._follower.join(_CATCH_UP)

    def _follow(self, reading: int, masked: Callable[[str], str]) -> None:
        rest = b""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(64 * 1024):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                if lines:
                    self._write(lines, masked)
        if rest:
            self._write([rest], masked)

    def _write(self, lines: list[bytes], masked: Callable[[str], str]) -> None:
        texts = [masked(line.decode("utf-8", "replace").rstrip("\r")) for line in lines]
        said = [text for text in texts if text.strip()]
        if said:
            self.last = said[-1].strip()
        self._keep("".join(f"{text}\n" for text in texts).encode("utf-8", "replace"))

    def _keep(self, new: bytes) -> None:
        with self._lock:
            self._tail += new
            del self._tail[:-_KEPT]
            try:
                make_private(self.path.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with os.fdopen(open_own(self.path, flags), "ab") as file:
                    if file.tell() + len(new) > 2 * _KEPT:
                        file.truncate(0)
                        new = bytes(self._tail)
                    file.write(new)
            except OSError:
                pass
