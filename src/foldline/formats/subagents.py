"""The sessions of subagents, taken from one place to another: read from our folders, kept there, exported."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.context.projection import project
from foldline.history.children import child_events, children_of, write_child
from foldline.history.origin import PARENT, Parent, Spawned
from foldline.protocol import NEW, Entry

from .base import ForeignChild, marked_child
from .export import Original
from .reader import read_foreign


def subagents_of(events: Path, entries: Sequence[Entry]) -> tuple[ForeignChild, ...]:
    """The subagents of a session of ours, with theirs. Raises FoldlineError where one cannot be read."""
    found = []
    for path in children_of(events):
        read = read_foreign(path, "foldline")
        below = subagents_of(path, read.entries)
        found.append(marked_child(replace(read, children=below), path.parent.name, entries))
    return tuple(found)


def keep_subagents(
    children: Iterable[ForeignChild], events: Path, cwd: str, mask: Callable[[str], str]
) -> None:
    """Put these, and theirs, below the session in `events`. None of it was written here: it grants nothing.

    Raises:
        OSError: one cannot be written.
    """
    for child in children:
        header, entries = child.session.header, child.session.entries
        last = entries[-1].index if entries else NEW
        known = {"cwd": cwd, PARENT: Parent(id=header.id, index=last, foreign=last).model_dump()}
        spawned = Spawned(session=events.parent.name, call=child.call_id, agent=child.agent)
        path = write_child(events, header, entries, spawned, mask, **known)
        keep_subagents(child.session.children, path, cwd, mask)


def originals_of(children: Iterable[ForeignChild], events: Path | None) -> tuple[Original, ...]:
    """These as they are exported, with their side files where the session in `events` is ours."""
    found = []
    for child in children:
        header, entries = child.session.header, child.session.entries
        path = child_events(events, header.id) if events is not None else None
        below = originals_of(child.session.children, path)
        folder = path.parent if path is not None else None
        found.append(Original(header, entries, project(entries), folder, children=below))
    return tuple(found)
