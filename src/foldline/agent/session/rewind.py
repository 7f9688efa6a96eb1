"""Rewinds the view and files to a checkpoint; also previews and reverses rewinds."""

import asyncio
import dataclasses
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foldline.agent.tools.diffs import unified_diff
from foldline.agent.tools.files import replace
from foldline.agent.tools.history import Dmail
from foldline.agent.tools.text import decoded, is_binary
from foldline.compaction import load_prompt
from foldline.files import folder_at, read_regular
from foldline.history import Contents
from foldline.history.contents import LARGEST_KEPT
from foldline.history.session import finished
from foldline.past.rewind_points import (
    FileChange,
    ReadContent,
    Unreadable,
    by_path,
    changes_back,
    changes_to,
    content_at,
    settled_index,
)
from foldline.protocol import (
    FileImage,
    FoldlineError,
    Revert,
    is_typed,
    system_words,
)
from foldline.protocol.operations import Rewind
from foldline.text.harmless import escaped_line
from foldline.text.numbers import some
from foldline.view.budget import Size
from foldline.view.weight import view_size

from .file_records import (
    UNREADABLE,
    append_checkpoint,
    look_in,
    recorded_path,
)
from .state import AgentState
from .toolset import Toolset

NOTHING_SELECTED = "Nothing selected to restore."
NO_ENTRY = "There is no entry {index} in this session."
NO_CHECKPOINT = "There is no checkpoint {id} in this session."
RESTORED = "Restored: {paths}."
REMOVED = "Removed: {paths}."
KEPT = "{path} was kept: {reason}."
UNCHANGED = "No files to restore: all of them already match that point."
FOLDER_GONE = "the working folder no longer exists"
NOT_SAVED = "its earlier content was not saved"
CURRENT_NOT_SAVED = "its current content could not be saved"
CHANGED_BY_OTHERS = "it has been changed outside this session"
CHANGED_NOW = "it was changed at the same moment"
NOT_ON_DISK = "This session is not saved on disk, so no file contents were saved."
NOT_COMPARED = "Cannot be compared: {reason}."
NOT_TEXT = "Not a text file: {before:,} bytes then, {now:,} now."
SAME_TEXT = "The text is the same."
NO_FILES_CHANGED = "No file was changed."
FILES_STAY = "These files have been changed since then, and stay changed: {paths}."


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


async def foresee(state: AgentState, target: Rewind) -> RewindPreview:
    """Preview a rewind. Reads the files, but changes nothing.

    Raises:
        FoldlineError: there is no such checkpoint or point in the history.
    """
    tools = state.tools
    overhead = state.budget.overhead
    projection = tools.projection
    index = _index_of(tools, target)
    revert = Revert(checkpoint=target.checkpoint, moment=target.moment)
    after = await asyncio.to_thread(projection.with_entries, revert)
    files = await file_changes(tools, index)
    keys = {item.key for item in projection.view}
    keys_after = {item.key for item in after.view}
    removed = [item for item in projection.view if item.key not in keys_after]
    returning = 0
    if target.moment is not None:
        returning = len(keys_after - keys)
    return RewindPreview(
        before=view_size(projection, overhead=overhead),
        after=view_size(after, overhead=overhead),
        items=len(projection.view) - len(after.view) + returning,
        prompts=sum(is_typed(item.message) for item in removed),
        files=files,
        returning=returning,
    )


# --- rewinding --------------------------------------------------------------------------------------------


async def rewind(tools: Toolset, target: Rewind) -> None:
    """Rewind the view, the files, or both.

    Once started, the rewind is completed even if the caller is cancelled.

    Raises:
        FoldlineError: there is no such checkpoint or point in the history, or there is nothing to restore.
    """
    index = _index_of(tools, target)
    if not target.context and not target.files:
        raise FoldlineError(NOTHING_SELECTED)
    await finished(_rewind(tools, target, index))


async def _rewind(tools: Toolset, target: Rewind, index: int) -> None:
    result = None
    if target.files:
        await tools.known_files.settled()
        result = await restore(tools, await file_changes(tools, index))
        if not result.done and not target.context:
            raise FoldlineError(str(result))
    came_from = (
        await append_checkpoint(tools.session) if result is None else result.came_from
    )
    revert = Revert(
        checkpoint=target.checkpoint if target.moment is None else came_from,
        context=target.context,
        files=result is not None and bool(result.done),
        came_from=came_from,
        moment=target.moment,
    )
    await tools.session.append(revert, durable=True)
    if target.context:
        await asyncio.to_thread(align_memory, tools, index)
    if result is not None:
        tools.events.notify(str(result), level=result.level)


def _index_of(tools: Toolset, target: Rewind) -> int:
    """Return the index of the first entry to revert."""
    if target.moment is not None:
        if tools.projection.outline(target.moment) is None:
            raise FoldlineError(NO_ENTRY, index=target.moment)
        return target.moment + 1
    index = tools.projection.checkpoint(target.checkpoint)
    if index is None:
        raise FoldlineError(NO_CHECKPOINT, id=target.checkpoint)
    return index


