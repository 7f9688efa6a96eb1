"""How files are opened and made: what lies in a folder may be a stranger's, and anything in place of a file.

Reading takes regular files only, so that no pipe holds anybody up. Writing follows no link in the last place
of a path, and takes names that nobody can know before. Where a path was looked at before it is used,
`folder_at` follows none at all: who swaps one in between leads nobody astray. Needs no other module of ours,
as `foldline.data`.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG, S_IWGRP, S_IWOTH

AnyPath = str | os.PathLike[str]

_WAITS_FOR_NOTHING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLLOWS_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_IS_FOLDER = getattr(os, "O_DIRECTORY", 0) | _FOLLOWS_NO_LINK
_IS_ENTERED = _IS_FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
"""A folder may be entered without permission to list it."""
_LOST_WITH_A_WRITE = "security.capability"
"""The attribute that the kernel takes from a file with each write (capabilities(7))."""
_DRAFT = ".foldline-"
"""Begins the name of a file until it is whole."""


# --- where a path leads ---------------------------------------------------------------------------------


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """The descriptor of a folder, by its whole path, with no link followed on the way: what `real_path` said
    of it when it was looked at, it is still. What is done to a name in there goes by the descriptor.

    Args:
        make: make those that are missing.

    Raises:
        OSError: there is none, or a link leads elsewhere now.
    """
    descriptor = os.open(path.anchor, _IS_ENTERED)
    try:
        for name in path.parts[1:]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            below = os.open(name, _IS_ENTERED, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def status_in(folder: int, name: str) -> os.stat_result:
    """Of a name in a folder; of a link, its own.

    Raises:
        OSError: there is none.
    """
    return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)


@contextmanager
def listed_at(path: Path) -> Iterator[int]:
    """`folder_at`, as `os.scandir` and `os.listdir` take it.

    Raises:
        OSError: there is none, a link leads elsewhere now, or it may not be listed.
    """
    with folder_at(path) as entered:
        descriptor = os.open(".", os.O_RDONLY | _IS_FOLDER, dir_fd=entered)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


# --- reading ------------------------------------------------------------------------------------------


def open_regular(path: AnyPath) -> int:
    """The descriptor of a regular file, opened for reading. Follows links.

    Raises:
        OSError: there is none, it is no regular file, or it cannot be read.
    """
    return _regular(path, os.O_RDONLY)


def opened(path: AnyPath, folder: int | None = None) -> BufferedReader:
    """A regular file, open for reading; with a `folder`, the one of this name in there, and no link.

    Raises:
        OSError: there is none, it is no regular file, or it cannot be read.
    """
    if folder is None:
        return os.fdopen(open_regular(path), "rb")
    return os.fdopen(_regular(path, os.O_RDONLY | _FOLLOWS_NO_LINK, folder), "rb")


def read_regular(path: AnyPath, most: int = -1) -> bytes:
    """The first `most` bytes of a regular file; all of them by default.

    Raises:
        OSError: there is none, it is no regular file, or it cannot be read.
    """
    with opened(path) as file:
        return file.read(most)


def is_ours(status: os.stat_result) -> bool:
    """Whether nobody but its user, or the system's, can have written a file; always where nobody can say."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (S_IWGRP | S_IWOTH)


def is_file(path: AnyPath) -> bool:
    """Whether there is a regular file, as far as one may look. Never raises, as `Path.is_file` does for a
    path that is too long, or in a folder that may not be entered."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: AnyPath) -> bool:
    """Whether there is a folder, as far as one may look. Never raises."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: AnyPath) -> bool:
    """Whether there is anything, as far as one may look. Never raises."""
    return os.path.exists(path)  # noqa: PTH110


# --- writing ------------------------------------------------------------------------------------------


def make_private(folder: Path) -> None:
    """Make this folder, and those above it that are missing, for their owner only. What is there stays.

    Raises:
        OSError: the disk refused, or a link stands in its place: what is kept there would go somewhere else.
    """
    missing = [folder, *folder.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise _is_a_link(folder)


def create_private(path: AnyPath, mode: int = 0o600, folder: int | None = None) -> int:
    """The descriptor of a new file, for its owner only unless `mode` says otherwise; with a `folder`, of this
    name in there.

    Raises:
        OSError: something is there, be it a link that leads nowhere; or the disk refused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FOLLOWS_NO_LINK | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode, dir_fd=folder)


def open_own(path: AnyPath, flags: int) -> int:
    """The descriptor of a file of ours that is written to in its place; with `O_CREAT` in `flags`, made for
    its owner only.

    Raises:
        OSError: it is a link, no regular file, or the disk refused.
    """
    try:
        return _regular(path, flags | _FOLLOWS_NO_LINK)
    except OSError as error:
        raise _is_a_link(path) if error.errno == errno.ELOOP else error from None


def write_new(
    path: AnyPath,
    data: bytes,
    *,
    mode: int | None = 0o600,
    durable: bool = True,
    folder: int | None = None,
    like: int | None = None,
) -> None:
    """A new file: the whole of it or none. `durable` waits for the disk; with a `folder`, of this name in
    there. The mode None is what the user's umask gives. It gets the owner, access list and extended
    attributes of the open file `like`.

    Raises:
        OSError: something is there, the disk refused, or the file may not be made like that one.
    """
    descriptor = create_private(path, 0o666 if mode is None else 0o600, folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if like is not None:
                _give_owner(descriptor, os.fstat(like))
            if mode is not None:
                os.fchmod(descriptor, mode)
            if like is not None and hasattr(os, "listxattr"):
                _give_attributes(descriptor, like)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        _discard(path, folder)
        raise


def put_private(target: Path, data: bytes, *, durable: bool = False) -> None:
    """Make this the content of a file in one step; only its owner may read it. A link there is replaced.

    Raises:
        OSError: the disk refused; what was there is unchanged.
    """
    put_whole(target, data, 0o600, durable=durable)


def put_whole(
    target: Path,
    data: bytes,
    mode: int | None,
    *,
    durable: bool = False,
    folder: int | None = None,
    like: int | None = None,
) -> None:
    """`put_private` for a file of any mode; None for what the user's umask gives. With a `folder`, for the
    file of this name in there; with `like`, with owner and attributes of that open file. Other names of the
    file (hard links) keep what they held.

    Raises:
        OSError: the disk refused, or the file may not be made like that one; what was there is unchanged.
    """
    draft = target.with_name(f"{_DRAFT}{os.urandom(6).hex()}.tmp")
    try:
        write_new(draft, data, mode=mode, durable=durable, folder=folder, like=like)
        os.replace(draft, target, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        _discard(draft, folder)


def overwrite(name: str, data: bytes, folder: int) -> None:
    """Write to a file of this name in a folder, in its place: it stays the same file, with all its names.

    A crash in between leaves a part of it. A full disk is noticed before anything is written.

    Raises:
        OSError: it cannot be written.
    """
    descriptor = _regular(name, os.O_WRONLY | _FOLLOWS_NO_LINK, folder)
    with os.fdopen(descriptor, "wb") as file:
        if os.fstat(descriptor).st_nlink > 1:
            raise OSError(errno.EMLINK, "it has other names by now", name)
        if data and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, len(data))
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(descriptor)


def put_aside(path: Path, parent: tuple[int, int]) -> str:
    """Give what lies at a whole path without links another name there, which this returns. `parent` is the
    device and inode of the folder it was seen in.

    Raises:
        OSError: there is nothing, another folder is there now, or the disk refused.
    """
    name = f"{path.name}.aside-{os.urandom(3).hex()}"
    with folder_at(path.parent) as folder:
        status = os.fstat(folder)
        if (status.st_dev, status.st_ino) != parent:
            raise OSError(errno.ESTALE, "another folder is there now", os.fspath(path))
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name


def is_draft(name: str) -> bool:
    """Whether a file of this name was begun here, and never finished."""
    return name.startswith(_DRAFT) and name.endswith(".tmp")


def _give_owner(descriptor: int, status: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)


def _give_attributes(descriptor: int, like: int) -> None:
    """The extended attributes of another file, its access list among them, and no others."""
    model = _attributes(like)
    own = _attributes(descriptor)
    for name in own.keys() - model.keys():
        os.removexattr(descriptor, name)
    for name, value in model.items():
        if own.get(name) != value:
            os.setxattr(descriptor, name, value)


def _attributes(descriptor: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(descriptor)
    except OSError:  # this file system has none
        return {}
    return {name: os.getxattr(descriptor, name) for name in names if name != _LOST_WITH_A_WRITE}


def _discard(path: AnyPath, folder: int | None) -> None:
    with suppress(OSError):
        os.unlink(path, dir_fd=folder)


def _regular(path: AnyPath, flags: int, folder: int | None = None) -> int:
    try:
        descriptor = os.open(path, flags | _WAITS_FOR_NOTHING, 0o600, dir_fd=folder)
    except ValueError:  # a NUL, or half a character
        raise OSError(errno.EINVAL, "no file can have this name", os.fspath(path)) from None
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def _is_a_link(path: AnyPath) -> OSError:
    return OSError(errno.ELOOP, "it is a link, and nothing is written through one", os.fspath(path))
