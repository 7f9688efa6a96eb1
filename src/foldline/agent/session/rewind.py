"""Rewinds the view and files to a checkpoint; also previews and reverses rewinds."""

import asyncio
import dataclasses
import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foldline.agent.tools import ToolFailure
from foldline.agent.tools.files import replace, unified_diff
from foldline.agent.tools.history import Dmail
from foldline.agent.tools.text import decoded, is_binary
from foldline.compaction import load_prompt
from foldline.data import real_path
from foldline.files import folder_at, opened, read_regular, status_in
from foldline.history import Contents, Session
from foldline.history.contents import LARGEST_KEPT
from foldline.history.session import finished
from foldline.past.rewind_points import (
    FileChange,
    Images,
    ReadContent,
    Unreadable,
    by_path,
    changes_back,
    changes_to,
    content_at,
    settled_index,
)
from foldline.protocol import (
    Checkpoint,
    FileImage,
    FoldlineError,
    Revert,
    is_typed,
    operations,
    system_words,
)
from foldline.text.harmless import escaped_line
from foldline.text.numbers import some
from foldline.view.budget import Size
from foldline.view.weight import view_size

from .state import AgentState, FileStamps

NOTHING_SELECTED = "Nothing selected to restore."
NO_ENTRY = "There is no entry {index} in this session."
NO_CHECKPOINT = "There is no checkpoint {id} in this session."
RESTORED = "Restored: {paths}."
REMOVED = "Removed: {paths}."
KEPT = "{path} was kept: {reason}."
UNCHANGED = "No files to restore: all of them already match that point."
LINK_CHANGED = "a link now points to a different folder"
NOT_A_FILE = "it is no longer a regular file"
UNREADABLE = "it cannot be read ({reason})"
FOLDER_GONE = "the working folder no longer exists"
NOT_SAVED = "its earlier content was not saved"
CURRENT_NOT_SAVED = "its current content could not be saved"
CHANGED_BY_OTHERS = "it has been changed outside this session"
CHANGED_NOW = "it was changed at the same moment"
NOT_ON_DISK = "This session is not saved on disk, so no file contents were saved."
NOT_COMPARED = "Cannot be compared: {reason}."
NOT_TEXT = "Not a text file: {before:,} bytes then, {now:,} now."
SAME_TEXT = "The text is the same."
NOT_RECORDED = (
    "{path} was not changed, because the change could not be recorded ({error})."
)
NAME_NOT_TEXT = "{name} was not changed, because its name is not valid text."
NO_FILES_CHANGED = "No file was changed."
FILES_STAY = "These files have been changed since then, and stay changed: {paths}."

_RECORD_TIMEOUT = 30.0
"""Maximum time that a tool waits for its change to be recorded, in seconds.

Recording only takes this long if the program is exiting.
"""
Recorder = Callable[[Path, Path, bytes | None, bytes | None], None]


@dataclass(frozen=True, slots=True)
class RewindPreview:
    """The effects that a rewind would have now."""

    before: Size
    """Current size of the next request, as shown on the meter."""
    after: Size
    """Size of the next request after the rewind."""
    items: int
    """Number of items that would leave the view.

    Negative if a compaction is reversed as well.
    """
    prompts: int = 0
    """Number of typed prompts among those items."""
    files: Sequence[FileChange] = ()
    """Files that our tools have changed since the checkpoint, and whose content is different now."""
    returning: int = 0
    """Number of items that would return from another branch."""

    @property
    def changing(self) -> Sequence[FileChange]:
        """Files that would be restored. All others would be kept."""
        return [change for change in self.files if change.kind in ("write", "remove")]


async def foresee(state: AgentState, target: operations.Rewind) -> RewindPreview:
    """Preview a rewind. Reads the files, but changes nothing.

    Raises:
        FoldlineError: there is no such checkpoint or point in the history.
    """
    projection = state.projection
    index = _index_of(state, target)
    revert = Revert(checkpoint=target.checkpoint, moment=target.moment)
    after = await asyncio.to_thread(projection.with_entries, revert)
    files = await file_changes(state, index)
    keys = {item.key for item in projection.view}
    keys_after = {item.key for item in after.view}
    removed = [item for item in projection.view if item.key not in keys_after]
    returning = 0
    if target.moment is not None:
        returning = len(keys_after - keys)
    return RewindPreview(
        before=view_size(projection, overhead=state.overhead),
        after=view_size(after, overhead=state.overhead),
        items=len(projection.view) - len(after.view) + returning,
        prompts=sum(is_typed(item.message) for item in removed),
        files=files,
        returning=returning,
    )


