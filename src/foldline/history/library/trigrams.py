"""What a query looks like to an FTS5 index that knows only which trigrams an entry holds.

Such an index knows nothing of their order: it gives candidates, among them all that match. Terms below three
characters are looked up among the trigrams that begin with them; so that those at the end of a text are
found, what is indexed ends in `PADDING`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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
