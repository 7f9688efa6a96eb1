"""Paths and ids of sessions, and new files at paths typed by the user."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from foldline.data import EVENTS, real_path, sessions_dir
from foldline.files import is_folder
from foldline.files import write_new as write_whole
from foldline.protocol import FoldlineError, system_words

META = "meta.json"
INDEX = "index.jsonl"
"""File name of the outline cache."""
LOCK = "lock"
HOLDER = "holder.json"

_SUFFIX_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""The characters of the random ends of ids.

Letters that are easily confused (i, l, o, u) are left out.
"""
_SUFFIX_LENGTH = 6
FILE_EXISTS = "{path} already exists: choose another name."
NO_FOLDER = "There is no folder {folder} to write {name} to."


def holds_home(folder: Path) -> bool:
    """Return whether a folder is the home folder or contains it.

    Such a folder is too large to be a working folder.
    """
    return Path(real_path(Path.home())).is_relative_to(real_path(folder))


def workdir_key(cwd: Path | str) -> str:
    """Return the key of a working folder.

    It consists of the folder's name and a hash of its path.
    """
    path = real_path(cwd)
    name = re.sub(r"[^\w.-]+", "-", Path(path).name)
    name = name.strip("-.")[:40] or "root"
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{name}-{digest[:8]}"


def new_session_id(now: datetime) -> str:
    """Return a new session id.

    It consists of the time, so that ids can be sorted by it, and random characters.
    """
    letters = [secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH)]
    suffix = "".join(letters)
    return f"{now:%Y%m%d-%H%M%S}-{suffix}"


def session_dir(home: Path, cwd: Path | str, session_id: str) -> Path:
    return sessions_dir(home) / workdir_key(cwd) / session_id


def events_file(path: Path) -> Path:
    """Return the event file of a session folder.

    Other paths are returned unchanged.
    """
    return path / EVENTS if is_folder(path) else path


def short_id(session_id: str) -> str:
    """Return the random end of a session id, for display.

    `find_session` accepts this short form.
    """
    return session_id.rsplit("-", 1)[-1]


def with_tilde(path: str) -> str:
    """Replace the home folder in a path with `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of text, not a path
    is_inside = path == home or path.startswith(home + os.sep)
    if not is_inside or len(home) <= 1:
        return path
    return "~" + path[len(home) :]


@contextmanager
def explained(failure: str) -> Iterator[None]:
    """Convert an OSError to a FoldlineError with the message `failure: reason`."""
    try:
        yield
    except OSError as error:
        raise FoldlineError(f"{failure}: {system_words(error)}.") from None


def check_new(path: Path) -> None:
    """Check that a new file can be created at this path.

    Raises:
        FoldlineError: the path exists, or its folder does not.
    """
    if os.path.lexists(path):
        raise FoldlineError(FILE_EXISTS, path=path)
    if not is_folder(path.parent):
        raise FoldlineError(NO_FOLDER, folder=path.parent, name=path.name)


def write_new(path: Path, data: bytes) -> None:
    """Write a new private file completely, or not at all.

    Raises:
        FoldlineError: the path exists, or writing to disk failed.
    """
    try:
        write_whole(path, data)
    except FileExistsError:
        raise FoldlineError(FILE_EXISTS, path=path) from None
    except OSError as error:
        raise FoldlineError(
            f"{path} cannot be written: {system_words(error)}."
        ) from None