# --- rewinding --------------------------------------------------------------------------------------------


async def rewind(state: AgentState, target: operations.Rewind) -> None:
    """Rewind the view, the files, or both.

    Once started, the rewind is completed even if the caller is cancelled.

    Raises:
        FoldlineError: there is no such checkpoint or point in the history, or there is nothing to restore.
    """
    index = _index_of(state, target)
    if not target.context and not target.files:
        raise FoldlineError(NOTHING_SELECTED)
    await finished(_rewind(state, target, index))


async def _rewind(state: AgentState, target: operations.Rewind, index: int) -> None:
    result = None
    if target.files:
        await state.known_files.settled()
        result = await restore(state, await file_changes(state, index))
        if not result.done and not target.context:
            raise FoldlineError(str(result))
    came_from = (
        await append_checkpoint(state.session) if result is None else result.came_from
    )
    revert = Revert(
        checkpoint=target.checkpoint if target.moment is None else came_from,
        context=target.context,
        files=result is not None and bool(result.done),
        came_from=came_from,
        moment=target.moment,
    )
    await state.session.append(revert, durable=True)
    if target.context:
        await asyncio.to_thread(align_memory, state, index)
    if result is not None:
        state.notify(str(result), level=result.level)


def _index_of(state: AgentState, target: operations.Rewind) -> int:
    """Return the index of the first entry to revert."""
    if target.moment is not None:
        if state.projection.outline(target.moment) is None:
            raise FoldlineError(NO_ENTRY, index=target.moment)
        return target.moment + 1
    index = state.projection.checkpoint(target.checkpoint)
    if index is None:
        raise FoldlineError(NO_CHECKPOINT, id=target.checkpoint)
    return index


async def put_files_back(state: AgentState, revert: Revert) -> None:
    """Undo the file changes that a rewind made."""
    if revert.came_from is None or not revert.files:
        return
    index = state.projection.checkpoint(revert.came_from)
    if index is not None:
        await finished(_put_back(state, index))


async def _put_back(state: AgentState, index: int) -> None:
    await state.known_files.settled()
    images = tuple(state.projection.images)
    changes = await asyncio.to_thread(changes_back, images, index, _look(state))
    result = await restore(state, changes)
    state.notify(str(result), level=result.level)


async def deliver(state: AgentState, dmail: Dmail) -> None:
    """Rewind to the checkpoint that a D-Mail names, and append the D-Mail's message."""
    index = _index_of(state, operations.Rewind(checkpoint=dmail.checkpoint))
    items = reversed(state.projection.view)
    prompt = next((item.index for item in items if is_typed(item.message)), None)
    paths = dict.fromkeys(
        image.path for at, image in state.projection.images if at >= index
    )
    files = NO_FILES_CHANGED
    if paths:
        files = FILES_STAY.format(paths=", ".join(paths))
    text = (
        load_prompt("dmail")
        .replace("{files}", files)
        .replace("{message}", dmail.message.strip())
    )
    revert = Revert(checkpoint=dmail.checkpoint, kept=prompt, message=text)
    await state.session.append(revert, durable=True)
    await asyncio.to_thread(align_memory, state, index)


def align_memory(state: AgentState, index: int) -> None:
    """Record that the model knows the files' content as of entry `index`, not their current content.

    Only files that have changed since then are affected. The model cannot edit them until it has read them
    again.
    """
    changed = {image.path for at, image in state.projection.images if at >= index}
    for name, records in by_path(state.projection.images).items():
        if name not in changed:
            continue
        path = state.cwd / name
        digest = content_at(records, index).content
        content = None
        if digest is not None and state.session.path is not None:
            content = Contents(state.session.path.parent).read(digest)
        with suppress(OSError):  # an invalid file name, or a folder without access
            if digest is None:
                state.known_files.forget(path)
            else:
                state.known_files.remember(path, content)


