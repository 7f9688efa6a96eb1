"""The rows of an index: an entry's place and outline as a short JSON array, and back."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, Literal

from foldline.context.outline import Aside, Lasting, MessageOutline, Outline, Reported, RequestOutline
from foldline.protocol import FileTouch, dump_entry, parse_entry

from .lines import Place

Row = list[Any]
"""`[offset, length, index, kind, …]`; what follows depends on the kind; defaults at its end are left out."""

_SHORT = 2_000
"""Bytes of a marker that is written into its row; a longer one is read from the session file."""
_PLAIN = MessageOutline(index=0, type="", tokens=0)
_MESSAGES = {kind: kind for kind in ("system", "developer", "user", "assistant", "tool_result")}
_TOUCHES, _CALLS, _USAGE, _NAME = map(MessageOutline._fields.index, ("touches", "calls", "usage", "name"))


def row_of(outline: Outline, place: Place) -> Row:
    match outline:
        case MessageOutline():
            fields: Row = list(outline)
            fields[_TOUCHES] = [_touch_row(touch) for touch in outline.touches]
            while fields and fields[-1] == _default(len(fields) - 1):
                fields.pop()
            return [*place, *fields]
        case RequestOutline():
            index, *fields = outline
            return [*place, index, "request", *fields]
        case Aside():
            return [*place, outline.index, "aside"]
        case _:
            text = dump_entry(outline).decode() if place.length <= _SHORT else None
            return [*place, outline.index, "marker", text]


def outline_in(row: Row, read: Callable[[Place], bytes]) -> Outline:
    """The outline a row holds; `read` gives what the session file holds at a place.

    Raises:
        ValueError, TypeError, LookupError: it is no such row, or not of this file.
    """
    kind = row[3]
    if kind in _MESSAGES:
        fields = row[2:]
        fields[1] = _MESSAGES[kind]
        if len(fields) > _NAME:
            fields[_NAME] = intern(fields[_NAME])
        if len(fields) > _TOUCHES:
            fields[_TOUCHES] = tuple(_touch(*touch) for touch in fields[_TOUCHES])
            if len(fields) > _CALLS:
                fields[_CALLS] = tuple(fields[_CALLS])
                if len(fields) > _USAGE:
                    fields[_USAGE] = _reported(fields[_USAGE])
        return MessageOutline(*fields)
    if kind == "request":
        _, _, index, _, model, dialect, estimated, usage, failed = row
        return RequestOutline(index, model, dialect, estimated, _reported(usage), failed)
    if kind == "aside":
        return Aside(row[2])
    if kind != "marker":
        raise ValueError(f"no kind of entry: {kind}")
    entry = parse_entry(read(Place(row[0], row[1])) if row[4] is None else row[4])
    if not isinstance(entry, Lasting) or entry.index != row[2]:
        raise ValueError(f"not the marker that was entry {row[2]}")
    return entry


def _default(position: int) -> object:
    default = _PLAIN[position]
    return [] if position == _TOUCHES else default


def _touch_row(touch: FileTouch) -> Row:
    changed = [touch.added, touch.removed] if touch.added or touch.removed else []
    return [touch.path, touch.action, *changed]


@lru_cache(maxsize=4096)
def _touch(path: str, action: Literal["read", "modified"], added: int = 0, removed: int = 0) -> FileTouch:
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _reported(usage: Sequence[int] | None) -> Reported | None:
    return None if usage is None else Reported._make(usage)
