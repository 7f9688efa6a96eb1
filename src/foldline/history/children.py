"""The sessions of subagents: each lies in the folder of the session that asked for it, and is found only
through that one."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foldline.context.numbers import some
from foldline.data import EVENTS
from foldline.files import is_file, make_private, read_regular, write_new
from foldline.protocol import Entry, FoldlineError, SessionHeader, dump_entry

from .contents import share_files
from .origin import SPAWNED, Spawned

CHILDREN = "children"
"""The folder of a session that holds the folders of its children, named by their ids."""


def child_events(events: Path, child: str) -> Path:
    """The event file of a child of the session with this event file, whether there is one or not."""
    return events.parent / CHILDREN / child / EVENTS


def children_of(events: Path) -> list[Path]:
    """The event files of the sessions that this session's agent began, oldest first. One that was killed
    before it wrote anything has not begun, and a link is none."""
    folder = events.parent / CHILDREN
    found: list[Path] = []
    if events.name == EVENTS and not folder.is_symlink():
        with suppress(OSError), os.scandir(folder) as items:
            names = [item.name for item in items if item.is_dir(follow_symlinks=False)]
            found = [folder / name / EVENTS for name in sorted(names) if name[0] != "."]
    return [path for path in found if _is_begun(path)]


def _is_begun(events: Path) -> bool:
    try:
        return is_file(events) and events.stat().st_size > 0
    except OSError:
        return False


def tree_of(events: Path) -> Iterator[Path]:
    """The event files of a session and of all that were begun below it, each before its children."""
    yield events
    for child in children_of(events):
        yield from tree_of(child)


def named_child(session: object, wanted: str, ids: Iterable[str]) -> str:
    """Which of these ids of a session's subagents is meant: a beginning or an end of it will do.

    Raises:
        FoldlineError: none is, or more than one.
    """
    known = sorted(ids)
    found = [name for name in known if wanted and (name.startswith(wanted) or name.endswith(wanted))]
    found = [wanted] if wanted in found else found
    if len(found) != 1:
        there = f"it has {some(known, 5)}" if known else "it has none"
        raise FoldlineError(f"{session} has not one subagent {wanted!r}: {there}.")
    return found[0]


def copy_children(source: Path, target: Path, session: str, marked: Sequence[str] | None = None) -> None:
    """Give the session in the event file `target` the subagents of `source` as its own, so that each goes on
    by itself: those whose ids are `marked`; all, where it is None. `session` is the id of their new parent.

    Raises:
        OSError: one cannot be read or written.
    """
    for events in children_of(source):
        name = events.parent.name
        if marked is None or name in marked:
            copy = child_events(target, name)
            make_private(copy.parent)
            write_new(copy, _of_parent(read_regular(events), session), durable=True)
            share_files(events.parent, copy.parent)
            copy_children(events, copy, name)


def _of_parent(history: bytes, session: str) -> bytes:
    """A subagent's history with another parent in its header. What else it holds stays byte for byte."""
    first, line_end, rest = history.partition(b"\n")
    try:
        header = json.loads(first)
        header[SPAWNED] = {**header.get(SPAWNED, {}), "session": session}
    except (ValueError, TypeError, AttributeError):
        return history  # damaged, and told of where it is read
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode() + line_end + rest


def write_child(
    events: Path,
    header: SessionHeader,
    entries: Sequence[Entry],
    spawned: Spawned,
    mask: Callable[[str], str],
    **known: object,
) -> Path:
    """Put a subagent's history, as it was read elsewhere, below the session in `events`; its event file.
    `mask` takes out of it what must not be stored, `known` are more fields of its header.

    Raises:
        OSError: it cannot be written.
    """
    path = child_events(events, header.id)
    own = SessionHeader.model_validate({**header.model_dump(), **known, SPAWNED: spawned.model_dump()})
    make_private(path.parent)
    lines = [own.model_dump_json().encode(), *map(dump_entry, entries)]
    write_new(path, b"".join(mask(line.decode()).encode() + b"\n" for line in lines), durable=True)
    return path
