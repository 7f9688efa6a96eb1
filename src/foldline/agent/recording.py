"""Records what a tool is about to do to a file, before the file is touched, so that it can be put back."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from foldline.data import real_path
from foldline.history import Contents, Session
from foldline.protocol import Checkpoint, FileImage, FoldlineError

from .tools import ToolFailure

Recorder = Callable[[Path, bytes | None, bytes], None]
_PATIENCE = 30.0
"""Seconds that a tool waits for the record. Only a program that is coming to its end takes so long."""


def recorder(session: Session) -> Recorder:
    """What records the changes of files in this session; called in a tool's thread, from a running loop."""
    loop = asyncio.get_running_loop()

    def record(path: Path, before: bytes | None, after: bytes) -> None:
        if session.path is None or session.read_only:
            return  # it keeps nothing else either
        try:
            image = _kept(session, path, before, after)
            appended = asyncio.run_coroutine_threadsafe(_append(session, image), loop)
            appended.result(_PATIENCE)
        except (OSError, FoldlineError, TimeoutError) as error:
            raise ToolFailure(f"{path} was not changed: that could not be recorded ({error}).") from error

    return record


def _kept(session: Session, path: Path, before: bytes | None, after: bytes) -> FileImage:
    assert session.path is not None, "only what is on disk keeps contents"
    contents, cwd = Contents(session.path.parent), Path(session.cwd)
    folder, real = Path(real_path(cwd)), Path(real_path(path))
    name = recorded_name(path, cwd)
    return FileImage(
        path=name,
        before=None if before is None else contents.keep(before),
        after=contents.keep(after),
        mode=None if before is None else path.stat().st_mode & 0o7777,
        link=None if real == folder / name else recorded_name(real, folder),
    )


async def _append(session: Session, image: FileImage) -> None:
    place = Checkpoint(id=session.projection.next_checkpoint_id, files=(image,))
    await session.append(place, durable=True)


def recorded_name(path: Path, cwd: Path) -> str:
    """The path as the history names it: relative to the working directory, where it is inside.

    Raises:
        ToolFailure: the name is not text.
    """
    name = os.fspath(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ToolFailure(f"{name!a} was not changed: its name is not text.") from None
    return name
