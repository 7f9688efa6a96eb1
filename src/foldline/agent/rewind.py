"""Going back to a checkpoint: what it would do, doing it for the view and for files, and taking it back."""

import asyncio
import dataclasses
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foldline.compaction import load_prompt
from foldline.context.budget import Size
from foldline.context.numbers import some
from foldline.context.rewind_points import (
    FileChange,
    Images,
    Look,
    Unreadable,
    by_path,
    changes_back,
    changes_to,
    held_at,
    settled_index,
)
from foldline.context.weight import view_size
from foldline.data import real_path
from foldline.files import folder_at, opened, read_regular, status_in
from foldline.history import Contents, Session
from foldline.history.contents import LARGEST_KEPT
from foldline.history.session import finished
from foldline.protocol import (
    Checkpoint,
    FileImage,
    FoldlineError,
    Revert,
    events,
    is_typed,
    operations,
    system_words,
)

from .branches import note_on_left
from .state import AgentState, FileStamps
from .tools import ToolFailure
from .tools.files import change as change_of
from .tools.files import replace
from .tools.history import Dmail
from .tools.text import decoded, is_binary, one_line


@dataclass(frozen=True, slots=True)
class Outcome:
    """What going back to a checkpoint or moment would do now."""

    before: Size
    """The next request now, as the meter shows it."""
    after: Size
    """The next request after going back, as the meter will show it."""
    items: int
    """Items that would leave the view; negative where a compaction is taken back, too."""
    prompts: int = 0
    """Typed prompts among them."""
    files: Sequence[FileChange] = ()
    """Those our tools changed since that do not hold what they held then."""
    come: int = 0
    """Items that come back from another branch."""

    @property
    def changing(self) -> Sequence[FileChange]:
        """Files that would be put back without a further word."""
        return [change for change in self.files if change.kind in ("write", "remove")]

    @property
    def conflicts(self) -> Sequence[FileChange]:
        return [change for change in self.files if change.kind == "conflict"]


async def foresee(state: AgentState, asked: operations.Rewind) -> Outcome:
    """What going back there would do. Reads the files, and changes nothing.

    Raises:
        FoldlineError: there is no such checkpoint or moment.
    """
    projection, index = state.projection, _index_of(state, asked)
    revert = Revert(checkpoint=asked.checkpoint, moment=asked.moment)
    after = await asyncio.to_thread(projection.foreseen, revert)
    files = await file_changes(state, index)
    stay = {item.key for item in after.view}
    prompts = sum(item.key not in stay and is_typed(item.message) for item in projection.view)
    known = {item.key for item in projection.view}
    come = 0 if asked.moment is None else sum(item.key not in known for item in after.view)
    sizes = [view_size(each, overhead=state.overhead) for each in (projection, after)]
    items = len(projection.view) - len(after.view) + come
    return Outcome(sizes[0], sizes[1], items, prompts, files, come)


async def rewind(state: AgentState, asked: operations.Rewind) -> None:
    """Go back. Once begun it is finished, also when the caller is cancelled.

    Raises:
        FoldlineError: there is no such checkpoint or moment, or nothing that could be put back.
    """
    index = _index_of(state, asked)
    if not asked.context and not asked.files:
        raise FoldlineError("Neither context nor files are to go back: nothing was done.")
    await finished(_rewind(state, asked, index))


async def put_files_back(state: AgentState, revert: Revert) -> None:
    """Give the files back what a rewind took from them, except those that were changed since."""
    index = None if revert.came_from is None else state.projection.checkpoint(revert.came_from)
    if revert.files and index is not None:
        await finished(_put_back(state, index))


async def _put_back(state: AgentState, index: int) -> None:
    await state.known_files.settled()
    images = tuple(state.projection.images)
    changes = await asyncio.to_thread(changes_back, images, index, _look(state))
    restored = await _made(state, changes)
    state.emit(events.Notice(text=str(restored), level=restored.level))


