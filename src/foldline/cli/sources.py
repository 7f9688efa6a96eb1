"""Sessions as they are named on a command line: a file, a folder, or an id; and new files written of them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.context.projection import Projection, project
from foldline.formats import file_of, read_foreign, session_file
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
    """A session that was read. Reading changes nothing."""

    name: str
    """What the session is called in sentences: its path, or the id it was asked for by."""
    path: Path
    """The file it was read from."""
    format: str
    header: SessionHeader
    entries: list[Entry]
    damage: Damage
    subagents: tuple[ForeignChild, ...] = ()
    """Those that were read with it; of a session of ours, they lie in its folder."""
    digests: Digests | None = None
    """Of a format that proves its files by digests, what came of them."""

    @property
    def ours(self) -> bool:
        """Whether it can be appended to: other agents' files never are."""
        return self.format == "foldline"

    @property
    def folder(self) -> Path | None:
        """The folder of a session of ours; None where it is anything else."""
        return self.path.parent if self.ours and self.path.name == EVENTS else None

    def below(self) -> tuple[ForeignChild, ...]:
        """Its own subagents, with theirs. Raises FoldlineError where one cannot be read."""
        return self.subagents if self.folder is None else subagents_of(self.path, self.entries)

    def tree(self) -> Iterator["Source"]:
        """It, and all below it."""
        yield self
        for child in self.below():
            path = self.path / child.id if self.folder is None else child_events(self.path, child.id)
            yield from _source(f"{self.name}/{child.id}", path, child.session).tree()

    def project(self) -> Projection:
        return project(self.entries)

    def session(self) -> Session:
        """The session to look at; nothing can be appended to it."""
        return Session.from_entries(self.header, self.entries, damage=self.damage)


def read_source(ref: str, format_name: str | None = None) -> Source:
    """The session that `FILE|ID` names. What is damaged or left out is said on stderr.

    Raises:
        FoldlineError: there is none, more than one answers to that, or it cannot be read.
    """
    path = path_of(ref)
    if format_name is None and path.is_relative_to(data_home()):
        format_name = "foldline"  # what is damaged there is no file of another agent
    found = read_foreign(path, format_name)
    for sentence in found.notes:
        note(f"{ref}: {sentence}")
    name = path.parent.name if path.name == EVENTS and ref == path.parent.name else ref
    return _source(name, path, found)


def _source(name: str, path: Path, found: ForeignSession) -> Source:
    return Source(
        name,
        path,
        found.format,
        found.header,
        found.entries,
        found.damage,
        found.children,
        found.digests,
    )


def path_of(ref: str) -> Path:
    """The file of the session that `FILE|ID` names.

    Raises:
        FoldlineError: there is none, or more than one answers to that.
    """
    path = typed_path(ref)
    if ref and os.path.lexists(file_of(path)):
        return _child_path(path.parent, path.name) if path.parent.name == EVENTS else session_file(path)
    session, _, child = ref.rpartition("/")
    if session and child and (":" in session or os.sep not in session):
        return _child_path(path_of(session), child)
    if ref.partition(":")[0] in AGENTS:
        return find_in_homes(ref)
    if not ref or os.sep in ref or path.suffix:
        raise FoldlineError(f"There is no file {ref!r}.")
    return find_session(data_home(), ref)


def _child_path(session: Path, child: str) -> Path:
    """What the subagent of this id is read by: of ours, its own file (others have an `events.jsonl`, too)."""
    below = {path.parent.name: path for path in tree_of(session) if path != session}
    return below[named_child(session.parent.name, child, below)] if below else session / child


def write_copy(
    path: Path, header: SessionHeader, entries: Sequence[Entry], compaction: Compaction
) -> Compaction:
    """Writes the entries, indices included, and behind them the compaction, which is returned as stored. What
    it came from is never touched.

    Raises:
        FoldlineError: it exists already, or the disk refused.
    """
    now = utc_now()
    last = entries[-1].index if entries else -1
    stored = compaction.model_copy(update={"index": last + 1, "at": now})
    ours = SessionHeader(id=new_session_id(now), created_at=now, cwd=header.cwd)
    lines = [ours.model_dump_json().encode(), *(dump_entry(entry) for entry in (*entries, stored))]
    write_new(path, b"".join(line + b"\n" for line in lines))
    return stored
