"""Records the content of files that the agent or others change, so that a rewind can restore it."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from foldline.agent.tools import ToolFailure
from foldline.data import real_path
from foldline.files import folder_at, opened, status_in
from foldline.history import Contents, Session
from foldline.past.rewind_points import (
    Images,
    ReadContent,
    Unreadable,
    by_path,
    settled_index,
)
from foldline.protocol import Checkpoint, FileImage, FoldlineError, system_words

from .toolset import FileStamps, Toolset

LINK_CHANGED = "a link now points to a different folder"
NOT_A_FILE = "it is no longer a regular file"
UNREADABLE = "it cannot be read ({reason})"
NOT_RECORDED = (
    "{path} was not changed, because the change could not be recorded ({error})."
)
NAME_NOT_TEXT = "{name} was not changed, because its name is not valid text."

_RECORD_TIMEOUT = 30.0
"""Maximum time that a tool waits for its change to be recorded, in seconds.

Recording only takes this long if the program is exiting.
"""
Recorder = Callable[[Path, Path, bytes | None, bytes | None], None]


async def append_checkpoint(session: Session, images: Sequence[FileImage] = ()) -> int:
    """Append a checkpoint and return the checkpoint's id."""
    identity = session.projection.next_checkpoint_id
    await session.append(Checkpoint(id=identity, files=tuple(images)), durable=True)
    return identity


def look_in(cwd: Path) -> ReadContent:
    """Return a function that computes the digest of a recorded file.

    The function distinguishes unreadable files from missing ones. It does not follow links that lead out of
    the folder.
    """

    def look(image: FileImage) -> str | Unreadable | None:
        try:
            real = recorded_path(image, cwd)
            if Path(real_path(cwd / image.path)) != real:
                return Unreadable(LINK_CHANGED)
            with folder_at(real.parent) as folder:
                if not stat.S_ISREG(status_in(folder, real.name).st_mode):
                    return Unreadable(NOT_A_FILE)
                with opened(real.name, folder) as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Unreadable(UNREADABLE.format(reason=system_words(error)))

    return look


def recorded_path(image: FileImage, cwd: Path) -> Path:
    """Return the absolute path of a recorded file.

    Links are not resolved: the recorded path contained none.
    """
    return Path(os.path.normpath(Path(real_path(cwd), image.link or image.path)))


async def record_others_changes(tools: Toolset) -> None:
    """Record the content of files that others have changed since our last record.

    Commands, the user and other agents may write to files that our tools have changed. Call this before each
    checkpoint, so that a rewind to the checkpoint can restore their content.
    """
    session = tools.session
    if session.path is None or session.read_only or tools.folder.trouble:
        return
    loop = asyncio.get_running_loop()
    settled = settled_index(tools.projection)

    def compare() -> None:
        with tools.known_files.lock:  # otherwise subagents could add records in between
            own_records = [
                record
                for record in tools.projection.images
                if record[0] > session.foreign
            ]
            stamps = dict(tools.file_stamps)
            changes = _changes_by_others(
                by_path(own_records), settled, tools.cwd, stamps
            )
            if changes:
                record = asyncio.run_coroutine_threadsafe(
                    append_checkpoint(session, changes), loop
                )
                with suppress(TimeoutError):
                    record.result(_RECORD_TIMEOUT)
            tools.file_stamps = stamps

    await asyncio.to_thread(compare)


def _changes_by_others(
    files: Mapping[str, Images],
    settled: int,
    cwd: Path,
    stamps: FileStamps,
) -> list[FileImage]:
    """Return new records for files that others have changed, and update the file stamps."""
    look = look_in(cwd)
    images = []
    for path, records in files.items():
        stamp = _stamp(cwd / path)
        if stamps.get(path) == stamp:
            continue
        index, last = records[-1]
        now = look(last)
        if isinstance(now, Unreadable):
            continue
        stamps[path] = stamp
        if now == last.after:
            continue
        if (
            index > settled and now == last.before
        ):  # after a crash, the change had not been made
            image = last.model_copy(update={"before": last.after, "after": last.before})
        else:
            image = FileImage(
                path=path,
                before=now,
                after=now,
                link=last.link,
                by_others=True,
            )
        images.append(image)
    return images


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 - an impossible path raises ValueError
    except (OSError, ValueError):
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def recorder(session: Session) -> Recorder:
    """Return a function that records file changes in this session.

    Tools call the function in their threads. `recorder` itself must be called while the event loop is
    running.
    """
    loop = asyncio.get_running_loop()

    def record(
        path: Path,
        real: Path,
        before: bytes | None,
        after: bytes | None,
    ) -> None:
        if session.path is None or session.read_only:
            return  # such a session cannot record anything
        try:
            image = _recorded_image(session, path, real, before, after)
            appended = asyncio.run_coroutine_threadsafe(
                append_checkpoint(session, [image]), loop
            )
            appended.result(_RECORD_TIMEOUT)
        except (OSError, FoldlineError, TimeoutError) as error:
            raise ToolFailure(NOT_RECORDED, path=path, error=error) from error

    return record


def _recorded_image(
    session: Session,
    path: Path,
    real: Path,
    before: bytes | None,
    after: bytes | None,
) -> FileImage:
    """Save the content before and after a change.

    Returns the record of the change.
    """
    assert session.path is not None, "only sessions on disk keep contents"
    contents = Contents(session.path.parent)
    cwd = Path(session.cwd)
    folder = Path(real_path(cwd))
    name = recorded_name(path, cwd)
    mode = None
    with suppress(FileNotFoundError):  # the file does not exist yet
        mode = real.lstat().st_mode & 0o7777
    return FileImage(
        path=name,
        before=None if before is None else contents.keep(before),
        after=None if after is None else contents.keep(after),
        mode=mode,
        link=None if real == folder / name else recorded_name(real, folder),
    )


def recorded_name(path: Path, cwd: Path) -> str:
    """Return a path as stored in the history, relative if possible.

    Raises:
        ToolFailure: the name is not valid text.
    """
    name = os.fspath(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ToolFailure(NAME_NOT_TEXT, name=ascii(name)) from None
    return name
