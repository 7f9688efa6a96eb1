"""Notices what others changed in files that our tools changed before.

Programs that a tool runs, the user and other agents write to the same files. Each checkpoint is preceded by
a record of what they left there, so that a rewind to it knows what the files held.
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from foldline.context.rewind_points import Images, Unreadable, by_path, settled_index
from foldline.protocol import FileImage

from .rewind import PATIENCE, look_in, place
from .state import AgentState, FileStamps


async def record_others_changes(state: AgentState) -> None:
    """Append a checkpoint with the files that are not as our last record left them, if there are any."""
    session = state.session
    if session.path is None or session.read_only or state.folder.trouble:
        return
    loop, settled = asyncio.get_running_loop(), settled_index(state.projection)

    def compare() -> None:
        with state.known_files.lock:  # a subagent may be at work: no record of its own comes in between
            images = [each for each in state.projection.images if each[0] > session.foreign]
            found = _changed(by_path(images), settled, state.cwd, state.file_stamps)
            if found:
                recorded = asyncio.run_coroutine_threadsafe(place(session, found), loop)
                with suppress(TimeoutError):
                    recorded.result(PATIENCE)

    await asyncio.to_thread(compare)


def _changed(files: Mapping[str, Images], settled: int, cwd: Path, stamps: FileStamps) -> list[FileImage]:
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
