"""Deleting a session: only ever asked for by its user, and only its own folder."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from foldline.data import data_home, is_kept
from foldline.files import make_private, read_regular, write_new
from foldline.history.contents import CONTENTS
from foldline.protocol import NEW, FoldlineError, SessionHeader, system_words
from foldline.protocol.base import Record

from .archiving import held, kept_folder

_LEAVING = ".deleted"


class Deleted(NamedTuple):
    """What is gone."""

    folder: Path
    files: int
    size: int
    """Bytes in these files, those that a fork holds as well included."""


def delete(home: Path, events: Path) -> Deleted:
    """Delete a session with all that lies in its folder. Links in it go, what they lead to stays.

    It leaves the lists in one step, before the first of its files goes.

    Raises:
        FoldlineError: it is not one that we keep, another process writes to it, or the disk refused; the
            sentence says where what is left of it lies.
    """
    folder = kept_folder(home, events)
    leaving = folder.with_name(f".{folder.name}{_LEAVING}")
    files, size = _measured(folder)
    with held(folder, "deleted"):
        try:
            if os.path.lexists(leaving):  # an earlier deletion of the same id that was cut short
                shutil.rmtree(leaving)
            folder.rename(leaving)
        except OSError as error:
            why = system_words(error)
            raise FoldlineError(f"The session in {folder} cannot be deleted: {why}.") from None
        try:
            shutil.rmtree(leaving)
        except OSError as error:
            raise FoldlineError(
                f"The session {folder.name} was deleted, but not all its files are gone: "
                f"{system_words(error)}; what is left lies in {leaving}."
            ) from None
    with suppress(OSError):
        folder.parent.rmdir()  # where it was the last one
    return Deleted(folder, files, size)


def _measured(folder: Path) -> tuple[int, int]:
    files = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return files, size


OUTPUTS = "outputs"


def share_files(source: Path, target: Path) -> None:
    """Give the session folder `target` the kept contents and whole outputs of `source`.

    These files are written once and never changed, so that hard links do; where there are none, copies.

    Raises:
        OSError: the disk refused.
    """
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
        with suppress(FileNotFoundError):  # it went meanwhile: nothing here depends on it alone
            _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return
    except OSError:
        write_new(target, read_regular(source), durable=False)


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
    """Where the session comes from; None where it began empty, or that is not told as we understand it."""
    try:
        return Parent.model_validate((header.model_extra or {}).get(PARENT))
    except ValidationError:
        return None


def is_foreign(header: SessionHeader, events: Path) -> bool:
    """Whether a session, or its beginning, was not written here: it may name any folder as its own."""
    return foreign_upto(header) > NEW or not is_kept(data_home(), events)


def foreign_upto(header: SessionHeader) -> int:
    """The last entry that was not written here, as the header tells; all of them where it cannot be read."""
    parent = parent_of(header)
    if parent is not None:
        return parent.foreign
    return sys.maxsize if (header.model_extra or {}).get(PARENT) is not None else NEW
