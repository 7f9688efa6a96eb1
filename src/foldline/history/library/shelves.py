"""What the search index holds of each session: looking it up, adding to it, taking it out. Only SQL."""

from collections.abc import Sequence
from dataclasses import MISSING, astuple, fields
from typing import TYPE_CHECKING

from .candidates import PADDING
from .intake import Known, Piece, is_moment, is_place
from .store import BLOCK_BITS, has_trigrams, sound, transaction

if TYPE_CHECKING:
    import sqlite3

_FIELDS = [field.name for field in fields(Known)]
_COLUMNS = ", ".join(_FIELDS)
_TYPES = [type(field.default) if field.default is not MISSING else str for field in fields(Known)]
_DEAD_AT_LEAST = 20_000
"""Entries that are gone, but still in the trigrams, before it is worth making all anew."""


def all_known(database: "sqlite3.Connection") -> dict[str, Known]:
    """What the index knows, by folder.

    Raises:
        sqlite3.DatabaseError: it holds what nobody wrote.
    """
    import sqlite3

    rows = database.execute(f"SELECT {_COLUMNS} FROM sessions")  # noqa: S608 (names of ours)
    found = [Known(*sound(row, _TYPES)) for row in rows]
    if not all(is_place(known.folder) and is_moment(known.updated) for known in found):
        raise sqlite3.DatabaseError("not what was written")
    return {known.folder: known for known in found}


def give_up(database: "sqlite3.Connection") -> None:
    """Raises sqlite3.DatabaseError: an index that takes nothing in is of no use, though it reads well."""
    import sqlite3

    raise sqlite3.DatabaseError("it takes nothing in")


def add(database: "sqlite3.Connection", pieces: Sequence[Piece]) -> int:
    """Take these pieces in, all or none; how many were refused, because another process was quicker."""
    refused = 0
    trigrams = has_trigrams(database)
    with transaction(database):
        for piece in pieces:
            row = database.execute(
                "SELECT id, taken, mark FROM sessions WHERE folder = ?", (piece.before.folder,)
            ).fetchone()
            session, taken, mark = row or (None, 0, b"")
            if (taken, mark) != (piece.before.taken, piece.before.mark):
                refused += 1
                continue
            if piece.anew and session is not None:
                _empty(database, session)
            _add_said(database, piece, _put(database, piece.after), trigrams)
    return refused


def _put(database: "sqlite3.Connection", known: Known) -> int:
    updates = ", ".join(f"{name} = excluded.{name}" for name in _FIELDS)
    holes = ", ".join("?" * len(_FIELDS))
    database.execute(
        f"INSERT INTO sessions ({_COLUMNS}) VALUES ({holes}) ON CONFLICT (folder) DO UPDATE SET {updates}",  # noqa: S608 (names of ours)
        astuple(known),
    )
    [session] = database.execute("SELECT id FROM sessions WHERE folder = ?", (known.folder,)).fetchone()
    return int(session)


def _add_said(database: "sqlite3.Connection", piece: Piece, session: int, trigrams: bool) -> None:
    if not piece.said:
        return
    first = _new_block(database, piece, session) << BLOCK_BITS
    database.executemany(
        "INSERT INTO entries (id, entry, kind, offset) VALUES (?, ?, ?, ?)",
        [(first + nth, said.index, said.kind, said.offset) for nth, said in enumerate(piece.said)],
    )
    if trigrams:
        database.executemany(
            "INSERT INTO said (rowid, text) VALUES (?, ?)",
            ((first + nth, said.text + PADDING) for nth, said in enumerate(piece.said)),
        )


def _new_block(database: "sqlite3.Connection", piece: Piece, session: int) -> int:
    """A number for a block, never used before: its time, or the next that is free."""
    at = min(max(piece.second, 0), 2**40)
    [block] = database.execute(
        "SELECT :at WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE id = :at) UNION ALL "
        "SELECT id + 1 FROM blocks AS taken WHERE id >= :at "
        "AND NOT EXISTS (SELECT 1 FROM blocks WHERE id = taken.id + 1) LIMIT 1",
        {"at": at},
    ).fetchone()
    database.execute(
        "INSERT INTO blocks (id, session, said) VALUES (?, ?, ?)", (block, session, len(piece.said))
    )
    return int(block)


def move(database: "sqlite3.Connection", moved: Sequence[tuple[str, str]]) -> None:
    """Sessions that were archived, or taken back, from one folder to another."""
    with transaction(database):
        for before, after in moved:
            database.execute("UPDATE OR IGNORE sessions SET folder = ? WHERE folder = ?", (after, before))


def remove(database: "sqlite3.Connection", folders: Sequence[str]) -> None:
    """Sessions that are gone."""
    with transaction(database):
        for folder in folders:
            row = database.execute("SELECT id FROM sessions WHERE folder = ?", (folder,)).fetchone()
            if row is not None:
                _empty(database, row[0])
                database.execute("DELETE FROM sessions WHERE id = ?", row)


def _empty(database: "sqlite3.Connection", session: int) -> None:
    """Nothing of this session is found any more. Its trigrams stay: only its text could take them out."""
    for (block,) in database.execute("SELECT id FROM blocks WHERE session = ?", (session,)).fetchall():
        first = block << BLOCK_BITS
        database.execute("DELETE FROM entries WHERE id >= ? AND id < ?", (first, first + (1 << BLOCK_BITS)))
    database.execute("UPDATE blocks SET session = NULL WHERE session = ?", (session,))


def clear_if_mostly_dead(database: "sqlite3.Connection") -> bool:
    """Empty the index where more of its trigrams belongs to what is gone than to what is there."""
    with transaction(database):
        dead, alive = database.execute(
            "SELECT coalesce(sum(said) FILTER (WHERE session IS NULL), 0), "
            "coalesce(sum(said) FILTER (WHERE session IS NOT NULL), 0) FROM blocks"
        ).fetchone()
        if dead < max(alive, _DEAD_AT_LEAST):
            return False
        for table in ("sessions", "blocks", "entries"):
            database.execute(f"DELETE FROM {table}")  # noqa: S608 (a name of ours)
        if has_trigrams(database):
            database.execute("INSERT INTO said (said) VALUES ('delete-all')")
        return True
