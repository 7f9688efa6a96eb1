"""Where a search across sessions looks: entries that may match, the newest first, of the right sessions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foldline.data import EVENTS
from foldline.protocol import FoldlineError

from ..catalog.folders import Folder
from ..catalog.listing import read_header
from ..paths import workdir_key
from .intake import is_moment, is_place
from .store import BLOCK_BITS, has_trigrams, sound

if TYPE_CHECKING:
    import sqlite3


PADDING = "\n\n"
_SIZE = 3
_MOST = 48
"""Trigrams of a query that are looked up: enough to leave few candidates, few enough for SQLite's parser."""
_MOST_BEGINNINGS = 256
"""A short term that begins more trigrams than this is too common to leave anything out."""


def candidates_expression(database: "sqlite3.Connection", terms: Sequence[str]) -> str | None:
    """An expression for `MATCH`; empty where nothing can match, None where everything may."""
    parts = [_quoted(trigram) for trigram in _spread([*dict.fromkeys(_trigrams(terms))])]
    for term in terms:
        if len(term) >= _SIZE:
            continue
        longer = _beginning_with(database, term)
        if not longer:
            return ""
        if len(longer) <= _MOST_BEGINNINGS and len(parts) < _MOST:
            parts.append(f"({' OR '.join(map(_quoted, longer))})")
    return " AND ".join(parts) or None


def _trigrams(terms: Sequence[str]) -> Iterator[str]:
    for term in terms:
        for at in range(len(term) - _SIZE + 1):
            yield term[at : at + _SIZE]


def _spread(trigrams: Sequence[str]) -> Sequence[str]:
    """At most `_MOST` of them, from all over the query."""
    step = -(-len(trigrams) // _MOST) or 1
    return trigrams[::step]


def _beginning_with(database: "sqlite3.Connection", term: str) -> list[str]:
    """The trigrams of the index that begin with this term, and one too many where there are too many."""
    database.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.known USING fts5vocab('main', 'said', 'row')")
    rows = database.execute(
        "SELECT term FROM temp.known WHERE term >= ? AND term < ? LIMIT ?",
        (term, f"{term}\U0010ffff", _MOST_BEGINNINGS + 1),
    )
    return [known for (known,) in rows]


def _quoted(trigram: str) -> str:
    """In double quotes, nothing is an operator."""
    return '"' + trigram.replace('"', '""') + '"'


_ROW = (int, int, str, int)
_SHELF = (int, str, str, str, str, str, str)
_SKIPPED = 100
"""Candidates in a row that nobody asked for, before the rest of their block is jumped over."""


class Shelf(NamedTuple):
    """A session as the index knows it."""

    id: int
    folder: str
    """Below the data folder."""
    name: str
    cwd: str
    title: str
    prompt: str
    updated: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that may match, and where it stands."""

    id: int
    """Higher is newer."""
    shelf: Shelf
    index: int
    kind: str
    offset: int


def candidates(
    database: "sqlite3.Connection", terms: Sequence[str], kind: str | None, wanted: Callable[[Shelf], bool]
) -> Iterator[Candidate]:
    """What may hold all these terms, the newest first. Once a session is not `wanted`, it never is again.

    Raises:
        sqlite3.DatabaseError: the index holds what nobody wrote.
    """
    import sqlite3

    expression = candidates_expression(database, terms) if has_trigrams(database) else None
    if not terms or expression == "":
        return
    shelf_of = _shelves(database)
    last = 1 << 62
    below: int | None = last
    while below is not None:
        rows = _rows(database, expression, kind, below)
        below, skipped = None, 0
        for row in rows:
            number, index, of_kind, offset = sound(row, _ROW)
            if number >= last:
                raise sqlite3.DatabaseError("not in order")  # it could go round in circles
            last = number
            shelf = shelf_of(number >> BLOCK_BITS)
            if shelf is not None and wanted(shelf):
                skipped = 0
                yield Candidate(number, shelf, index, of_kind, offset)
                continue
            skipped += 1
            if skipped > _SKIPPED:
                below = number >> BLOCK_BITS << BLOCK_BITS
                break
        rows.close()


def _rows(
    database: "sqlite3.Connection", expression: str | None, kind: str | None, below: int
) -> "sqlite3.Cursor":
    of_kind = "" if kind is None else "AND kind = :kind"
    given = {"match": expression, "below": below, "kind": kind}
    if expression is None:
        return database.execute(
            f"SELECT id, entry, kind, offset FROM entries WHERE id < :below {of_kind} ORDER BY id DESC",  # noqa: S608 (ours)
            given,
        )
    return database.execute(
        "SELECT said.rowid, entry, kind, offset FROM said CROSS JOIN entries ON entries.id = said.rowid "  # noqa: S608 (ours)
        f"WHERE said MATCH :match AND said.rowid < :below {of_kind} ORDER BY said.rowid DESC",
        given,
    )


def _shelves(database: "sqlite3.Connection") -> Callable[[int], Shelf | None]:
    """Which session a block belongs to; None where it is gone."""
    import sqlite3

    def shelf_of(block: int) -> Shelf | None:
        row = database.execute(
            "SELECT sessions.id, folder, name, cwd, title, prompt, updated "
            "FROM blocks JOIN sessions ON sessions.id = blocks.session WHERE blocks.id = ?",
            (block,),
        ).fetchone()
        if row is None:
            return None
        shelf = Shelf(*sound(row, _SHELF))
        if not (is_place(shelf.folder) and is_moment(shelf.updated)):
            raise sqlite3.DatabaseError("not what was written")
        return shelf

    return cache(shelf_of)


def of_folder(home: Path, cwd: Path | str | None) -> Callable[[Shelf], bool]:
    """Whether a session belongs to a folder, as it does for lists; all do where none is given."""
    if cwd is None:
        return lambda shelf: True
    key, folder = workdir_key(cwd), Folder(cwd)

    def belongs(shelf: Shelf) -> bool:
        if shelf.folder.split("/")[1] == key:
            return True
        try:
            return folder.tie(read_header(home / shelf.folder / EVENTS)) is not None
        except FoldlineError:
            return False

    return cache(belongs)
