"""Puts the files our tools changed back to what they held at a checkpoint. What somebody else changed stays.

What is done is recorded at a checkpoint of its own before the first file is touched: so it can be taken back
in the same way, and a crash in between leaves only contents that are known.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from foldline.context.file_states import FileChange, Look, Unreadable, changes_to
from foldline.data import real_path
from foldline.files import opened
from foldline.history import Contents
from foldline.protocol import Checkpoint, FileImage, FoldlineError, system_words

from .desk import Desk
from .tools.files import replace
from .tools.text import one_line

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of the files."""

    came_from: int
    """Id of the checkpoint that recorded it: the way back."""
    done: tuple[FileChange, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    """Files that stayed as they are, and why."""

    @property
    def level(self) -> Literal["info", "warning"]:
        return "warning" if self.left else "info"

    def __str__(self) -> str:
        """For people: `Put back: a.py. b.py stays as it is: changed since by somebody else.`"""
        written = [change.path for change in self.done if change.target is not None]
        removed = [change.path for change in self.done if change.target is None]
        sentences = [f"Put back: {_named(written)}."] if written else []
        sentences += [f"Removed again: {_named(removed)}."] if removed else []
        sentences += [f"{one_line(path)} stays as it is: {why}." for path, why in self.left]
        return " ".join(sentences) or "All files are already as they were."


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(map(one_line, paths[:4]))
    return f"{shown} and {len(paths) - 4} more" if len(paths) > 4 else shown


def look_in(cwd: Path) -> Look:
    """Reads what a file below this folder holds now. What cannot be read is never taken for missing, and a
    path that leads elsewhere than it did is not followed."""
    folder = real_path(cwd)

    def look(image: FileImage) -> str | Unreadable | None:
        try:
            path = Path(real_path(cwd / image.path))
            if path != Path(os.path.normpath(Path(folder, image.link or image.path))):
                return Unreadable("a link leads elsewhere now")
            if not stat.S_ISREG(path.stat().st_mode):
                return Unreadable("it is no ordinary file any more")
            with opened(path) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Unreadable(f"it cannot be read, {system_words(error)}")

    return look


async def file_changes(desk: Desk, index: int) -> list[FileChange]:
    """What putting the files back to entry `index` would do now."""
    images, foreign = tuple(desk.projection.images), desk.session.foreign
    return await asyncio.to_thread(changes_to, images, index, look_in(desk.cwd), foreign)


async def restore(
    desk: Desk, index: int, overwrite: Collection[str] = (), spared: Mapping[str, str] = _NONE
) -> Restored:
    """Put the files to what they held at entry `index`; what others changed since only where it is in
    `overwrite`, and then their content is kept first. Those that are `spared` stay, with the reason.

    Raises:
        FoldlineError: nothing could be recorded; no file was touched.
    """
    if desk.session.path is None:
        raise FoldlineError("This session is not kept on disk, and no file contents either.")
    await desk.known_files.settled()
    contents = Contents(desk.session.path.parent)
    wanted, left = [], []
    for change in await file_changes(desk, index):
        hindrance = spared.get(change.path) or await asyncio.to_thread(
            _hindrance, change, overwrite, contents, desk.cwd
        )
        if hindrance:
            left.append((change.path, hindrance))
        else:
            wanted.append(change)
    came_from = await place(desk, [_image(change, desk.cwd) for change in wanted])
    done, failed = [], []
    for change in wanted:
        try:
            await asyncio.to_thread(_put, change, contents, desk)
        except (OSError, FoldlineError) as error:
            left.append((change.path, _why(error, change.path)))
            failed.append(change)
        else:
            done.append(change)
    if failed:  # What was announced did not happen, and the record says so.
        undone = {change.path: {"before": change.target, "after": change.now} for change in failed}
        await place(desk, [change.image.model_copy(update=undone[change.path]) for change in failed])
    return Restored(came_from, tuple(done), tuple(left))


async def place(desk: Desk, images: Sequence[FileImage] = ()) -> int:
    """Append a checkpoint; returns its id."""
    identity = desk.projection.next_checkpoint_id
    await desk.session.append(Checkpoint(id=identity, files=tuple(images)), durable=True)
    return identity


def _hindrance(change: FileChange, overwrite: Collection[str], contents: Contents, cwd: Path) -> str:
    """Why a file stays as it is; empty where nothing is in the way. What is overwritten is kept first."""
    if change.kind == "unreadable":
        return change.why
    if change.kind == "conflict" and change.path not in overwrite:
        return change.why or "changed since by somebody else"
    if change.target is not None and contents.read(change.target) is None:
        return "what it held was not kept"
    if change.now is not None and contents.read(change.now) is None:
        try:
            contents.keep_file(cwd / change.path)
        except OSError as error:
            return _why(error)
        if contents.read(change.now) is None:
            return "what it holds now could not be kept"
    return ""


def _image(change: FileChange, cwd: Path) -> FileImage:
    mode = None
    with suppress(OSError):  # gone at this very moment: `_put` will notice
        mode = None if change.now is None else stat.S_IMODE((cwd / change.path).stat().st_mode)
    return change.image.model_copy(update={"mode": mode})


def _put(change: FileChange, contents: Contents, desk: Desk) -> None:
    """Make the file what it was, provided that it still is what was looked at."""
    path = Path(real_path(desk.cwd / change.path))
    if look_in(desk.cwd)(change.image) != change.now:
        raise FoldlineError("it changed at this very moment")
    if change.target is None:
        path.unlink()
        desk.known_files.forget(path)
        return
    content = contents.read(change.target)
    if content is None:
        raise FoldlineError("what it held was not kept")
    replace(path, content, change.path)
    desk.known_files.remember(path, content)
    if change.now is None and change.mode is not None:
        path.chmod(change.mode & 0o777)


def _why(error: Exception, path: str = "") -> str:
    """The end of a sentence about this file."""
    if isinstance(error, OSError):
        return system_words(error)
    why = str(error).removesuffix(".")
    return f"it {why.removeprefix(f'{path} ')}" if path and why.startswith(f"{path} ") else why
