"""The tables of an index: places and outlines of some entries in columns, as JSON, and back.

In columns, because that is what is quick to read: a field that says the same of all entries of a kind is left
out or stands once, and a column becomes outlines without a line of Python for each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add, le
from sys import intern
from typing import Any, Literal

from foldline.context.outline import (
    Aside,
    FoldOutline,
    Lasting,
    MessageOutline,
    Outline,
    Reported,
    RequestOutline,
    outline_of,
)
from foldline.protocol import FileTouch, dump_entry, parse_entry

from .lines import Place

Table = dict[str, Any]
"""`kinds` of the entries in order, the `offsets` and `lengths` of their records, and columns for each kind.

A kind is a message's type, or `request`, `aside`, `marker`. A column is a list, or one value for all of them.
"""

_SHORT = 2_000
"""Bytes of a marker that is written into its table; longer ones and folds are read from the session file."""
_MESSAGES = ("system", "developer", "user", "assistant", "tool_result")


def table_of(outlines: Sequence[Outline], places: Sequence[Place]) -> Table:
    kinds = list(map(_kind, outlines))
    table: Table = {
        "kinds": kinds,
        "offsets": [place.offset for place in places],
        "lengths": [place.length for place in places],
    }
    for kind in dict.fromkeys(kinds):
        mine = [place for place, other in enumerate(kinds) if other == kind]
        table[kind] = _columns(kind, [outlines[nth] for nth in mine], [places[nth] for nth in mine])
    return table


def places_in(table: Table, begin: int, end: int) -> Iterator[Place]:
    """Where the entries of a table stand: one behind the other, within these bytes of the session file.

    Raises:
        ValueError, TypeError, LookupError: they do not, or it is no such table.
    """
    offsets, lengths = table["offsets"], table["lengths"]
    _check("index", [*offsets, *lengths])
    ends = list(map(add, offsets, lengths))
    is_whole = len(offsets) == len(lengths) and all(map(le, offsets, ends))
    if not is_whole or not all(map(le, [begin, *ends], [*offsets, end])):
        raise ValueError("places that no session file has")
    return map(Place, offsets, lengths)


def outlines_in(table: Table, read: Callable[[Place], bytes]) -> Iterator[Outline]:
    """The outlines a table holds, in order; `read` gives what the session file holds at a place.

    Raises:
        ValueError, TypeError, LookupError: it is no such table, or not of this file.
    """
    kinds = table["kinds"]
    places = zip(kinds, table["offsets"], table["lengths"], strict=True)
    markers = [Place(offset, length) for kind, offset, length in places if kind == "marker"]
    made = {kind: _outlines(kind, table[kind], kinds.count(kind), markers, read) for kind in set(kinds)}
    return (next(made[kind]) for kind in kinds)


def _kind(outline: Outline) -> str:
    match outline:
        case MessageOutline():
            return outline.type
        case RequestOutline():
            return "request"
        case Aside():
            return "aside"
        case _:
            return "marker"


def _columns(kind: str, outlines: Sequence[Any], places: Sequence[Place]) -> Table:
    if kind == "marker":
        texts = [_marker_text(each, place) for each, place in zip(outlines, places, strict=True)]
        return {"index": [each.index for each in outlines], "text": texts}
    columns = {}
    for field in _class_of(kind)._fields:
        pack = _PACKED.get(field, _as_it_is)
        column = [pack(getattr(outline, field)) for outline in outlines]
        alike = len(column) > 1 and field != "index" and column.count(column[0]) == len(column)
        columns[field] = [column[0]] * alike or column
    return columns


def _outlines(
    kind: str, columns: Table, count: int, markers: Sequence[Place], read: Callable[[Place], bytes]
) -> Iterator[Any]:
    if kind == "marker":
        rows = zip(columns["index"], columns["text"], markers, strict=True)
        return iter([_marker(index, read(place) if text is None else text) for index, text, place in rows])
    made = _class_of(kind)
    if made is MessageOutline and set(columns["type"]) != {kind}:
        raise ValueError(f"not of the type {kind}")
    return map(
        made._make, zip(*(_column(field, columns[field], count) for field in made._fields), strict=True)
    )


def _column(field: str, column: list[Any], count: int) -> Iterable[Any]:
    unpack = _UNPACKED.get(field)
    if not isinstance(column, list):
        raise TypeError(f"{field} is no column")
    values = column if unpack is None else list(map(unpack, column))
    _check(field, values)
    if len(values) == 1:
        return repeat(values[0], count)
    if len(values) != count:
        raise ValueError(f"{len(values)} values of {field} for {count} entries")
    return values


def _marker_text(marker: FoldOutline | Lasting, place: Place) -> str | None:
    if isinstance(marker, FoldOutline) or place.length > _SHORT:
        return None
    return dump_entry(marker).decode()


def _marker(index: int, record: bytes | str) -> FoldOutline | Lasting:
    marker = outline_of(parse_entry(record))
    if not isinstance(marker, FoldOutline | Lasting) or marker.index != index:
        raise ValueError(f"not the marker that was entry {index}")
    return marker


def _class_of(kind: str) -> type[MessageOutline] | type[RequestOutline] | type[Aside]:
    if kind in _MESSAGES:
        return MessageOutline
    return {"request": RequestOutline, "aside": Aside}[kind]


# --- fields that JSON does not hold as they are ----------------------------------------------------------


def _as_it_is(value: Any) -> Any:
    return value


def _touch_rows(touches: Iterable[FileTouch]) -> list[list[Any]]:
    return [[touch.path, touch.action, touch.added, touch.removed] for touch in touches]


def _touches(rows: Iterable[list[Any]]) -> tuple[FileTouch, ...]:
    return tuple(_touch(*row) for row in rows)


@lru_cache(maxsize=4096)
def _touch(path: str, action: Literal["read", "modified"], added: int, removed: int) -> FileTouch:
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _reported(usage: Sequence[int] | None) -> Reported | None:
    if usage is not None:
        _check("tokens", usage)
    return None if usage is None else Reported._make(usage)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    _check("name", names)
    return tuple(names)


def _check(field: str, values: Sequence[Any]) -> None:
    """Raises TypeError or ValueError where these are no values of this field: whoever made the index, what it
    says must be of the kind that the fold reckons with."""
    kinds = set(map(type, values))
    if not kinds <= _KINDS.get(field, _NUMBER):
        raise TypeError(f"{field} holds something else")
    if int in kinds and not -1 <= min(values) <= max(values) < _ENDLESS:
        raise ValueError(f"{field} is beyond all bounds")


_ENDLESS = 2**53
_NUMBER: frozenset[type] = frozenset({int})
_TEXT: frozenset[type] = frozenset({str})
_KINDS: dict[str, frozenset[type]] = {
    "type": _TEXT,
    "origin": _TEXT,
    "call_id": _TEXT,
    "name": _TEXT,
    "dialect": _TEXT,
    "model": frozenset({str, type(None)}),
    "says": frozenset({bool}),
    "failed": frozenset({bool}),
    "touches": frozenset({tuple}),
    "calls": frozenset({tuple}),
    "usage": frozenset({Reported, type(None)}),
}
"""Of the fields that are no numbers."""


_PACKED: dict[str, Callable[[Any], Any]] = {"touches": _touch_rows}
_UNPACKED: dict[str, Callable[[Any], Any]] = {
    "type": intern,
    "name": intern,
    "touches": _touches,
    "calls": _names,
    "usage": _reported,
}
