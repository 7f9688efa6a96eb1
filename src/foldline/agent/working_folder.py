"""The working folder of an agent, held open: it is the same folder at each use, and is found once moved."""

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from foldline.files import is_folder


class WorkingFolder:
    """The folder at `path`, by its identity and not by its name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        with suppress(OSError, ValueError):
            self._descriptor = os.open(path, os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY))
            weakref.finalize(self, os.close, self._descriptor)

    @property
    def moved_to(self) -> Path | None:
        """Where the folder is now, if that is another place than `path`."""
        if self._descriptor is None or _is_at(self.path, self._descriptor):
            return None
        place = _place_of(self._descriptor)
        return place if place is not None and _is_at(place, self._descriptor) else None

    @property
    def trouble(self) -> str:
        """Why nothing can be done in the folder, as a sentence; empty if it is there.

        A folder that was removed and made again under its name is taken for the same.
        """
        place = self.moved_to
        if place is not None:
            return (
                f"The working folder {self.path} was moved to {place}: no tool runs until the session is "
                "continued there."
            )
        if is_folder(self.path):
            return ""
        return (
            f"The working folder {self.path} was removed: no tool runs. `foldline -r`, called in another "
            "folder, continues the session there."
        )


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (OSError, ValueError):
        return False


def _place_of(descriptor: int) -> Path | None:
    """The path of an open folder, as the kernel knows it: on Linux and macOS."""
    with suppress(OSError, ValueError):
        if sys.platform == "darwin":
            import fcntl

            path = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
            return Path(os.fsdecode(path.rstrip(b"\0")))
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    return None
