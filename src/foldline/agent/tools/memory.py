"""What our tools last saw of each file, so that an edit never overwrites a change it has not seen."""

import asyncio
import hashlib
import threading
from pathlib import Path

from foldline.data import real_path


class FileMemory:
    """Digests of files as our tools last read or wrote them. By content: a touched file is not a changed one.

    `lock` is held from reading a file to replacing it, so that two edits in one step do not lose one another.
    """

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self.lock = threading.RLock()

    async def settled(self) -> None:
        """Wait for the tool that is writing a file, if one is: when it is cancelled, its thread goes on."""
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        with self.lock:
            pass

    def remember(self, path: Path, content: bytes) -> None:
        self._digests[real_path(path)] = _digest(content)

    def knows(self, path: Path) -> bool:
        return real_path(path) in self._digests

    def forget(self, path: Path) -> None:
        self._digests.pop(real_path(path), None)

    def is_stale(self, path: Path, content: bytes) -> bool:
        """Whether the file was seen before, and with other content."""
        seen = self._digests.get(real_path(path))
        return seen is not None and seen != _digest(content)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