async def put_files_back(tools: Toolset, revert: Revert) -> None:
    """Undo the file changes that a rewind made."""
    if revert.came_from is None or not revert.files:
        return
    index = tools.projection.checkpoint(revert.came_from)
    if index is not None:
        await finished(_put_back(tools, index))


async def _put_back(tools: Toolset, index: int) -> None:
    await tools.known_files.settled()
    images = tuple(tools.projection.images)
    changes = await asyncio.to_thread(changes_back, images, index, _look(tools))
    result = await restore(tools, changes)
    tools.events.notify(str(result), level=result.level)


async def deliver(tools: Toolset, dmail: Dmail) -> None:
    """Rewind to the checkpoint that a D-Mail names, and append the D-Mail's message."""
    index = _index_of(tools, Rewind(checkpoint=dmail.checkpoint))
    items = reversed(tools.projection.view)
    prompt = next((item.index for item in items if is_typed(item.message)), None)
    paths = dict.fromkeys(
        image.path for at, image in tools.projection.images if at >= index
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
    await tools.session.append(revert, durable=True)
    await asyncio.to_thread(align_memory, tools, index)


def align_memory(tools: Toolset, index: int) -> None:
    """Record that the model knows the files' content as of entry `index`, not their current content.

    Only files that have changed since then are affected. The model cannot edit them until it has read them
    again.
    """
    changed = {image.path for at, image in tools.projection.images if at >= index}
    for name, records in by_path(tools.projection.images).items():
        if name not in changed:
            continue
        path = tools.cwd / name
        digest = content_at(records, index).content
        content = None
        if digest is not None and tools.session.path is not None:
            content = Contents(tools.session.path.parent).read(digest)
        with suppress(OSError):  # an invalid file name, or a folder without access
            if digest is None:
                tools.known_files.forget(path)
            else:
                tools.known_files.remember(path, content)


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


def _look(tools: Toolset) -> ReadContent:
    """Return `look_in` for the working folder.

    If the folder is gone, its files count as unreadable.
    """
    if tools.folder.trouble:
        return lambda _: Unreadable(FOLDER_GONE)
    return look_in(tools.cwd)


async def file_changes(tools: Toolset, index: int) -> list[FileChange]:
    """Return the changes that restore the files to their content at entry `index`."""
    return await asyncio.to_thread(
        changes_to,
        tuple(tools.projection.images),
        index,
        _look(tools),
        tools.session.foreign,
        settled_index(tools.projection),
    )


async def restore(tools: Toolset, changes: Sequence[FileChange]) -> RestoreResult:
    """Restore files, except those that were changed outside this session.

    Raises:
        FoldlineError: the changes could not be recorded. No file was changed.
    """
    if tools.session.path is None:
        raise FoldlineError(NOT_ON_DISK)
    contents = Contents(tools.session.path.parent)
    planned, skipped = [], []
    for change in changes:
        obstacle = await asyncio.to_thread(_obstacle, change, contents)
        if obstacle:
            skipped.append((change.path, obstacle))
        else:
            planned.append(change)
    images = [_image(change, tools.cwd) for change in planned]
    came_from = await append_checkpoint(tools.session, images)
    done, failed = [], []
    for change in planned:
        try:
            await asyncio.to_thread(_apply_change, change, contents, tools)
        except (OSError, FoldlineError) as error:
            skipped.append((change.path, _reason(error, change.path)))
            failed.append(change)
        else:
            done.append(change)
    if failed:  # undo their records
        await append_checkpoint(
            tools.session, [_reversed_image(change) for change in failed]
        )
    return RestoreResult(came_from, tuple(done), tuple(skipped))


def _reversed_image(change: FileChange) -> FileImage:
    """Return a record that undoes the record of a change."""
    reverse = dataclasses.replace(
        change, now=change.target, target=change.now, by_others=False
    )
    return reverse.image


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


def _apply_change(change: FileChange, contents: Contents, tools: Toolset) -> None:
    """Restore one file, unless it has changed since it was examined."""
    real = recorded_path(change.image, tools.cwd)
    if look_in(tools.cwd)(change.image) != change.now:
        raise FoldlineError(CHANGED_NOW)
    if change.target is None:
        with folder_at(real.parent) as folder:
            os.unlink(real.name, dir_fd=folder)
        tools.known_files.forget(real)
        return
    content = contents.read(change.target)
    if content is None:
        raise FoldlineError(NOT_SAVED)
    mode = None if change.mode is None else change.mode & 0o777
    replace(real, content, change.path, mode)
    tools.known_files.remember(real, content)


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


async def diffs_since(tools: Toolset, index: int = 0) -> list[FileDiff]:
    """Compare changed files with their content at entry `index`."""
    changes = await file_changes(tools, index)
    return await asyncio.to_thread(
        lambda: [_diff_of(change, tools) for change in changes]
    )


def _diff_of(file: FileChange, tools: Toolset) -> FileDiff:
    folder = Path() if tools.session.path is None else tools.session.path.parent
    then: bytes | None = b""
    now = b""
    try:
        if file.target is not None:
            then = Contents(folder).read(file.target)
        if file.now is not None:
            now = read_regular(tools.cwd / file.path, LARGEST_KEPT)
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
