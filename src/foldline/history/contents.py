"""Contents of files and outputs of tools, which are stored next to a session."""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from foldline.files import make_private, put_private, read_regular, write_new

CONTENTS = "contents"
"""Folder with files' contents before and after each change.

Each content is named by its SHA-256.
"""
LARGEST_KEPT = 32 * 1024 * 1024
"""Maximum size of stored content, in bytes.

A rewind reports that it cannot restore larger files.
"""

_NAME = re.compile(r"[0-9a-f]{64}")


def content_id(data: bytes) -> str:
    """Return the name under which content is stored, which is its SHA-256."""
    return hashlib.sha256(data).hexdigest()


class Contents:
    """Stores one session's file contents.

    Contents are only added, never changed or removed.
    """

    def __init__(self, session_folder: Path) -> None:
        self._folder = session_folder / CONTENTS

    def keep(self, data: bytes) -> str:
        """Store content durably, and return its name.

        Content that is too large is not stored.

        Raises:
            OSError: writing to disk failed.
        """
        name = content_id(data)
        target = self._folder / name
        if len(data) > LARGEST_KEPT or target.exists():
            return name
        make_private(self._folder)
        put_private(target, data, durable=True)
        return name

    def read(self, name: str) -> bytes | None:
        """Return stored content.

        Returns None if it is missing or damaged.
        """
        # The name may come from an untrusted history, and must not be a path.
        if not _NAME.fullmatch(name):
            return None
        try:
            data = read_regular(self._folder / name, LARGEST_KEPT)
        except OSError:
            return None
        return data if content_id(data) == name else None


OUTPUTS = "outputs"
"""Folder with the complete text of tool outputs that were shortened for the model."""


def share_files(source: Path, target: Path) -> None:
    """Copy the contents and outputs of session folder `source` to `target`.

    If possible, hard links are made instead of copies, because these files never change.

    Raises:
        OSError: writing to disk failed.
    """
    for name in (CONTENTS, OUTPUTS):
        with suppress(FileNotFoundError, NotADirectoryError):
            _share(source / name, target / name)


def _share(source: Path, target: Path) -> None:
    if source.is_symlink():
        return  # the linked files do not belong to this session
    with os.scandir(source) as items:
        files = [item.name for item in items if item.is_file(follow_symlinks=False)]
    names = [name for name in files if not name.startswith(".")]
    if not names:
        return
    make_private(target)
    for name in names:
        with suppress(FileNotFoundError):  # deleted in the meantime, which is allowed
            _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return
    except OSError:
        write_new(target, read_regular(source), durable=False)
