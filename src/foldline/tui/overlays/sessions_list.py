"""Functions with which the Sessions screen accesses the disk.

They list, search, change, copy and import sessions. They block, so run them in a thread. Functions that
change a session raise FoldlineError if another process is writing to the session, or if writing to disk
fails.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from foldline.data import real_path
from foldline.files import is_folder
from foldline.formats.session_list import FoundSession
from foldline.history import (
    Folder,
    Session,
    SessionInfo,
    archive,
    delete,
    list_sessions,
    short_id,
    unarchive,
)
from foldline.history.paths import holds_home, write_new
from foldline.history.session_search import (
    SessionHit,
    SessionHits,
    SessionsFound,
    search_sessions,
    sessions_to_search,
)
from foldline.history.stored import without_gc
from foldline.protocol import FoldlineError, Title
from foldline.text.numbers import many
from foldline.text.search import Query, casefolded, parse_query
from foldline.text.shorten import clip_cells

Scope = Literal["here", "all", "archived", "others"]
"""Which sessions are listed.

Those from this folder, from all folders, archived ones, or those from other agents.
"""

SCOPES: Final[tuple[Scope, ...]] = ("here", "all", "archived", "others")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the list.

    Its texts are untrusted: clean them before drawing.
    """

    path: Path
    """The session's event file, or another agent's session file."""
    id: str
    updated_at: datetime
    title: str = ""
    first_prompt: str = ""
    last_prompt: str = ""
    cwd: str = ""
    model: str = ""
    entries: int = 0
    tokens: int = 0
    size: int = 0
    """Size of the file in bytes."""
    created_at: datetime | None = None
    moved_from: str = ""
    note: str = ""
    """A message that describes damage in the file.

    Empty if the file is not damaged.
    """
    agent: str = ""
    """Name of the agent that wrote the session. Empty for Foldline."""
    archived: bool = False
    readable: bool = True

    @property
    def searchable(self) -> str:
        """The case-folded text that is searched as the user types."""
        return casefolded(f"{self.title}\n{self.first_prompt}\n{self.last_prompt}")

    @property
    def is_ours(self) -> bool:
        return not self.agent


_SHARED: Final = ("updated_at", "title", "first_prompt", "cwd", "model", "size", "note")
_OWN: Final = ("last_prompt", "entries", "tokens", "created_at")
"""Fields that only Foldline sessions have.

They have the same names in a session's metadata.
"""


def row_of(info: SessionInfo) -> SessionRow:
    """Return the row for a Foldline session."""
    fields = {name: getattr(info.meta, name) for name in (*_SHARED, *_OWN)}
    for name in ("path", "id", "moved_from", "archived", "readable"):
        fields[name] = getattr(info, name)
    return SessionRow(**fields)


def row_of_foreign(session: FoundSession) -> SessionRow:
    """Return the row for another agent's session."""
    fields = {
        name: getattr(session, name) for name in ("path", "id", "agent", *_SHARED)
    }
    return SessionRow(**fields, readable=bool(session.title or not session.note))


@dataclass(frozen=True, slots=True)
class SessionListing:
    """The sessions in a scope, most recently written first."""

    rows: tuple[SessionRow, ...] = ()
    failure: str = ""
    """A message that explains why the sessions cannot be listed.

    Empty if they can be listed.
    """
    more: bool = False
    """Whether older sessions are left out."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """A row of the list: a session, or a match in a session."""

    session: SessionRow
    hit: SessionHit | None = None
    more: int = 0
    """Number of hidden matches, shown in the session's last row."""

    def same(self, other: "ListRow") -> bool:
        """Whether both rows show the same session, or the same match in it."""
        index, other_index = (
            row.hit.index if row.hit is not None else None for row in (self, other)
        )
        return self.session.path == other.session.path and index == other_index


HITS: Final = 2
"""Maximum number of matches shown per session."""


