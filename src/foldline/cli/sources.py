"""Reads the sessions named on a command line, and writes copies of them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.data import is_kept
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
from foldline.protocol import (
    Compaction,
    Entry,
    FoldlineError,
    SessionHeader,
    dump_entry,
)
from foldline.view.projection import Projection, project

from .output import note


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session that was read from a file of any format."""

    name: str
    """The session's name in messages.

    This is its path or id, as given on the command line.
    """
    path: Path
    """The file that the session was read from."""
    format: str
    header: SessionHeader
    entries: list[Entry]
    damage: Damage
    subagents: tuple[ForeignChild, ...] = ()
    """Subagents that were read from the same file.

    Empty for a Foldline session, whose subagents are stored in its folder.
    """
    digests: Digests | None = None
    """The result of checking the file's digests.

    None for formats without digests.
    """
    projection: Projection | None = None
    """The projection of all entries, if the reader has already built it."""

    @property
    def is_foldline(self) -> bool:
        """Whether this is a Foldline session.

        Other agents' sessions are read-only.
        """
        return self.format == "foldline"

    @property
    def folder(self) -> Path | None:
        """The folder of a Foldline session."""
        return (
            self.path.parent if self.is_foldline and self.path.name == EVENTS else None
        )

    def children(self) -> tuple[ForeignChild, ...]:
        """Return the session's subagents. Each has its own subagents.

        Raises:
            FoldlineError: a subagent's session cannot be read.
        """
        return (
            self.subagents
            if self.folder is None
            else subagents_of(self.path, self.entries)
        )

    def tree(self) -> Iterator["SourceSession"]:
        """Yield this session, then the sessions of all subagents below it."""
        yield self
        for child in self.children():
            path = (
                self.path / child.id
                if self.folder is None
                else child_events(self.path, child.id)
            )
            yield from _source(f"{self.name}/{child.id}", path, child.session).tree()

    def project(self) -> Projection:
        return self.projection or project(self.entries)

    def session(self) -> Session:
        """Return a read-only session."""
        return Session.from_entries(self.header, self.entries, damage=self.damage)


def read_source(ref: str, format_name: str | None = None) -> SourceSession:
    """Read the session that `FILE|ID` names.

    The reader's notes, for example on damage, are printed on stderr.

    Raises:
        FoldlineError: no session or more than one session matches, or the session cannot be read.
    """
    path = path_of(ref)
    if format_name is None and is_kept(data_home(), path):
        format_name = "foldline"  # even if the file is damaged
    session = read_foreign(path, format_name)
    for sentence in session.notes:
        note(f"{ref}: {sentence}")
    name = path.parent.name if path.name == EVENTS and ref == path.parent.name else ref
    return _source(name, path, session)


def _source(name: str, path: Path, session: ForeignSession) -> SourceSession:
    return SourceSession(
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
    """Return the file of the session that `FILE|ID` names.

    Raises:
        FoldlineError: no session or more than one session matches.
    """
    path = typed_path(ref)
    if ref and os.path.lexists(file_of(path)):
        return (
            _child_path(path.parent, path.name)
            if path.parent.name == EVENTS
            else session_file(path)
        )
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
    """Return a subagent's own file.

    If subagents have no files of their own, returns the path `session/child`.
    """
    below = {path.parent.name: path for path in tree_of(session) if path != session}
    return (
        below[named_child(session.parent.name, child, below)]
        if below
        else session / child
    )


def write_copy(
    path: Path, header: SessionHeader, entries: Sequence[Entry], compaction: Compaction
) -> Compaction:
    """Write entries and a compaction to a new file.

    Returns the compaction with its index.

    Raises:
        FoldlineError: the file already exists, or writing to disk failed.
    """
    now = utc_now()
    last = entries[-1].index if entries else -1
    stored = compaction.model_copy(update={"index": last + 1, "at": now})
    ours = SessionHeader(id=new_session_id(now), created_at=now, cwd=header.cwd)
    lines = [ours.model_dump_json().encode(), *map(dump_entry, (*entries, stored))]
    write_new(path, b"".join(line + b"\n" for line in lines))
    return stored
