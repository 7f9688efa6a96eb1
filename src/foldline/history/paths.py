"""Where sessions lie on disk, what they are called; and new files that people name."""

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
LOCK = "lock"
HOLDER = "holder.json"

_SUFFIX_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Digits and letters without those that are read as one another (i, l, o, u)."""
_SUFFIX_LENGTH = 6


def holds_home(folder: Path) -> bool:
    """Whether a folder is the home folder or lies above it, as `/` does: more than anybody works on."""
    return Path(real_path(Path.home())).is_relative_to(real_path(folder))


def workdir_key(cwd: Path | str) -> str:
    """The name of the folder that holds the sessions of a working folder: its name and a hash of its path."""
    path = real_path(cwd)
    name = re.sub(r"[^\w.-]+", "-", Path(path).name).strip("-.")[:40] or "root"
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{name}-{digest[:8]}"


def new_session_id(now: datetime) -> str:
    """An id that sorts by time and whose random end is enough to name it."""
    suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
    return f"{now:%Y%m%d-%H%M%S}-{suffix}"


def session_dir(home: Path, cwd: Path | str, session_id: str) -> Path:
    return sessions_dir(home) / workdir_key(cwd) / session_id


def events_file(path: Path) -> Path:
    """The event file of a session, given that file or the session's folder."""
    return path / EVENTS if is_folder(path) else path


def short_id(session_id: str) -> str:
    """The random end of a session id, for display; `find_session` finds the session by it."""
    return session_id.rsplit("-", 1)[-1]


def with_tilde(path: str) -> str:
    """A path with `~` for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a prefix of text, not a path
    inside = path == home or path.startswith(home + os.sep)
    return "~" + path[len(home) :] if inside and len(home) > 1 else path


@contextmanager
def explained(failure: str) -> Iterator[None]:
    """Turn an OSError into a FoldlineError that says `failure`, a colon and the reason."""
    try:
        yield
    except OSError as error:
        raise FoldlineError(f"{failure}: {system_words(error)}.") from None


def check_new(path: Path) -> None:
    """Checks that this path can become a new file, before any work is done for it.

    Raises:
        FoldlineError: it cannot.
    """
    if os.path.lexists(path):
        raise FoldlineError(f"{path} exists already: give another name.")
    if not is_folder(path.parent):
        raise FoldlineError(f"There is no folder {path.parent} to write {path.name} to.")


def write_new(path: Path, data: bytes) -> None:
    """Writes a new file that only its owner may read: the whole of it or none.

    Raises:
        FoldlineError: it exists already, or the disk refused.
    """
    try:
        write_whole(path, data)
    except FileExistsError:
        raise FoldlineError(f"{path} exists already: give another name.") from None
    except OSError as error:
        raise FoldlineError(f"{path} cannot be written: {system_words(error)}.") from None