@dataclass(frozen=True, slots=True)
class SessionsState:
    """State of the screen, except for the marked row."""

    scope: Scope = "here"
    listing: SessionListing | None = None
    """The listed sessions. None while they are loading."""
    query: str = ""
    matches: SessionsFound | None = None
    """Result of the search in messages. None until the search is complete."""
    is_searching: bool = False
    search_error: str = ""
    """A message that explains why messages cannot be searched.

    Empty if they can be searched.
    """
    here: Path | None = None
    """Event file of this chat."""

    @property
    def parsed_query(self) -> Query | None:
        """The parsed query, or None if it is blank."""
        return parse_query(self.query) if self.query.strip() else None

    def with_scope(
        self, scope: Scope, listing: SessionListing | None
    ) -> "SessionsState":
        """Return the state with another scope, without matches."""
        return replace(
            self, scope=scope, listing=listing, matches=None, is_searching=False
        )

    def with_query(self, query: str) -> "SessionsState":
        """Return the state with this query.

        Matches for a different query are removed.
        """
        same = query.strip() == self.query.strip()
        return replace(self, query=query, matches=self.matches if same else None)


def list_rows(state: SessionsState) -> tuple[ListRow, ...]:
    """Return the rows to show, with the best matches below each session.

    Sessions that match by title or prompt come first, newest first, so that their rows do not move when the
    search in messages completes. Sessions that match in messages follow, best match first.
    """
    rows = state.listing.rows if state.listing is not None else ()
    query = state.parsed_query
    if query is None:
        return tuple(map(ListRow, rows))
    hits: dict[Path, SessionHits] = {}
    if state.matches is not None:
        hits = {session.path: session for session in state.matches.sessions}
    ordered = {row.path: row for row in rows if query.matches(row.searchable)}
    by_path = {row.path: row for row in rows}
    for session in hits.values():
        if session.root in by_path:
            ordered.setdefault(session.root, by_path[session.root])
    return tuple(
        list_row
        for row in ordered.values()
        for list_row in _with_hits(row, hits.get(row.path))
    )


def _with_hits(row: SessionRow, matches: SessionHits | None) -> Iterator[ListRow]:
    yield ListRow(row)
    if matches is not None:
        hits = [hit for hit in matches.hits if not _is_visible(row, hit)][:HITS]
        for number, hit in enumerate(hits, start=1):
            yield ListRow(
                row, hit, max(matches.total - number, 0) if number == len(hits) else 0
            )


def _is_visible(row: SessionRow, hit: SessionHit) -> bool:
    """Whether the session's own row already shows the match."""
    return hit.kind == "title" or (hit.kind == "user" and hit.excerpt == row.title)


DEBOUNCE: Final = 0.12
"""Seconds without a key press before the search starts."""
_SESSIONS: Final = 50
"""Maximum number of sessions in a search result."""


async def search_text(home: Path, query: str, cwd: Path | None) -> SessionsFound:
    """Search the messages of all sessions, or of those in the folder `cwd`.

    Can be cancelled.

    Raises:
        FoldlineError: the sessions cannot be listed.
    """
    cancelled = threading.Event()

    def search() -> SessionsFound:
        sessions = sessions_to_search(home, cwd)
        return search_sessions(
            sessions, query, limit=_SESSIONS, stopped=cancelled.is_set
        )

    try:
        return await asyncio.to_thread(search)
    finally:
        cancelled.set()


_FOREIGN: Final = 500
"""Maximum number of listed sessions of other agents.

The start of each file is read.
"""


def read_listing(scope: Scope, home: Path, root: Path) -> SessionListing:
    """List the sessions in a scope.

    If they cannot be listed, the result contains the reason. `root` is this chat's folder.
    """
    try:
        if scope == "others":
            from foldline.formats.session_list import found_sessions  # slow to import

            sessions = found_sessions(limit=_FOREIGN + 1)
            rows = map(row_of_foreign, sessions[:_FOREIGN])
            return SessionListing(tuple(rows), more=len(sessions) > _FOREIGN)
        with without_gc():  # a garbage collection would also block the screen
            infos = list_sessions(
                home, root if scope == "here" else None, archived=scope == "archived"
            )
            return SessionListing(tuple(map(row_of, infos)))
    except FoldlineError as failure:
        return SessionListing(failure=str(failure))


