"""Deleting a session: only ever asked for by its user, and only its own folder."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from foldline.protocol import FoldlineError, system_words

from .archiving import held, kept_folder

_LEAVING = ".deleted"


class Deleted(NamedTuple):
    """What is gone."""

    folder: Path
    files: int
    size: int
    """Bytes in these files, those that a fork holds as well included."""


def delete(home: Path, events: Path) -> Deleted:
    """Delete a session with all that lies in its folder. Links in it go, what they lead to stays.

    It leaves the lists in one step, before the first of its files goes.

    Raises:
        FoldlineError: it is not one that we keep, another process writes to it, or the disk refused; the
            sentence says where what is left of it lies.
    """
    folder = kept_folder(home, events)
    leaving = folder.with_name(f".{folder.name}{_LEAVING}")
    files, size = _measured(folder)
    with held(folder, "deleted"):
        try:
            if os.path.lexists(leaving):  # an earlier deletion of the same id that was cut short
                shutil.rmtree(leaving)
            folder.rename(leaving)
        except OSError as error:
            why = system_words(error)
            raise FoldlineError(f"The session in {folder} cannot be deleted: {why}.") from None
        try:
            shutil.rmtree(leaving)
        except OSError as error:
            raise FoldlineError(
                f"The session {folder.name} was deleted, but not all its files are gone: "
                f"{system_words(error)}; what is left lies in {leaving}."
            ) from None
    with suppress(OSError):
        folder.parent.rmdir()  # where it was the last one
    return Deleted(folder, files, size)


def _measured(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return files, size
