"""The sessions of subagents: each lies in the folder of the session that asked for it, and is found only
through that one."""

import os
from collections.abc import Iterator
from pathlib import Path

from foldline.data import EVENTS
from foldline.files import is_there

CHILDREN = "children"
"""The folder of a session that holds the folders of its children, named by their ids."""


def child_events(events: Path, child: str) -> Path:
    """The event file of a child of the session with this event file, whether there is one or not."""
    return events.parent / CHILDREN / child / EVENTS


def children_of(events: Path) -> list[Path]:
    """The event files of the sessions that this session's agent began, oldest first. One that was killed
    before it wrote anything has not begun."""
    try:
        names = sorted(os.listdir(events.parent / CHILDREN))  # noqa: PTH208 - `Path` would make objects of them
    except OSError:
        return []
    return [path for path in (child_events(events, name) for name in names) if _is_begun(path)]


def _is_begun(events: Path) -> bool:
    try:
        return events.stat().st_size > 0
    except OSError:
        return False


def tree_of(events: Path) -> Iterator[Path]:
    """The event files of a session and of all that were begun below it, each before its children."""
    yield events
    for child in children_of(events):
        yield from tree_of(child)


def parent_events(events: Path) -> Path | None:
    """The event file of the session in whose folder this one lies; None for one that is no child."""
    folder = events.parent.parent
    return folder.parent / EVENTS if folder.name == CHILDREN and is_there(folder.parent / EVENTS) else None