_TITLE_CELLS: Final = 200
"""Maximum width of a stored title, in cells."""
RENAMED: Final = "Renamed {name} to “{title}”."
RESTORED: Final = "Restored {name}."
ARCHIVED: Final = "Archived {name}. The list of archived sessions can restore it."
DELETED: Final = "Deleted {name}: {files}."
NO_ENTRIES: Final = "{path} contains no messages to continue from."


def normalize_title(text: str) -> str:
    """Return a title as it is stored: a single line, which may be empty."""
    return clip_cells(text, _TITLE_CELLS)


def rename_session(path: Path, title: str) -> str:
    """Change the title of a session, and return a message."""
    session = Session.open(path)
    try:
        asyncio.run(session.append(Title(title=title), durable=True))
        session.save_meta()
    finally:
        session.close()
    return RENAMED.format(name=short_id(session.id), title=title)


def archive_session(home: Path, row: SessionRow) -> str:
    """Archive a session, or restore an archived one, and return a message."""
    name = short_id(row.id)
    if row.archived:
        unarchive(home, row.path)
        return RESTORED.format(name=name)
    archive(home, row.path)
    return ARCHIVED.format(name=name)


def delete_session(home: Path, row: SessionRow) -> str:
    """Delete a session, and return a message."""
    files = many(delete(home, row.path).files, "file")
    return DELETED.format(name=short_id(row.id), files=files)


def fork_session(path: Path, home: Path, root: Path, until: int | None = None) -> Path:
    """Copy a session up to the entry `until`.

    The copy works in the session's folder. If this folder has moved, `root` is used to find it.

    Returns:
        The event file of the copy.
    """
    session = Session.open(path)
    location = Folder(root).place(session.header)
    folder = location.folder if location.tie is not None else session.cwd
    return _save_copy(session.copy(home=home, cwd=folder, until=until))


def export_session(
    path: Path, argument: str, folder: Path
) -> tuple[Path, Sequence[str]]:
    """Export a session.

    Returns the new file, and notes about anything that could not be exported.

    Args:
        argument: `[format] [path]`. By default, the path's suffix determines the format. If the suffix is
            unknown, the format is Markdown.
        folder: Base folder of a relative path.

    Raises:
        FoldlineError: the format is unknown, or the file already exists.
    """
    from foldline.formats.export import (
        HANDED_OVER,
        WRITTEN,
        Original,
        destination,
        export_format,
    )
    from foldline.formats.subagents import originals_of, subagents_of

    word, _, following = argument.strip().partition(" ")
    is_format = word in {*HANDED_OVER, *(known.name for known in WRITTEN)} or (
        following and word
    )
    out = following.strip() if is_format else word
    by_suffix = next(
        (known.name for known in WRITTEN if out.endswith(known.suffix)), "markdown"
    )
    form = export_format(word if is_format else by_suffix)
    session = Session.open(path)
    target = destination(out or None, form, session.id, folder)
    entries = list(session.entries)
    children = originals_of(subagents_of(path, entries), path)
    exported = form.write(
        Original(
            session.header, entries, session.projection, path.parent, children=children
        )
    )
    write_new(target, exported.data)
    return target, exported.notes


def import_session(row: SessionRow, home: Path, root: Path) -> Path:
    """Copy another agent's session, and return the event file.

    The copy works in the session's folder, or in `root` if that folder does not exist on this machine.
    """
    from foldline.formats import read_foreign  # slow to import
    from foldline.formats.subagents import keep_subagents

    foreign = read_foreign(row.path, row.agent)
    if not foreign.entries:
        raise FoldlineError(NO_ENTRIES, path=row.path)
    folder = Path(foreign.header.cwd)
    if not folder.is_absolute() or not is_folder(folder) or holds_home(folder):
        folder = root
    session = Session.from_entries(
        foreign.header, foreign.entries, damage=foreign.damage
    )
    path = _save_copy(
        session.copy(home=home, cwd=folder, named=real_path(folder) != real_path(root))
    )
    keep_subagents(foreign.children, path, str(folder), session.mask)
    return path


def _save_copy(copying: Coroutine[Any, Any, Session]) -> Path:
    copy = asyncio.run(copying)
    try:
        copy.save_meta()
    finally:
        copy.close()
    assert copy.path is not None, "the copy has a file"
    return copy.path
