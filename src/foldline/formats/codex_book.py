"""The entries of a Codex session so far, by index, and the view they make up."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from foldline.protocol import BaseMessage, Entry

from .base import JsonObject, as_list, as_object, as_text
from .foreign_view import ForeignView


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the file."""

    position: int
    kind: str
    payload: JsonObject
    record: JsonObject
    at: datetime | None

    def is_event(self, name: str) -> bool:
        return self.kind == "event_msg" and self.payload.get("type") == name


def told_in(row: Row, event: str, item: str) -> tuple[str, ...]:
    """The texts of a message as the interface was told of it: whole, then piece by piece.

    Since 0.145, paginated sessions have it in an `item_completed` in place of an event of its own.
    """
    if row.is_event(event):
        return (as_text(row.payload.get("message")),)
    told = as_object(row.payload.get("item")) if row.is_event("item_completed") else {}
    if told.get("type") != item:
        return ()
    pieces = [as_text(as_object(piece).get("text")) for piece in as_list(told.get("content"))]
    return ("".join(pieces), *pieces)


@dataclass
class Book:
    entries: dict[int, Entry] = field(default_factory=dict)
    view: ForeignView = field(default_factory=ForeignView)
    _shift: int = 0
    _last: int = -1

    def next_index(self, row: Row) -> int:
        """An index for one more entry of this row: its place in the file, as far as that is still free."""
        if row.position + self._shift <= self._last:
            self._shift = self._last + 1 - row.position
        self._last = row.position + self._shift
        return self._last

    def add(self, row: Row, entry: Entry) -> int:
        index = self.next_index(row)
        self.put(index, row.at, entry)
        return index

    def put(self, index: int, at: datetime | None, entry: Entry) -> None:
        """Add an entry at an index taken before."""
        entry = self.entries[index] = entry.model_copy(update={"index": index, "at": at})
        if isinstance(entry, BaseMessage):
            self.view.add(entry)

    def change(self, index: int, **update: Any) -> None:
        self.entries[index] = self.entries[index].model_copy(update=update)

    def in_order(self) -> list[Entry]:
        return [self.entries[index] for index in sorted(self.entries)]
