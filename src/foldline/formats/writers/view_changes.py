"""A history followed as its view grows and turns, for writers whose format has rules of its own for a view.

System prompts and instruction files are beside the view here: other agents bring their own.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.view import IN_VIEW, is_preamble, is_summary
from foldline.context.view_state import unmarked
from foldline.protocol import (
    Approval,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Subagent,
    Title,
    Undo,
)

Record = dict[str, Any]
"""A line of JSON that a writer puts together."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The view has one message more, at its end."""

    message: BaseMessage


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The view is another now, or may be."""

    view: list[BaseMessage]
    compaction: Compaction | None
    """The one whose summary opens it, if one does."""


@dataclass(frozen=True, slots=True)
class Unrelated:
    """An entry that is not in the view, and changes nothing in it."""

    entry: Entry


def view_changes(entries: Iterable[Entry]) -> Iterator[Appended | ViewChanged | Unrelated]:
    """What each entry does to the view, in order. Markers in a row that are no compactions are one turn."""
    projection = Projection()
    turned = False
    for entry in entries:
        projection.append(entry)
        match entry:
            case Compaction():
                yield _changed(projection)
                turned = False
            case Undo() | Clear() | Edit() | Revert():
                turned = True
            case BaseMessage() if is_preamble(entry):
                yield Unrelated(entry)
            case BaseMessage() if projection.view and projection.view[-1].index == entry.index:
                if turned:
                    yield _changed(projection, without_last=True)
                    turned = False
                yield Appended(entry)
            case BaseMessage() if projection.fate(entry.index).kind in IN_VIEW:
                turned = True  # a late result, which stands with its call
            case _:
                yield Unrelated(entry)
    if turned:
        yield _changed(projection)


def _changed(projection: Projection, *, without_last: bool = False) -> ViewChanged:
    items = projection.view[:-1] if without_last else projection.view
    view = [unmarked(item).message for item in items if not is_preamble(item.message)]
    compaction = projection.entry(view[0].index) if view and is_summary(view[0]) else None
    return ViewChanged(view, compaction if isinstance(compaction, Compaction) else None)


def same(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether two messages of views are the same item with the same content."""
    return one is other or (one.key == other.key and one.type == other.type and one.parts == other.parts)


def common_start(one: Sequence[BaseMessage], other: Sequence[BaseMessage]) -> int:
    """How many messages two views share at their beginning."""
    length = 0
    while length < min(len(one), len(other)) and same(one[length], other[length]):
        length += 1
    return length


def record_line(record: Record) -> bytes:
    """A record as a line of a JSONL file. Half characters, which UTF-8 cannot hold, stay escaped."""
    try:
        return json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


_NAMES: tuple[tuple[type[Entry], str, str], ...] = (
    (BaseMessage, "message that is in no view", "messages that are in no view"),
    (RequestRecord, "record of a request", "records of requests"),
    (Checkpoint, "checkpoint", "checkpoints"),
    (NoticeRecord, "notice", "notices"),
    (Approval, "approval", "approvals"),
    (Subagent, "reference to a subagent's session", "references to subagents' sessions"),
    (Title, "title", "titles"),
    (ModelChange, "change of the model", "changes of the model"),
    (Entry, "record of another kind", "records of other kinds"),
)


def left_out(entries: Iterable[Entry], title: str) -> tuple[str, ...]:
    """A sentence that counts the entries for which a format has no place; none where there are none."""
    counts = Counter(next(row for row in _NAMES if isinstance(entry, row[0])) for entry in entries)
    if not counts:
        return ()
    kinds = [many(counts[row], *row[1:]) for row in _NAMES if counts[row]]
    return (f"{title} has no place for {', '.join(kinds)}: left out.",)
