"""Sessions on disk, as the Sessions screen asks for them: listed, searched, changed, copied, imported.

What is slow is for a thread. Changes raise FoldlineError where another process writes to the session, or the
disk refused. Each runs in a loop of its thread's own: a long history does not keep the screen from drawing.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from foldline.context.numbers import many
from foldline.context.text_search import Query, casefolded, parse_query
from foldline.data import real_path
from foldline.files import is_folder
from foldline.formats.session_list import FoundSession
from foldline.history import (
    Folder,
    Session,
    SessionInfo,
    archive,
    clip_cells,
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

Scope = Literal["here", "all", "archived", "others"]
"""Which sessions: of this folder, of all folders, those put away, those of other agents."""

SCOPES: Final[tuple[Scope, ...]] = ("here", "all", "archived", "others")


@dataclass(frozen=True, slots=True)
class Listed:
    """One session of a list. All texts may be foreign."""

    path: Path
    """Its event file, or the other agent's file."""
    id: str
    updated_at: datetime
    title: str = ""
    """Empty where nothing was said yet."""
    first_prompt: str = ""
    last_prompt: str = ""
    cwd: str = ""
    model: str = ""
    entries: int = 0
    tokens: int = 0
    size: int = 0
    """Bytes of its file."""
    created_at: datetime | None = None
    moved_from: str = ""
    note: str = ""
    """What is wrong with the file, as a sentence."""
    agent: str = ""
    """Whose session it is; empty for ours."""
    archived: bool = False
    readable: bool = True

    @property
    def searchable(self) -> str:
        """What a title search looks at."""
        return casefolded(f"{self.title}\n{self.first_prompt}\n{self.last_prompt}")

    @property
    def ours(self) -> bool:
        return not self.agent


_KNOWN: Final = ("updated_at", "title", "first_prompt", "cwd", "model", "size", "note")
_KNOWN_OF_OURS: Final = ("last_prompt", "entries", "tokens", "created_at")
"""What is known of a session is called alike here and where it comes from."""


def listed(info: SessionInfo) -> Listed:
    """A session of ours."""
    known = {name: getattr(info.meta, name) for name in (*_KNOWN, *_KNOWN_OF_OURS)}
    more = {name: getattr(info, name) for name in ("path", "id", "moved_from", "archived", "readable")}
    return Listed(**known, **more)


def listed_foreign(found: FoundSession) -> Listed:
    """Another agent's session."""
    known = {name: getattr(found, name) for name in ("path", "id", "agent", *_KNOWN)}
    return Listed(**known, readable=bool(found.title or not found.note))


