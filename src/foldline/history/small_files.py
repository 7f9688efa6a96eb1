"""Reads small files that may be anything: a pipe or a folder in their place holds nobody up."""

import errno
import os
from stat import S_ISREG


def read_small(path: str | os.PathLike[str], most: int) -> bytes:
    """The first `most` bytes of a regular file.

    Raises:
        OSError: there is none, it is no regular file, or it cannot be read.
    """
    descriptor = open_regular(path)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def open_regular(path: str | os.PathLike[str]) -> int:
    """The descriptor of a regular file, opened for reading.

    Raises:
        OSError: there is none, it is no regular file, or it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor
