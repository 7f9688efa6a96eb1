"""Where a session comes from, as its header says: its folder, even once moved, and what it is a copy of."""

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
"""The field of a session's header that holds a `FolderMark`."""

Tie = Literal["path", "identity", "name"]
"""Why a session belongs to a folder: it was held there; in this very folder at another path; or, as a guess,
its folder is gone and this one has its name."""

_CONFIG_BYTES = 64 * 1024
_ORIGIN = re.compile(r'^\[remote "origin"\][^\[]*?^\s*url\s*=\s*(\S+)', re.MULTILINE)
_USER = re.compile(r"^(\w+://)[^/@]*@")


class FolderMark(Record):
    """A folder's identity, as the header of a session records it. Empty: not known."""

    id: str = ""
    """Inode and time of birth. A rename keeps them; a folder made anew, even in its place, has others."""
    remote: str = ""
    """A digest of the address of the git remote `origin`, without the user's name and password."""


class SessionPlace(NamedTuple):
    """Where a session is continued."""

    folder: Path
    tie: Tie | None
    """What ties the session to it; None where its own folder is gone, and this may be any other."""


class Folder:
    """A working folder as it is now. It says which sessions are its own."""

    def __init__(self, cwd: Path | str) -> None:
        self.path = real_path(cwd)
        self.mark = mark_of(self.path)

    def tie(self, header: SessionHeader) -> Tie | None:
        """What ties a session to this folder; None where it belongs elsewhere."""
        return tie(header.cwd, recorded_mark(header), self.path, self.mark, there=_is_there(header.cwd))

    def place(self, header: SessionHeader) -> SessionPlace:
        """Where a session resumed from this folder continues: in its own one, wherever that is now."""
        found = self.tie(header)
        if found is None and _is_there(header.cwd):
            return SessionPlace(Path(header.cwd), "path")
        return SessionPlace(Path(self.path), found)


def _is_there(path: str) -> bool:
    return os.path.isabs(path) and is_folder(path)  # noqa: PTH117


def tie(held_in: str, mark: FolderMark, path: str, now: FolderMark, *, there: bool) -> Tie | None:
    """What ties a session to the folder at `path`, marked `now`. It was `held_in` a folder marked `mark`;
    `there`: whether a folder still is at that path."""
    if held_in == path:
        return "path"
    if mark.id and mark.id == now.id:
        return "identity"
    known_apart = mark.remote and now.remote and mark.remote != now.remote
    name = os.path.basename(path)  # noqa: PTH119 - of a string, many thousand times
    if not there and not known_apart and name and os.path.basename(held_in) == name:  # noqa: PTH119
        return "name"
    return None


def recorded_mark(header: SessionHeader) -> FolderMark:
    """The mark in a session's header; an empty one where there is none, or none we understand."""
    try:
        return FolderMark.model_validate((header.model_extra or {}).get(FOLDER, {}))
    except ValidationError:
        return FolderMark()


def mark_of(path: str) -> FolderMark:
    """The mark of the folder at this path; what cannot be known of it stays empty."""
    return FolderMark(id=_identity(path), remote=_remote(path))


def _identity(path: str) -> str:
    """Inodes are used again at once, so that without its time of birth a folder has no identity."""
    try:
        inode = os.stat(path).st_ino  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    birth: float | None = getattr(os.stat(path), "st_birthtime", None)  # noqa: PTH116
    born = _born_by_statx(path) if birth is None else int(birth * 1_000_000_000)
    return f"{inode:x}-{born:x}" if born else ""


def _born_by_statx(path: str) -> int:
    """Linux has it, Python before 3.15 does not: `statx(2)`, whose layout never changes."""
    import ctypes
    import struct

    found = ctypes.create_string_buffer(256)
    here, birth_time, mask_at, birth_at = -100, 0x800, 0, 80
    try:
        failed = ctypes.CDLL(None).statx(here, os.fsencode(path), 0, birth_time, found)
    except (OSError, AttributeError):
        return 0
    (mask,) = struct.unpack_from("=I", found, mask_at)
    if failed or not mask & birth_time:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", found, birth_at)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def _remote(path: str) -> str:
    try:
        config = read_regular(Path(path, ".git", "config"), _CONFIG_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    found = _ORIGIN.search(config)
    if found is None:
        return ""
    address = _USER.sub(r"\1", found[1]).rstrip("/").removesuffix(".git")
    return hashlib.sha256(address.encode()).hexdigest()[:16]


# --- the session it was copied from ---------------------------------------------------------------------

PARENT = "parent"
"""The field of a session's header that holds a `Parent`."""


class Parent(Record):
    """The session that this one was forked or imported from."""

    id: str
    index: int
    """The last entry that came along; -1 where none did."""
    foreign: int = Field(default=NEW, exclude_if=lambda foreign: foreign == NEW)
    """The last of these that was not written here: what they say of files may be anybody's word."""
    named: bool = Field(default=False, exclude_if=lambda named: not named)
    """Whether its folder is the one it named itself, while its user was in another."""


def parent_of(header: SessionHeader) -> Parent | None:
    """Where the session comes from; None where it began empty, or that is not said as we understand it."""
    try:
        return Parent.model_validate((header.model_extra or {}).get(PARENT))
    except ValidationError:
        return None


SPAWNED = "spawned"
"""The field of a session's header that holds a `Spawned`."""


class Spawned(Record):
    """What a session was begun for that a subagent works in."""

    session: str
    """Id of the session in whose folder it lies."""
    call: str
    """The call there that it answers."""
    agent: str
    """The name of the agent."""


def spawned_of(header: SessionHeader) -> Spawned | None:
    """What the session was begun for; None where no subagent works in it."""
    try:
        return Spawned.model_validate((header.model_extra or {}).get(SPAWNED))
    except ValidationError:
        return None


def is_foreign(header: SessionHeader, events: Path) -> bool:
    """Whether a session, or its beginning, was not written here: it may name any folder as its own."""
    return foreign_upto(header) > NEW or not is_kept(data_home(), events)


def foreign_upto(header: SessionHeader) -> int:
    """The last entry that was not written here, as the header says; all of them where it cannot be read."""
    parent = parent_of(header)
    if parent is not None:
        return parent.foreign
    return sys.maxsize if (header.model_extra or {}).get(PARENT) is not None else NEW
