"""Reads subagents' sessions from Foldline's folders, saves them there, and prepares them for export."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.history.children import child_events, children_of, write_child
from foldline.history.origin import PARENT, Parent, Spawned
from foldline.protocol import NEW, Entry
from foldline.view.projection import project

from .base import ForeignChild, marked_child
from .export import Original
from .reader import read_foreign


def subagents_of(events: Path, entries: Sequence[Entry]) -> tuple[ForeignChild, ...]:
    """Read the subagents of a Foldline session, at all depths.

    Raises:
        FoldlineError: a subagent's session cannot be read.
    """
    children = []
    for path in children_of(events):
        session = read_foreign(path, "foldline")
        session = replace(session, children=subagents_of(path, session.entries))
        children.append(marked_child(session, path.parent.name, entries))
    return tuple(children)


def keep_subagents(
    children: Iterable[ForeignChild],
    events: Path,
    cwd: str,
    mask: Callable[[str], str],
) -> None:
    """Save subagents, at all depths, below the session with the event file `events`.

    Raises:
        OSError: writing to disk failed.
    """
    for child in children:
        header = child.session.header
        entries = child.session.entries
        last = entries[-1].index if entries else NEW
        # All entries come from another agent.
        parent = Parent(id=header.id, index=last, foreign=last)
        spawned = Spawned(
            session=events.parent.name, call=child.call_id, agent=child.agent
        )
        fields = {"cwd": cwd, PARENT: parent.model_dump()}
        path = write_child(events, header, entries, spawned, mask, **fields)
        keep_subagents(child.session.children, path, cwd, mask)


def originals_of(
    children: Iterable[ForeignChild], events: Path | None
) -> tuple[Original, ...]:
    """Prepare subagents for export.

    Subagents in Foldline's own folders include their side files.
    """
    originals = []
    for child in children:
        session = child.session
        path = child_events(events, session.header.id) if events else None
        original = Original(
            session.header,
            session.entries,
            project(session.entries),
            path.parent if path else None,
            children=originals_of(session.children, path),
        )
        originals.append(original)
    return tuple(originals)
