"""A session's origin, as recorded in its header.

This is its working folder, and the session from which it was copied.
"""

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, ValidationError

from foldline.data import data_home, is_kept, real_path
from foldline.files import is_folder, read_regular
from foldline.protocol import NEW, SessionHeader
from foldline.protocol.messages import Record

FOLDER = "folder"
"""Header field that contains a `FolderMark`."""

Tie = Literal["path", "identity", "name"]
"""How a session belongs to a folder.

`path`: the paths are the same. `identity`: the folder is the same, but was moved to another path. `name`: a
guess, because the session's folder was deleted and had the same name.
"""

_CONFIG_BYTES = 64 * 1024
_ORIGIN = re.compile(r'^\[remote "origin"\][^\[]*?^\s*url\s*=\s*(\S+)', re.MULTILINE)
_USER = re.compile(r"^(\w+://)[^/@]*@")


class FolderMark(Record):
    """A folder's identity, as recorded in a session's header.

    Unknown fields are empty.
    """

    id: str = ""
    """Inode and creation time of the folder.

    They survive a rename, but differ for a new folder at the same path.
    """
    remote: str = ""
    """Digest of the URL of the git remote `origin`.

    The user name and password are left out.
    """


class SessionPlace(NamedTuple):
    """The folder in which a session is to be resumed."""

    folder: Path
    tie: Tie | None
    """How the session belongs to the folder.

    None if the session's own folder no longer exists, and the folder is unrelated to the session.
    """


class Folder:
    """A working folder in its current state.

    It can recognise its sessions.
    """

    def __init__(self, cwd: Path | str) -> None:
        self.path = real_path(cwd)
        self.mark = mark_of(self.path)

    def tie(self, header: SessionHeader) -> Tie | None:
        """Return how a session belongs to the folder.

        Returns None if it does not belong to the folder.
        """
        still_exists = _is_absolute_folder(header.cwd)
        return tie(
            header.cwd,
            recorded_mark(header),
            self.path,
            self.mark,
            still_exists=still_exists,
        )

    def place(self, header: SessionHeader) -> SessionPlace:
        """Return the folder in which to resume a session.

        This is the session's original folder if it still exists and is not this one. In all other cases,
        including a moved folder, it is this folder.
        """
        own_tie = self.tie(header)
        if own_tie is None and _is_absolute_folder(header.cwd):
            return SessionPlace(Path(header.cwd), "path")
        return SessionPlace(Path(self.path), own_tie)


def _is_absolute_folder(path: str) -> bool:
    return os.path.isabs(path) and is_folder(path)  # noqa: PTH117


def tie(
    cwd: str, mark: FolderMark, path: str, now: FolderMark, *, still_exists: bool
) -> Tie | None:
    """Return how a session belongs to a folder.

    Returns None if it does not belong to the folder.

    Args:
        cwd: recorded path of the session's folder.
        mark: recorded mark of the session's folder.
        path: current path of the folder.
        now: current mark of the folder.
        still_exists: whether there is a folder at `cwd`.
    """
    if cwd == path:
        return "path"
    if mark.id and mark.id == now.id:
        return "identity"
    has_other_remote = mark.remote and now.remote and mark.remote != now.remote
    if still_exists or has_other_remote:
        return None
    name = os.path.basename(path)  # noqa: PTH119 - called many thousand times
    if name and os.path.basename(cwd) == name:  # noqa: PTH119
        return "name"
    return None


def recorded_mark(header: SessionHeader) -> FolderMark:
    """Return the folder mark in a session's header.

    Returns an empty mark if it is missing or malformed.
    """
    try:
        return FolderMark.model_validate(_extra_field(header, FOLDER))
    except ValidationError:
        return FolderMark()


def mark_of(path: str) -> FolderMark:
    """Return the mark of the folder at this path."""
    return FolderMark(id=_identity(path), remote=_remote(path))


def _identity(path: str) -> str:
    """Return a folder's inode and creation time.

    Returns an empty string if either is unknown.

    The inode alone does not identify a folder, because inodes are reused.
    """
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    birth: float | None = getattr(status, "st_birthtime", None)
    birth_ns = _birth_by_statx(path) if birth is None else int(birth * 1_000_000_000)
    return f"{status.st_ino:x}-{birth_ns:x}" if birth_ns else ""


def _birth_by_statx(path: str) -> int:
    """Return the creation time in nanoseconds, or 0 if it is unknown.

    This calls Linux's statx(2), for which Python has no function before version 3.15. The layout of the
    result is fixed.
    """
    import ctypes
    import struct

    at_fdcwd = -100
    statx_btime = 0x800
    mask_offset = 0
    birth_offset = 80
    result = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(
            at_fdcwd, os.fsencode(path), 0, statx_btime, result
        )
    except (OSError, AttributeError):
        return 0
    (mask,) = struct.unpack_from("=I", result, mask_offset)
    if failed or not mask & statx_btime:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", result, birth_offset)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def _remote(path: str) -> str:
    try:
        config = read_regular(Path(path, ".git", "config"), _CONFIG_BYTES).decode(
            "utf-8", "replace"
        )
    except (OSError, ValueError):
        return ""
    match = _ORIGIN.search(config)
    if match is None:
        return ""
    address = _USER.sub(r"\1", match[1]).rstrip("/").removesuffix(".git")
    return hashlib.sha256(address.encode()).hexdigest()[:16]


# --- the session it was copied from ---------------------------------------------------------------------

PARENT = "parent"
"""Header field that contains a `Parent`."""


class Parent(Record):
    """The session from which this one was forked or imported."""

    id: str
    index: int
    """Index of the last copied entry; -1 if there is none."""
    foreign: int = Field(default=NEW, exclude_if=lambda foreign: foreign == NEW)
    """Index of the last entry that was written elsewhere.

    File changes in entries up to this one are not trusted.
    """
    named: bool = Field(default=False, exclude_if=lambda named: not named)
    """Whether the imported file chose the session's folder, not the user."""


def parent_of(header: SessionHeader) -> Parent | None:
    """Return a session's parent.

    Returns None if there is no parent, or the field is malformed.
    """
    try:
        return Parent.model_validate(_extra_field(header, PARENT))
    except ValidationError:
        return None


def _extra_field(header: SessionHeader, name: str) -> object:
    fields = header.model_extra or {}
    return fields.get(name)


SPAWNED = "spawned"
"""Header field that contains a `Spawned`."""


class Spawned(Record):
    """Origin of a subagent's session."""

    session: str
    """Id of the parent session."""
    call: str
    """Id of the `task` call in the parent session."""
    agent: str
    """The name of the agent."""


def spawned_of(header: SessionHeader) -> Spawned | None:
    """Return the origin of a subagent's session.

    Returns None for other sessions.
    """
    try:
        return Spawned.model_validate(_extra_field(header, SPAWNED))
    except ValidationError:
        return None


def is_foreign(header: SessionHeader, events: Path) -> bool:
    """Return whether at least part of a session was written elsewhere.

    If so, the session's folder is not trusted.
    """
    if foreign_upto(header) > NEW:
        return True
    return not is_kept(data_home(), events)


def foreign_upto(header: SessionHeader) -> int:
    """Return the index of the last entry that was written elsewhere.

    Returns `NEW` if there is none, and `sys.maxsize` if the parent in the header is malformed.
    """
    parent = parent_of(header)
    if parent is not None:
        return parent.foreign
    is_malformed = _extra_field(header, PARENT) is not None
    return sys.maxsize if is_malformed else NEW
