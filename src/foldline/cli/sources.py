"""Sessions named on a command line: a file, a folder or an id. And new files with copies of them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.context.projection import Projection, project
from foldline.data import archive_dir, sessions_dir
from foldline.files import is_folder
from foldline.formats import file_in, file_of, read_foreign, session_file
from foldline.formats.base import Digests, ForeignChild, ForeignSession
from foldline.formats.homes import AGENTS, find_in_homes
from foldline.formats.subagents import subagents_of
from foldline.history import (
    EVENTS,
    Damage,
    Session,
    data_home,
    find_session,
    new_session_id,
    typed_path,
    utc_now,
)
from foldline.history.children import child_events, named_child, tree_of
from foldline.history.paths import write_new
from foldline.protocol import Compaction, Entry, FoldlineError, SessionHeader, dump_entry

from .output import note


@dataclass(frozen=True, slots=True)
class Source:
    """A session that was read, from any format."""

    name: str
    """Its name in sentences: the path or id on the command line."""
    path: Path
    """The file it was read from."""
    format: str
    header: SessionHeader
    entries: list[Entry]
    damage: Damage
    subagents: tuple[ForeignChild, ...] = ()
    """Subagents read from the same file. Those of a session of ours are in its folder."""
    digests: Digests | None = None
    """The result of checking a file's digests, for formats that have any."""
    projection: Projection | None = None
    """That of all entries, if it was needed to read them."""

    @property
    def ours(self) -> bool:
        """Whether entries can be appended: not to other agents' files."""
        return self.format == "foldline"

    @property
    def folder(self) -> Path | None:
        """The folder of a session of ours."""
        return self.path.parent if self.ours and self.path.name == EVENTS else None

    def below(self) -> tuple[ForeignChild, ...]:
        """Return its subagents, with theirs.

        Raises:
            FoldlineError: one cannot be read.
        """
        return self.subagents if self.folder is None else subagents_of(self.path, self.entries)

    def tree(self) -> Iterator["Source"]:
        """Yield it and all subagents below it."""
        yield self
        for child in self.below():
            path = self.path / child.id if self.folder is None else child_events(self.path, child.id)
            yield from _source(f"{self.name}/{child.id}", path, child.session).tree()

    def project(self) -> Projection:
        return self.projection or project(self.entries)

    def session(self) -> Session:
        """Return the session for reading only."""
        return Session.from_entries(self.header, self.entries, damage=self.damage)


def read_source(ref: str, format_name: str | None = None) -> Source:
    """Read the session `FILE|ID`. Damage and other notes go to stderr.

    Raises:
        FoldlineError: no session, or more than one, matches, or it cannot be read.
    """
    path = path_of(ref)
    home = data_home()
    if format_name is None and any(map(path.is_relative_to, (sessions_dir(home), archive_dir(home)))):
        format_name = "foldline"  # even a damaged file there is ours
    session = read_foreign(path, format_name)
    for sentence in session.notes:
        note(f"{ref}: {sentence}")
    name = path.parent.name if path.name == EVENTS and ref == path.parent.name else ref
    return _source(name, path, session)


def _source(name: str, path: Path, session: ForeignSession) -> Source:
    return Source(
        name,
        path,
        session.format,
        session.header,
        session.entries,
        session.damage,
        session.children,
        session.digests,
        session.projection,
    )


def path_of(ref: str) -> Path:
    """Return the file of the session `FILE|ID`.

    Raises:
        FoldlineError: no session, or more than one, matches.
    """
    path = typed_path(ref)
    if ref and os.path.lexists(file_of(path)):
        return _child_path(path.parent, path.name) if path.parent.name == EVENTS else session_file(path)
    folder = path.parent
    if ref and is_folder(folder) and (file := file_in(folder)):
        return _child_path(file, path.name)
    session, _, child = ref.rpartition("/")
    if session and child and (":" in session or os.sep not in session):
        return _child_path(path_of(session), child)
    if ref.partition(":")[0] in AGENTS:
        return find_in_homes(ref)
    if not ref or os.sep in ref or path.suffix:
        raise FoldlineError(f"There is no file {ref!r}.")
    return find_session(data_home(), ref)


def _child_path(session: Path, child: str) -> Path:
    """Return a subagent's own file, or `session/child`."""
    below = {path.parent.name: path for path in tree_of(session) if path != session}
    return below[named_child(session.parent.name, child, below)] if below else session / child


def write_copy(
    path: Path, header: SessionHeader, entries: Sequence[Entry], compaction: Compaction
) -> Compaction:
    """Write entries and a compaction to a new file. Return the compaction.

    Raises:
        FoldlineError: the file exists already, or the disk refused.
    """
    now = utc_now()
    last = entries[-1].index if entries else -1
    stored = compaction.model_copy(update={"index": last + 1, "at": now})
    ours = SessionHeader(id=new_session_id(now), created_at=now, cwd=header.cwd)
    lines = [ours.model_dump_json().encode(), *map(dump_entry, (*entries, stored))]
    write_new(path, b"".join(line + b"\n" for line in lines))
    return stored
