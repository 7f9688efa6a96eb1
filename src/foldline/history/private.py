"""Files and folders that only their owner may read: what is said in sessions is nobody else's."""

import os
from contextlib import suppress
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make this folder, and those above it that are missing. What is there stays as it is.

    Raises:
        OSError: the disk refused.
    """
    missing = [folder, *folder.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def put_private(target: Path, data: bytes, draft: str, *, durable: bool = False) -> None:
    """Make this the content of a file in one step; until then it is written under the name `draft` beside it.

    Raises:
        OSError: the disk refused; what was there is unchanged.
    """
    path = target.with_name(draft)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        path.replace(target)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
