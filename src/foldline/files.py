"""Opens and writes files safely, even if other people control the content of their folders.

Only regular files are opened, because opening a pipe could block. Writing does not follow a link at the end
of a path, and unfinished files have unpredictable names. `folder_at` follows no links at all. Use it for a
path that was checked earlier, so that a link created after the check has no effect. Like `foldline.data`,
this module imports no other module of Foldline.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG, S_IWGRP, S_IWOTH

AnyPath = str | os.PathLike[str]

_NON_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
_FOLDER_FLAGS = getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_ENTER_FLAGS = _FOLDER_FLAGS | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags for opening a folder.

With O_PATH, this does not require permission to list the folder.
"""
_CAPABILITY = "security.capability"
"""Extended attribute that the kernel removes at each write. See capabilities(7)."""
_DRAFT = ".foldline-"
"""Prefix of the names of unfinished files."""


# --- folders and paths ----------------------------------------------------------------------------------


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder without following any links, and yield its descriptor.

    Pass the descriptor as `folder` or `dir_fd` to access names in the folder.

    Args:
        path: absolute path without links, as returned by `real_path`.
        make: whether to create missing folders.

    Raises:
        OSError: the folder does not exist, or part of the path was replaced by a link.
    """
    descriptor = os.open(path.anchor, _ENTER_FLAGS)
    try:
        for name in path.parts[1:]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            below = os.open(name, _ENTER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def status_in(folder: int, name: str) -> os.stat_result:
    """Return the status of an entry in a folder, without following links.

    Raises:
        OSError: the entry does not exist.
    """
    return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)


@contextmanager
def listed_at(path: Path) -> Iterator[int]:
    """Open a folder for `os.scandir` and `os.listdir`.

    Like `folder_at`, this follows no links.

    Raises:
        OSError: the folder does not exist, part of the path was replaced by a link, or listing the folder is
            not permitted.
    """
    with folder_at(path) as folder:
        descriptor = os.open(".", os.O_RDONLY | _FOLDER_FLAGS, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


# --- reading ------------------------------------------------------------------------------------------


def open_regular(path: AnyPath) -> int:
    """Open a regular file, following links, and return its descriptor.

    Raises:
        OSError: the file does not exist, is not a regular file, or cannot be read.
    """
    return _regular(path, os.O_RDONLY)


def opened(path: AnyPath, folder: int | None = None) -> BufferedReader:
    """Open a regular file for reading.

    Args:
        folder: descriptor of the folder that contains the file `path`. If it is given, links are not
            followed.

    Raises:
        OSError: the file does not exist, is not a regular file, or cannot be read.
    """
    flags = os.O_RDONLY
    if folder is not None:
        flags |= _NO_FOLLOW
    descriptor = _regular(path, flags, folder)
    return os.fdopen(descriptor, "rb")


def read_regular(path: AnyPath, most: int = -1) -> bytes:
    """Return the first `most` bytes of a regular file. By default, return all.

    Raises:
        OSError: the file does not exist, is not a regular file, or cannot be read.
    """
    with opened(path) as file:
        return file.read(most)


def is_ours(status: os.stat_result) -> bool:
    """Return whether only this user or root can write to a file.

    Always true on systems without user ids.
    """
    if not hasattr(os, "getuid"):
        return True
    if status.st_uid not in (os.getuid(), 0):
        return False
    return not status.st_mode & (S_IWGRP | S_IWOTH)


def is_file(path: AnyPath) -> bool:
    """Return whether a regular file exists.

    This never raises an exception. `Path.is_file` raises one if the path is too long or a folder is not
    accessible.
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: AnyPath) -> bool:
    """Return whether a folder exists. Never raises an exception."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: AnyPath) -> bool:
    """Return whether a path exists. Never raises an exception."""
    return os.path.exists(path)  # noqa: PTH110


# --- writing ------------------------------------------------------------------------------------------


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to the owner.

    Raises:
        OSError: a folder could not be created, or the folder is a link, whose target others may be able to
            choose.
    """
    missing = [folder, *folder.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink():
        raise _is_a_link(folder)


def create_private(path: AnyPath, mode: int = 0o600, folder: int | None = None) -> int:
    """Create a private file, and return its descriptor.

    Args:
        folder: descriptor of the folder that is to contain the file `path`.

    Raises:
        OSError: the path exists, even if it is only a dangling link, or the file could not be created.
    """
    return os.open(path, _NEW_FILE, mode, dir_fd=folder)


def open_own(path: AnyPath, flags: int) -> int:
    """Open a file for writing in place, and return its descriptor.

    With `O_CREAT` in `flags`, a missing file is created, accessible only to the owner.

    Raises:
        OSError: the file is a link or not a regular file, or could not be opened.
    """
    try:
        return _regular(path, flags | _NO_FOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_a_link(path) from None
        raise


def write_new(
    path: AnyPath,
    data: bytes | bytearray,
    *,
    mode: int | None = 0o600,
    durable: bool = True,
    folder: int | None = None,
    like: int | None = None,
) -> None:
    """Write a new file completely, or not at all.

    Args:
        mode: permissions. With None, the user's umask determines them.
        durable: whether to wait until the data is on disk.
        folder: descriptor of the folder that is to contain the file `path`.
        like: descriptor of a file. The new file gets that file's owner, ACL and extended attributes.

    Raises:
        OSError: the path exists, writing to disk failed, or the attributes cannot be set.
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


def put_private(
    target: Path, data: bytes | bytearray, *, durable: bool = False
) -> None:
    """Replace a file atomically with a private one.

    A link is replaced, not followed.

    Raises:
        OSError: writing to disk failed. The old file remains unchanged.
    """
    put_whole(target, data, 0o600, durable=durable)


def put_whole(
    target: Path,
    data: bytes | bytearray,
    mode: int | None,
    *,
    durable: bool = False,
    folder: int | None = None,
    like: int | None = None,
) -> None:
    """Replace a file atomically. The arguments are those of `write_new`.

    Other hard links to the old file keep the old content.

    Raises:
        OSError: writing to disk failed, or the attributes cannot be set. The old file remains unchanged.
    """
    random_name = os.urandom(6).hex()
    draft = target.with_name(f"{_DRAFT}{random_name}.tmp")
    try:
        write_new(
            draft,
            data,
            mode=mode,
            durable=durable,
            folder=folder,
            like=like,
        )
        os.replace(draft, target, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        _discard(draft, folder)


def overwrite(name: str, data: bytes, folder: int) -> None:
    """Overwrite a file in place, so that it keeps its inode.

    A full disk is detected before the first byte is written. After a crash, the file may be only partly
    written.

    Args:
        name: name of the file in `folder`.
        folder: descriptor of the folder.

    Raises:
        OSError: the file cannot be written, or has several hard links.
    """
    descriptor = _regular(name, os.O_WRONLY | _NO_FOLLOW, folder)
    with os.fdopen(descriptor, "wb") as file:
        if os.fstat(descriptor).st_nlink > 1:
            raise OSError(errno.EMLINK, "it has several hard links", name)
        if data and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, len(data))
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(descriptor)


def put_aside(path: Path, parent: tuple[int, int]) -> str:
    """Move a file or folder aside by renaming it, and return the new name.

    Args:
        path: absolute path without links.
        parent: device and inode that its folder had when the path was checked.

    Raises:
        OSError: the path does not exist, its folder was replaced, or renaming failed.
    """
    name = f"{path.name}.aside-{os.urandom(3).hex()}"
    with folder_at(path.parent) as folder:
        status = os.fstat(folder)
        if (status.st_dev, status.st_ino) != parent:
            raise OSError(errno.ESTALE, "its folder was replaced", os.fspath(path))
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name


def is_draft(name: str) -> bool:
    """Return whether a file name is that of an unfinished file."""
    return name.startswith(_DRAFT) and name.endswith(".tmp")


def _give_owner(descriptor: int, status: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)


def _give_attributes(descriptor: int, like: int) -> None:
    """Copy the extended attributes of the file `like` to a file.

    The file's other extended attributes are removed.
    """
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
    except OSError:  # not supported by the file system
        return {}
    names = [name for name in names if name != _CAPABILITY]
    return {name: os.getxattr(descriptor, name) for name in names}


def _discard(path: AnyPath, folder: int | None) -> None:
    with suppress(OSError):
        os.unlink(path, dir_fd=folder)


def _regular(path: AnyPath, flags: int, folder: int | None = None) -> int:
    try:
        descriptor = os.open(path, flags | _NON_BLOCKING, 0o600, dir_fd=folder)
    except ValueError:  # a NUL, or a lone surrogate
        raise OSError(
            errno.EINVAL, "no file can have this name", os.fspath(path)
        ) from None
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def _is_a_link(path: AnyPath) -> OSError:
    return OSError(
        errno.ELOOP,
        "it is a link, and links are not followed for writing",
        os.fspath(path),
    )