async def deliver(state: AgentState, dmail: Dmail) -> None:
    """Back to the checkpoint the model chose, with its message and the request of this turn."""
    index = _index_of(state, operations.Rewind(checkpoint=dmail.checkpoint))
    view, images = state.projection.view, state.projection.images
    request = next((item.index for item in reversed(view) if is_typed(item.message)), None)
    changed = ", ".join(dict.fromkeys(image.path for at, image in images if at >= index))
    files = f"Files changed since then stay changed: {changed}." if changed else "No file was changed."
    text = load_prompt("dmail").replace("{files}", files).replace("{message}", dmail.message.strip())
    revert = Revert(checkpoint=dmail.checkpoint, kept=request, message=text)
    await state.session.append(revert, durable=True)
    await asyncio.to_thread(align_memory, state, index)


def align_memory(state: AgentState, index: int) -> None:
    """After the view fell back to entry `index`: the model knows of later changed files what they held then,
    so that an edit of one is held back until it was read again."""
    changed = {image.path for at, image in state.projection.images if at >= index}
    for name, records in by_path(state.projection.images).items():
        if name not in changed:
            continue
        path, content = state.cwd / name, held_at(records, index).content
        known = None
        if content is not None and state.session.path is not None:
            known = Contents(state.session.path.parent).read(content)
        with suppress(OSError):  # no file can have this name, or a folder on the way may not be entered
            if content is None:
                state.known_files.forget(path)
            else:
                state.known_files.remember(path, known)


async def _rewind(state: AgentState, asked: operations.Rewind, index: int) -> None:
    note = None
    if asked.context and state.branch_note:
        revert = Revert(checkpoint=asked.checkpoint, moment=asked.moment)
        note = await asyncio.to_thread(note_on_left, state, revert)
    restored = None
    if asked.files:
        restored = await restore(state, index, asked.overwrite)
    if restored is not None and not restored.done and not asked.context:
        raise FoldlineError(str(restored))
    came_from = await place(state.session) if restored is None else restored.came_from
    revert = Revert(
        checkpoint=asked.checkpoint if asked.moment is None else came_from,
        context=asked.context,
        files=restored is not None and bool(restored.done),
        came_from=came_from,
        moment=asked.moment,
        note=note,
    )
    await state.session.append(revert, durable=True)
    if asked.context:
        await asyncio.to_thread(align_memory, state, index)
    if restored is not None:
        state.emit(events.Notice(text=str(restored), level=restored.level))


def _index_of(state: AgentState, asked: operations.Rewind) -> int:
    """Index of the first entry that is gone back over."""
    if asked.moment is not None:
        if state.projection.outline(asked.moment) is None:
            raise FoldlineError(f"There is no entry {asked.moment} in this session.")
        return asked.moment + 1
    index = state.projection.checkpoint(asked.checkpoint)
    if index is None:
        raise FoldlineError(f"There is no checkpoint {asked.checkpoint} in this session.")
    return index


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
    return some([*map(one_line, paths)])


def look_in(cwd: Path) -> Look:
    """Reads what a file in this folder holds now. Unreadable is not missing; no link out is followed."""

    def look(image: FileImage) -> str | Unreadable | None:
        try:
            real = _recorded_place(image, cwd)
            if Path(real_path(cwd / image.path)) != real:
                return Unreadable("a link leads elsewhere now")
            with folder_at(real.parent) as folder:
                if not stat.S_ISREG(status_in(folder, real.name).st_mode):
                    return Unreadable("it is no ordinary file any more")
                with opened(real.name, folder) as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Unreadable(f"it cannot be read, {system_words(error)}")

    return look


def _look(state: AgentState) -> Look:
    """`look_in` the working folder; if that is gone, its files are not missing."""
    if state.folder.trouble:
        return lambda _: Unreadable("the working folder is gone")
    return look_in(state.cwd)


def _recorded_place(image: FileImage, cwd: Path) -> Path:
    """Where the file lay that is on record: no link led there, and none is followed now."""
    return Path(os.path.normpath(Path(real_path(cwd), image.link or image.path)))