@dataclass(frozen=True, slots=True)
class Listing:
    """The sessions of one scope, the one last written to first."""

    rows: tuple[Listed, ...] = ()
    failure: str = ""
    """Why they could not be listed, as a sentence."""
    more: bool = False
    """Whether older ones were left out."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """A session, or a match in the one above it."""

    session: Listed
    hit: SessionHit | None = None
    more: int = 0
    """Matches that are not shown, said on the last one that is."""

    def same(self, other: "ListRow") -> bool:
        """Whether it is about the same thing, in another state of the list."""
        places = [each.hit.index if each.hit is not None else None for each in (self, other)]
        return self.session.path == other.session.path and places[0] == places[1]


HITS: Final = 2
"""Matches of one session that are shown."""


@dataclass(frozen=True, slots=True)
class SessionsState:
    """Everything the screen shows, but for where the cursor stands."""

    scope: Scope = "here"
    listing: Listing | None = None
    """None while the sessions are being listed."""
    query: str = ""
    found: SessionsFound | None = None
    """What was said of the query; None where nobody has looked, or not to the end yet."""
    searching: bool = False
    trouble: str = ""
    """Why text cannot be searched as it should, as a sentence."""
    here: Path | None = None
    """The event file of the session of this chat."""

    @property
    def asked(self) -> Query | None:
        """What is looked for; None where nothing is."""
        return parse_query(self.query) if self.query.strip() else None

    def in_scope(self, scope: Scope, listing: Listing | None) -> "SessionsState":
        """Other sessions. What was found in the ones before says nothing about them."""
        return replace(self, scope=scope, listing=listing, found=None, searching=False)

    def looking_for(self, query: str) -> "SessionsState":
        """Another query: at once, what titles and prompts say to it."""
        same = query.strip() == self.query.strip()
        return replace(self, query=query, found=self.found if same else None)


def list_rows(state: SessionsState) -> tuple[ListRow, ...]:
    """The sessions to show, in order, each with its best matches below it.

    Without a query all of them. With one, first those whose title or prompts hold it, the newest first: they
    are there at once, and stay where they are when the search is done. Then those it was said in, best first.
    """
    rows = state.listing.rows if state.listing is not None else ()
    asked = state.asked
    if asked is None:
        return tuple(map(ListRow, rows))
    hits = {session.path: session for session in state.found.sessions} if state.found is not None else {}
    titled = [row for row in rows if asked.matches(row.searchable)]
    named = {row.path for row in titled}
    by_path = {row.path: row for row in rows}
    roots = dict.fromkeys(session.root for session in hits.values())
    said_in = [by_path[path] for path in roots if path in by_path and path not in named]
    return tuple(each for row in (*titled, *said_in) for each in _with_hits(row, hits.get(row.path)))


def _with_hits(row: Listed, found: SessionHits | None) -> Iterator[ListRow]:
    yield ListRow(row)
    if found is not None:
        telling = [hit for hit in found.hits if not _is_said_by(row, hit)][:HITS]
        for at, hit in enumerate(telling, start=1):
            yield ListRow(row, hit, max(found.total - at, 0) if at == len(telling) else 0)


def _is_said_by(row: Listed, hit: SessionHit) -> bool:
    """Whether the row itself shows what matches: a title, or the prompt it was taken from."""
    return hit.kind == "title" or (hit.kind == "user" and hit.excerpt == row.title)


DEBOUNCE: Final = 0.12
"""Seconds without another key before the search begins."""
_SESSIONS: Final = 50
"""Found sessions that are asked for."""


async def found_in(home: Path, query: str, cwd: Path | None) -> SessionsFound:
    """What was said, in all sessions or only in those of the folder `cwd`. Its thread ends with a cancel.

    Raises:
        FoldlineError: the sessions cannot be listed.
    """
    given_up = threading.Event()

    def search() -> SessionsFound:
        sessions = sessions_to_search(home, cwd)
        return search_sessions(sessions, query, limit=_SESSIONS, stopped=given_up.is_set)

    try:
        return await asyncio.to_thread(search)
    finally:
        given_up.set()


_FOREIGN: Final = 500
"""Sessions of other agents that are listed: a little of each file has to be read."""


def read_listing(scope: Scope, home: Path, root: Path) -> Listing:
    """The sessions of a scope; where that cannot be read, why. `root` is the folder of this chat."""
    try:
        if scope == "others":
            # Not before the screen is open: this is a thread, that would be the event loop.
            from foldline.formats.session_list import found_sessions

            found = found_sessions(limit=_FOREIGN + 1)
            return Listing(tuple(map(listed_foreign, found[:_FOREIGN])), more=len(found) > _FOREIGN)
        with without_gc():  # the collector would stop the screen, too
            infos = list_sessions(home, root if scope == "here" else None, archived=scope == "archived")
            return Listing(tuple(map(listed, infos)))
    except FoldlineError as failure:
        return Listing(failure=str(failure))


_TITLE_CELLS: Final = 200
"""Of a title that is kept. Lists show less of it."""


def kept_title(text: str) -> str:
    """A title as it is kept: one line. Empty where there is nothing to keep."""
    return clip_cells(text, _TITLE_CELLS)


def rename_session(path: Path, title: str) -> str:
    """Give a session another title."""
    session = Session.open(path)
    try:
        asyncio.run(session.append(Title(title=title), durable=True))
        session.save_meta()
    finally:
        session.close()
    return f"{short_id(session.id)} is called “{title}” now."


def archive_session(home: Path, row: Listed) -> str:
    """Archive a session, or bring an archived one back."""
    name = short_id(row.id)
    if row.archived:
        unarchive(home, row.path)
        return f"{name} is among the sessions again."
    archive(home, row.path)
    return f"{name} is archived: 3 shows it, x brings it back."


def delete_session(home: Path, row: Listed) -> str:
    """Delete a session for good."""
    gone = delete(home, row.path)
    return f"{short_id(row.id)} is deleted: {many(gone.files, 'file')}."


def fork_session(path: Path, home: Path, root: Path, until: int | None = None) -> Path:
    """The event file of a copy, which ends with the entry `until` where one is given. It belongs to the
    folder its session was held in, wherever that is from `root`."""
    session = Session.open(path)
    place = Folder(root).place(session.header)
    folder = place.folder if place.tie is not None else session.cwd
    return _kept(session.copy(home=home, cwd=folder, until=until))


def export_session(path: Path, argument: str, folder: Path) -> tuple[Path, Sequence[str]]:
    """Write the session in this event file as `[format] [path]` has it, Markdown where nothing is said; where
    it is now, and what could not be said in that format.

    Raises:
        FoldlineError: there is no such format, or the file cannot be new.
    """
    from foldline.formats.export import HANDED_OVER, WRITTEN, Original, destination, export_format
    from foldline.formats.subagents import originals_of, subagents_of

    word, _, rest = argument.strip().partition(" ")
    is_format = word in {*HANDED_OVER, *(known.name for known in WRITTEN)} or (rest and word)
    out = rest.strip() if is_format else word
    by_suffix = next((known.name for known in WRITTEN if out.endswith(known.suffix)), "markdown")
    form = export_format(word if is_format else by_suffix)
    session = Session.open(path)
    target = destination(out or None, form, session.id, folder)
    entries = list(session.entries)
    children = originals_of(subagents_of(path, entries), path)
    exported = form.write(
        Original(session.header, entries, session.projection, path.parent, children=children)
    )
    write_new(target, exported.data)
    return target, exported.notes


def import_session(row: Listed, home: Path, root: Path) -> Path:
    """The event file of a copy of another agent's session, in the folder it was held in, or in `root` where
    that is not here."""
    from foldline.formats import read_foreign  # in a thread: nobody waits for it before
    from foldline.formats.subagents import keep_subagents

    found = read_foreign(row.path, row.agent)
    if not found.entries:
        raise FoldlineError(f"{row.path} holds nothing that could go on.")
    held = Path(found.header.cwd)
    folder = held if held.is_absolute() and is_folder(held) and not holds_home(held) else root
    session = Session.from_entries(found.header, found.entries, damage=found.damage)
    path = _kept(session.copy(home=home, cwd=folder, named=real_path(folder) != real_path(root)))
    keep_subagents(found.children, path, str(folder), session.mask)
    return path


def _kept(copying: Coroutine[Any, Any, Session]) -> Path:
    copy = asyncio.run(copying)
    try:
        copy.save_meta()
    finally:
        copy.close()
    assert copy.path is not None, "it was written"
    return copy.path
