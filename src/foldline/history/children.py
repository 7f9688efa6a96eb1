"""Sessions of subagents, which are stored in the parent session's folder.

They do not appear in lists of sessions.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from foldline.data import EVENTS, matches_id
from foldline.files import is_file, make_private, read_regular, write_new
from foldline.protocol import Entry, FoldlineError, SessionHeader, dump_entry
from foldline.text.numbers import some

from .contents import share_files
from .origin import SPAWNED, Spawned

CHILDREN = "children"
"""Subfolder that contains a folder for each subagent's session, named by its id."""
NOT_ONE_SUBAGENT = "{ref!r} does not identify one subagent of {session}: {available}."


def child_events(events: Path, child: str) -> Path:
    """Return the path of a child's event file."""
    return events.parent / CHILDREN / child / EVENTS


def children_of(events: Path) -> list[Path]:
    """List the event files of a session's subagents, oldest first.

    Links are left out, as are empty files, which remain if a subagent was killed while it was starting.
    """
    folder = events.parent / CHILDREN
    if events.name != EVENTS or folder.is_symlink():
        return []
    names: list[str] = []
    with suppress(OSError), os.scandir(folder) as items:
        names = [item.name for item in items if item.is_dir(follow_symlinks=False)]
    visible_names = [name for name in sorted(names) if not name.startswith(".")]
    paths = [folder / name / EVENTS for name in visible_names]
    return [path for path in paths if _has_content(path)]


def _has_content(events: Path) -> bool:
    try:
        return is_file(events) and events.stat().st_size > 0
    except OSError:
        return False


def tree_of(events: Path) -> Iterator[Path]:
    """Yield the event files of a session and its descendants.

    Parents precede their children.
    """
    yield events
    for child in children_of(events):
        yield from tree_of(child)


def named_child(session: object, ref: str, ids: Iterable[str]) -> str:
    """Find a subagent by the beginning or end of its id.

    Args:
        session: the parent session, as named in the error message.
        ref: the text that the user typed.
        ids: ids of all subagents of the session.

    Raises:
        FoldlineError: no subagent or more than one subagent matches.
    """
    all_ids = sorted(ids)
    if ref in all_ids:
        return ref
    matches = [child for child in all_ids if matches_id(child, ref)]
    if len(matches) != 1:
        available = f"it has {some(all_ids, 5)}" if all_ids else "it has none"
        raise FoldlineError(
            NOT_ONE_SUBAGENT, ref=ref, session=session, available=available
        )
    return matches[0]


def copy_children(
    source: Path, target: Path, session: str, marked: Sequence[str] | None = None
) -> None:
    """Copy a session's subagents to another session.

    Args:
        source: event file of the session that has the subagents.
        target: event file of the session to copy them to.
        session: id of the new parent.
        marked: ids of the subagents to copy. By default, all are copied.

    Raises:
        OSError: a file cannot be read or written.
    """
    for events in children_of(source):
        name = events.parent.name
        if marked is None or name in marked:
            copy = child_events(target, name)
            make_private(copy.parent)
            write_new(copy, _with_parent(read_regular(events), session), durable=True)
            share_files(events.parent, copy.parent)
            copy_children(events, copy, name)


def _with_parent(log: bytes, session: str) -> bytes:
    """Replace the parent's id in the header of a subagent's log."""
    header_line, line_end, entries = log.partition(b"\n")
    try:
        header = json.loads(header_line)
        header[SPAWNED] = {**header.get(SPAWNED, {}), "session": session}
    except (ValueError, TypeError, AttributeError):
        return log  # the damage is reported when the log is read
    header_line = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return header_line + line_end + entries


def write_child(
    events: Path,
    header: SessionHeader,
    entries: Sequence[Entry],
    spawned: Spawned,
    mask: Callable[[str], str],
    **fields: object,
) -> Path:
    """Write an imported subagent's history, and return its event file.

    Args:
        events: event file of the parent session.
        mask: replaces secrets in a line.
        fields: additional fields for the header.

    Raises:
        OSError: writing to disk failed.
    """
    path = child_events(events, header.id)
    child_header = SessionHeader.model_validate(
        {**header.model_dump(), **fields, SPAWNED: spawned.model_dump()}
    )
    make_private(path.parent)
    lines = [child_header.model_dump_json().encode(), *map(dump_entry, entries)]
    masked_lines = [mask(line.decode()).encode() + b"\n" for line in lines]
    write_new(path, b"".join(masked_lines), durable=True)
    return path