async def file_changes(state: AgentState, index: int) -> list[FileChange]:
    """What putting the files back to entry `index` would do now."""
    images, settled = tuple(state.projection.images), settled_index(state.projection)
    foreign = state.session.foreign
    return await asyncio.to_thread(changes_to, images, index, _look(state), foreign, settled)


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What became of a file."""

    path: str
    diff: str = ""
    added: int = 0
    removed: int = 0
    why: str = ""
    """Why there is no diff, as a sentence."""


async def diffs_since(state: AgentState, index: int = 0) -> list[FileDiff]:
    """What became of the files that our tools changed since entry `index`, up to what they hold now."""
    changes = await file_changes(state, index)
    return await asyncio.to_thread(lambda: [_diff_of(each, state) for each in changes])


def _diff_of(found: FileChange, state: AgentState) -> FileDiff:
    folder = Path() if state.session.path is None else state.session.path.parent
    try:
        then = b"" if found.target is None else Contents(folder).read(found.target)
        now = b"" if found.now is None else read_regular(state.cwd / found.path, LARGEST_KEPT)
    except OSError as error:
        return FileDiff(found.path, why=f"It cannot be read: {system_words(error)}.")
    if found.kind == "unreadable" or then is None:
        return FileDiff(found.path, why=f"It is not compared: {found.why or 'what it held was not kept'}.")
    if is_binary(then) or is_binary(now):
        return FileDiff(found.path, why=f"It is no text: {len(then):,} bytes then, {len(now):,} now.")
    made = change_of(decoded(then), decoded(now), found.path)
    return FileDiff(
        found.path, made.diff, made.added, made.removed, "" if made.diff else "Its text is the same."
    )


async def restore(state: AgentState, index: int, overwrite: Collection[str] = ()) -> Restored:
    """Put the files back to what they held at entry `index`. A conflict stays unless it is in `overwrite`;
    then its content is kept first.

    Raises:
        FoldlineError: nothing could be recorded; no file was touched.
    """
    await state.known_files.settled()
    return await _made(state, await file_changes(state, index), overwrite)


async def _made(
    state: AgentState, changes: Sequence[FileChange], overwrite: Collection[str] = ()
) -> Restored:
    if state.session.path is None:
        raise FoldlineError("This session is not kept on disk, and no file contents either.")
    contents = Contents(state.session.path.parent)
    wanted, left = [], []
    for change in changes:
        hindrance = await asyncio.to_thread(_hindrance, change, overwrite, contents, state.cwd)
        if hindrance:
            left.append((change.path, hindrance))
        else:
            wanted.append(change)
    came_from = await place(state.session, [_image(change, state.cwd) for change in wanted])
    done, failed = [], []
    for change in wanted:
        try:
            await asyncio.to_thread(_put, change, contents, state)
        except (OSError, FoldlineError) as error:
            left.append((change.path, _why(error, change.path)))
            failed.append(change)
        else:
            done.append(change)
    if failed:  # What was announced did not happen, and the record says so.
        await place(state.session, [_not_made(change).image for change in failed])
    return Restored(came_from, tuple(done), tuple(left))


def _not_made(change: FileChange) -> FileChange:
    """The record that takes back that of a change."""
    by_others = change.kind == "conflict"
    return dataclasses.replace(change, now=change.target, target=change.now, by_others=by_others)


async def place(session: Session, images: Sequence[FileImage] = ()) -> int:
    """Append a checkpoint; returns its id."""
    identity = session.projection.next_checkpoint_id
    await session.append(Checkpoint(id=identity, files=tuple(images)), durable=True)
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


def _put(change: FileChange, contents: Contents, state: AgentState) -> None:
    """Make the file what it was, provided that it still is what was looked at."""
    real = _recorded_place(change.image, state.cwd)
    if look_in(state.cwd)(change.image) != change.now:
        raise FoldlineError("it changed at this very moment")
    if change.target is None:
        with folder_at(real.parent) as folder:
            os.unlink(real.name, dir_fd=folder)
        state.known_files.forget(real)
        return
    content = contents.read(change.target)
    if content is None:
        raise FoldlineError("what it held was not kept")
    replace(real, content, change.path, None if change.mode is None else change.mode & 0o777)
    state.known_files.remember(real, content)


def _why(error: Exception, path: str = "") -> str:
    """The end of a sentence about this file."""
    if isinstance(error, OSError):
        return system_words(error)
    why = str(error).removesuffix(".")
    return f"it {why.removeprefix(f'{path} ')}" if path and why.startswith(f"{path} ") else why


async def record_others_changes(state: AgentState) -> None:
    """Append a checkpoint with the files that are not as our last record left them, if there are any.

    Commands, the user and other agents write to the files that our tools changed. Called before each other
    checkpoint, it lets a rewind to that one know what they held.
    """
    session = state.session
    if session.path is None or session.read_only or state.folder.trouble:
        return
    loop, settled = asyncio.get_running_loop(), settled_index(state.projection)

    def compare() -> None:
        with state.known_files.lock:  # a subagent may be at work: no record of its own comes in between
            images = [each for each in state.projection.images if each[0] > session.foreign]
            stamps = dict(state.file_stamps)
            changes = _changes_by_others(by_path(images), settled, state.cwd, stamps)
            if changes:
                record = asyncio.run_coroutine_threadsafe(place(session, changes), loop)
                with suppress(TimeoutError):
                    record.result(_PATIENCE)
            state.file_stamps = stamps

    await asyncio.to_thread(compare)


def _changes_by_others(
    files: Mapping[str, Images], settled: int, cwd: Path, stamps: FileStamps
) -> list[FileImage]:
    look, images = look_in(cwd), []
    for path, records in files.items():
        stamp = _stamp(cwd / path)
        if stamps.get(path) == stamp:
            continue
        at, last = records[-1]
        now = look(last)
        if isinstance(now, Unreadable):
            continue
        stamps[path] = stamp
        if now == last.after:
            continue
        if at > settled and now == last.before:  # a crash: the change was not made
            images.append(last.model_copy(update={"before": last.after, "after": last.before}))
        else:
            images.append(FileImage(path=path, before=now, after=now, link=last.link, by_others=True))
    return images


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a path that cannot be one raises ValueError
    except (OSError, ValueError):
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


Recorder = Callable[[Path, Path, bytes | None, bytes | None], None]
_PATIENCE = 30.0
"""Seconds that a tool waits for the record. Only a program that is coming to its end takes so long."""


def recorder(session: Session) -> Recorder:
    """What records the changes of files in this session; called in a tool's thread, from a running loop."""
    loop = asyncio.get_running_loop()

    def record(path: Path, real: Path, before: bytes | None, after: bytes | None) -> None:
        if session.path is None or session.read_only:
            return  # it keeps nothing else either
        try:
            image = _kept(session, path, real, before, after)
            appended = asyncio.run_coroutine_threadsafe(place(session, [image]), loop)
            appended.result(_PATIENCE)
        except (OSError, FoldlineError, TimeoutError) as error:
            raise ToolFailure(f"{path} was not changed: that could not be recorded ({error}).") from error

    return record


def _kept(session: Session, path: Path, real: Path, before: bytes | None, after: bytes | None) -> FileImage:
    assert session.path is not None, "only what is on disk keeps contents"
    contents, cwd = Contents(session.path.parent), Path(session.cwd)
    folder = Path(real_path(cwd))
    name = recorded_name(path, cwd)
    mode = None
    with suppress(FileNotFoundError):  # a new file, or one that could not be made
        mode = real.lstat().st_mode & 0o7777
    return FileImage(
        path=name,
        before=None if before is None else contents.keep(before),
        after=None if after is None else contents.keep(after),
        mode=mode,
        link=None if real == folder / name else recorded_name(real, folder),
    )


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
