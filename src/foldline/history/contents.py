"""What is kept beside a session: file contents from before and after our changes, and whole outputs."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from foldline.files import make_private, put_private, read_regular, write_new

CONTENTS = "contents"
"""The folder of a session that they lie in, each named by its SHA-256."""
LARGEST_KEPT = 32 * 1024 * 1024
"""Bytes of the largest content that is kept. A rewind says of a larger one that it cannot be put back."""

_NAME = re.compile(r"[0-9a-f]{64}")


def content_id(data: bytes) -> str:
    """The name of a content: its SHA-256."""
    return hashlib.sha256(data).hexdigest()


class Contents:
    """The contents kept for one session. Only ever grows; what is there under a name never changes."""

    def __init__(self, session_folder: Path) -> None:
        self._folder = session_folder / CONTENTS

    def keep(self, data: bytes) -> str:
        """Store a content, unless it is there or too large; its name. On disk when it returns. Raises
        OSError."""
        name = content_id(data)
        target = self._folder / name
        if len(data) > LARGEST_KEPT or target.exists():
            return name
        make_private(self._folder)
        put_private(target, data, durable=True)
        return name

    def keep_file(self, path: Path) -> None:
        """Store what a file holds, unless that is too large. Raises OSError."""
        if path.stat().st_size <= LARGEST_KEPT:
            self.keep(read_regular(path))

    def read(self, name: str) -> bytes | None:
        """The content of this name; None where it was not kept, or is not what its name says. The name may
        come from a history that anybody wrote: it leads nowhere else."""
        if not _NAME.fullmatch(name):
            return None
        try:
            data = read_regular(self._folder / name, LARGEST_KEPT)
        except OSError:
            return None
        return data if content_id(data) == name else None


OUTPUTS = "outputs"


def share_files(source: Path, target: Path) -> None:
    """Give the session folder `target` the kept contents and whole outputs of `source`: as hard links, for
    these files never change, or as copies. Raises OSError."""
    for name in (CONTENTS, OUTPUTS):
        with suppress(FileNotFoundError, NotADirectoryError):
            _share(source / name, target / name)


def _share(source: Path, target: Path) -> None:
    if source.is_symlink():
        return  # it leads to files that nobody kept here
    with os.scandir(source) as found:
        files = [item.name for item in found if item.name[0] != "." and item.is_file(follow_symlinks=False)]
    if not files:
        return
    make_private(target)
    for name in files:
        with suppress(FileNotFoundError):  # it is gone: nothing here depends on it alone
            _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return
    except OSError:
        write_new(target, read_regular(source), durable=False)
