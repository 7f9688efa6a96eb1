"""Going back to a checkpoint: what it would do, doing it, and taking it back."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from foldline.compaction import load_prompt
from foldline.context.file_states import FileChange, first_since
from foldline.history import Contents
from foldline.protocol import BaseMessage, FoldlineError, Revert, UserMessage, events, operations

from .desk import Desk
from .restoring import file_changes, place, restore
from .tools.dmail import Dmail

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What going back to a checkpoint would do now."""

    items: int
    """Items that would leave the view; negative where a fold is taken back, too."""
    prompts: int
    """Typed prompts among them."""
    tokens: int
    """Estimate of the view after it, before calibration."""
    files: Sequence[FileChange]
    """Those our tools changed since that do not hold what they held then."""


async def foresee(desk: Desk, checkpoint: int) -> Foreseen:
    """What going back to this checkpoint would do. Reads the files, and changes nothing.

    Raises:
        FoldlineError: there is no such checkpoint.
    """
    projection, index = desk.projection, _index_of(desk, checkpoint)
    after = await asyncio.to_thread(projection.foreseen, Revert(checkpoint=checkpoint))
    files = await file_changes(desk, index)
    stay = {item.key for item in after.view}
    prompts = sum(item.key not in stay and _is_request(item.message) for item in projection.view)
    return Foreseen(len(projection.view) - len(after.view), prompts, after.sent, files)


async def rewind(desk: Desk, asked: operations.Rewind) -> None:
    """Go back. Once begun it is finished, also when the caller is cancelled meanwhile.

    Raises:
        FoldlineError: there is no such checkpoint, or nothing that could be put back.
    """
    index = _index_of(desk, asked.checkpoint)
    if not asked.context and not asked.files:
        raise FoldlineError("Neither context nor files are to go back: nothing was done.")
    await _finished(_rewind(desk, asked, index))


async def put_files_back(desk: Desk, revert: Revert) -> None:
    """Where a rewind is taken back: the files to what they held before it, but for those of later work."""
    index = None if revert.came_from is None else desk.projection.checkpoint(revert.came_from)
    if revert.files and index is not None:
        later = {image.path for at, image in desk.projection.images if at > revert.index}
        spared = dict.fromkeys(later, "written again after the rewind")
        restored = await _finished(restore(desk, index, spared=spared))
        desk.emit(events.Notice(text=str(restored), level=restored.level))


async def deliver(desk: Desk, dmail: Dmail) -> None:
    """Back to the checkpoint the model chose, with its message and the request of this turn."""
    index = _index_of(desk, dmail.checkpoint)
    view, images = desk.projection.view, desk.projection.images
    request = next((item.index for item in reversed(view) if _is_request(item.message)), None)
    changed = ", ".join(dict.fromkeys(image.path for at, image in images if at >= index))
    files = f"Files changed meanwhile stay changed: {changed}." if changed else "No file was changed."
    text = load_prompt("dmail").replace("{files}", files).replace("{message}", dmail.message.strip())
    revert = Revert(checkpoint=dmail.checkpoint, kept=request, message=text)
    await desk.session.append(revert, durable=True)
    await asyncio.to_thread(align_memory, desk, index)


def _is_request(message: BaseMessage) -> bool:
    return isinstance(message, UserMessage) and message.origin == "typed"


def align_memory(desk: Desk, index: int) -> None:
    """After the view fell back to entry `index`: of a file that was changed since, the model knows what it
    held then. So an edit of it is held back until it was read again.
    """
    for name, image in first_since(desk.projection.images, index).items():
        path = desk.cwd / name
        known = None
        if image.before is not None and desk.session.path is not None:
            known = Contents(desk.session.path.parent).read(image.before)
        with suppress(OSError):  # no file can have this name, or it leads where nobody may look
            if known is None:
                desk.known_files.forget(path)
            else:
                desk.known_files.remember(path, known)


async def _rewind(desk: Desk, asked: operations.Rewind, index: int) -> None:
    restored = await restore(desk, index, asked.overwrite) if asked.files else None
    if restored is not None and not restored.done and not asked.context:
        raise FoldlineError(str(restored))
    revert = Revert(
        checkpoint=asked.checkpoint,
        context=asked.context,
        files=restored is not None and bool(restored.done),
        came_from=await place(desk) if restored is None else restored.came_from,
    )
    await desk.session.append(revert, durable=True)
    if asked.context:
        await asyncio.to_thread(align_memory, desk, index)
    if restored is not None:
        desk.emit(events.Notice(text=str(restored), level=restored.level))


def _index_of(desk: Desk, checkpoint: int) -> int:
    index = desk.projection.checkpoint(checkpoint)
    if index is None:
        raise FoldlineError(f"There is no checkpoint {checkpoint} in this session.")
    return index


async def _finished(work: Coroutine[None, None, T]) -> T:
    """Its result. A cancel meanwhile is raised once it has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