# --- restoring files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The files that were restored, and those that were not."""

    came_from: int
    """Id of the checkpoint before the changes, for undoing them."""
    done: tuple[FileChange, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that were not restored, each with the reason as a clause."""

    @property
    def level(self) -> Literal["info", "warning"]:
        return "warning" if self.skipped else "info"

    def __str__(self) -> str:
        """Describe the result in sentences."""
        sentences = []
        written = [
            escaped_line(change.path)
            for change in self.done
            if change.target is not None
        ]
        if written:
            sentences.append(RESTORED.format(paths=some(written)))
        removed = [
            escaped_line(change.path) for change in self.done if change.target is None
        ]
        if removed:
            sentences.append(REMOVED.format(paths=some(removed)))
        sentences += [
            KEPT.format(path=escaped_line(path), reason=reason)
            for path, reason in self.skipped
        ]
        return " ".join(sentences) or UNCHANGED


def look_in(cwd: Path) -> ReadContent:
    """Return a function that computes the digest of a recorded file.

    The function distinguishes unreadable files from missing ones. It does not follow links that lead out of
    the folder.
    """

    def look(image: FileImage) -> str | Unreadable | None:
        try:
            real = _recorded_path(image, cwd)
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


def _look(state: AgentState) -> ReadContent:
    """Return `look_in` for the working folder.

    If the folder is gone, its files count as unreadable.
    """
    if state.folder.trouble:
        return lambda _: Unreadable(FOLDER_GONE)
    return look_in(state.cwd)


def _recorded_path(image: FileImage, cwd: Path) -> Path:
    """Return the absolute path of a recorded file.

    Links are not resolved: the recorded path contained none.
    """
    return Path(os.path.normpath(Path(real_path(cwd), image.link or image.path)))


async def file_changes(state: AgentState, index: int) -> list[FileChange]:
    """Return the changes that restore the files to their content at entry `index`."""
    return await asyncio.to_thread(
        changes_to,
        tuple(state.projection.images),
        index,
        _look(state),
        state.session.foreign,
        settled_index(state.projection),
    )


async def restore(state: AgentState, changes: Sequence[FileChange]) -> RestoreResult:
    """Restore files, except those that were changed outside this session.

    Raises:
        FoldlineError: the changes could not be recorded. No file was changed.
    """
    if state.session.path is None:
        raise FoldlineError(NOT_ON_DISK)
    contents = Contents(state.session.path.parent)
    planned, skipped = [], []
    for change in changes:
        obstacle = await asyncio.to_thread(_obstacle, change, contents)
        if obstacle:
            skipped.append((change.path, obstacle))
        else:
            planned.append(change)
    images = [_image(change, state.cwd) for change in planned]
    came_from = await append_checkpoint(state.session, images)
    done, failed = [], []
    for change in planned:
        try:
            await asyncio.to_thread(_apply_change, change, contents, state)
        except (OSError, FoldlineError) as error:
            skipped.append((change.path, _reason(error, change.path)))
            failed.append(change)
        else:
            done.append(change)
    if failed:  # undo their records
        await append_checkpoint(
            state.session, [_reversed_image(change) for change in failed]
        )
    return RestoreResult(came_from, tuple(done), tuple(skipped))


def _reversed_image(change: FileChange) -> FileImage:
    """Return a record that undoes the record of a change."""
    reverse = dataclasses.replace(
        change, now=change.target, target=change.now, by_others=False
    )
    return reverse.image


async def append_checkpoint(session: Session, images: Sequence[FileImage] = ()) -> int:
    """Append a checkpoint and return the checkpoint's id."""
    identity = session.projection.next_checkpoint_id
    await session.append(Checkpoint(id=identity, files=tuple(images)), durable=True)
    return identity


def _obstacle(change: FileChange, contents: Contents) -> str:
    """Return why a file is not restored, as a clause.

    Returns an empty string if it is restored.

    A file whose current content was not saved is kept, because the rewind could not be undone.
    """
    if change.kind in ("unreadable", "conflict"):
        return change.why or CHANGED_BY_OTHERS
    if change.target is not None and contents.read(change.target) is None:
        return NOT_SAVED
    if change.now is not None and contents.read(change.now) is None:
        return CURRENT_NOT_SAVED
    return ""


def _image(change: FileChange, cwd: Path) -> FileImage:
    mode = None
    if change.now is not None:
        with suppress(OSError):  # removed in the meantime: `_apply_change` will notice
            mode = stat.S_IMODE((cwd / change.path).stat().st_mode)
    return change.image.model_copy(update={"mode": mode})


def _apply_change(change: FileChange, contents: Contents, state: AgentState) -> None:
    """Restore one file, unless it has changed since it was examined."""
    real = _recorded_path(change.image, state.cwd)
    if look_in(state.cwd)(change.image) != change.now:
        raise FoldlineError(CHANGED_NOW)
    if change.target is None:
        with folder_at(real.parent) as folder:
            os.unlink(real.name, dir_fd=folder)
        state.known_files.forget(real)
        return
    content = contents.read(change.target)
    if content is None:
        raise FoldlineError(NOT_SAVED)
    mode = None if change.mode is None else change.mode & 0o777
    replace(real, content, change.path, mode)
    state.known_files.remember(real, content)


def _reason(error: Exception, path: str) -> str:
    """Return the reason for a failure, as a clause about the file."""
    if isinstance(error, OSError):
        return system_words(error)
    text = str(error).removesuffix(".")
    if text.startswith(f"{path} "):
        return f"it {text.removeprefix(f'{path} ')}"
    return text


# --- differences ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The difference between a file's recorded and current content."""

    path: str
    diff: str = ""
    added: int = 0
    removed: int = 0
    why: str = ""
    """Message explaining why there is no diff; empty if there is one."""


async def diffs_since(state: AgentState, index: int = 0) -> list[FileDiff]:
    """Compare changed files with their content at entry `index`."""
    changes = await file_changes(state, index)
    return await asyncio.to_thread(
        lambda: [_diff_of(change, state) for change in changes]
    )


def _diff_of(file: FileChange, state: AgentState) -> FileDiff:
    folder = Path() if state.session.path is None else state.session.path.parent
    then: bytes | None = b""
    now = b""
    try:
        if file.target is not None:
            then = Contents(folder).read(file.target)
        if file.now is not None:
            now = read_regular(state.cwd / file.path, LARGEST_KEPT)
    except OSError as error:
        reason = UNREADABLE.format(reason=system_words(error))
        return FileDiff(file.path, why=NOT_COMPARED.format(reason=reason))
    if file.kind == "unreadable" or then is None:
        reason = file.why or NOT_SAVED
        return FileDiff(file.path, why=NOT_COMPARED.format(reason=reason))
    if is_binary(then) or is_binary(now):
        why = NOT_TEXT.format(before=len(then), now=len(now))
        return FileDiff(file.path, why=why)
    change = unified_diff(decoded(then), decoded(now), file.path)
    return FileDiff(
        file.path,
        change.text,
        change.added,
        change.removed,
        why="" if change.text else SAME_TEXT,
    )


# --- recording --------------------------------------------------------------------------------------------


async def record_others_changes(state: AgentState) -> None:
    """Record the content of files that others have changed since our last record.

    Commands, the user and other agents may write to files that our tools have changed. Call this before each
    checkpoint, so that a rewind to the checkpoint can restore their content.
    """
    session = state.session
    if session.path is None or session.read_only or state.folder.trouble:
        return
    loop = asyncio.get_running_loop()
    settled = settled_index(state.projection)

    def compare() -> None:
        with state.known_files.lock:  # otherwise subagents could add records in between
            own_records = [
                record
                for record in state.projection.images
                if record[0] > session.foreign
            ]
            stamps = dict(state.file_stamps)
            changes = _changes_by_others(
                by_path(own_records), settled, state.cwd, stamps
            )
            if changes:
                record = asyncio.run_coroutine_threadsafe(
                    append_checkpoint(session, changes), loop
                )
                with suppress(TimeoutError):
                    record.result(_RECORD_TIMEOUT)
            state.file_stamps = stamps

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
