"""An agent's working folder.

The folder is kept open, so that it is recognised after a move.
"""

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from foldline.files import is_folder

MOVED = (
    "The working folder {path} was moved to {new_path}. "
    "No tools will run until you continue the session there."
)
REMOVED = (
    "The working folder {path} was removed. No tool runs. To continue the session in another folder, run "
    "`foldline -r` there."
)


class WorkingFolder:
    """A folder that is recognised by its identity instead of its path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        with suppress(OSError, ValueError):
            self._descriptor = os.open(
                path, os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
            )
            weakref.finalize(self, os.close, self._descriptor)

    @property
    def moved_to(self) -> Path | None:
        """The new path of the folder; None if the folder was not moved."""
        if self._descriptor is None or _is_at(self.path, self._descriptor):
            return None
        path = _path_of(self._descriptor)
        return path if path is not None and _is_at(path, self._descriptor) else None

    @property
    def trouble(self) -> str:
        """Message explaining why the folder cannot be used; empty if it can be used.

        A folder that was removed and created again under the same name counts as the same folder.
        """
        new_path = self.moved_to
        if new_path is not None:
            return MOVED.format(path=self.path, new_path=new_path)
        if is_folder(self.path):
            return ""
        return REMOVED.format(path=self.path)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (OSError, ValueError):
        return False


def _path_of(descriptor: int) -> Path | None:
    """Return the path of an open folder.

    Works on Linux and macOS only.
    """
    with suppress(OSError, ValueError):
        if sys.platform == "darwin":
            import fcntl

            path = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
            return Path(os.fsdecode(path.rstrip(b"\0")))
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    return None
