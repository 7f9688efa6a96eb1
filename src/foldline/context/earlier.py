"""A history as it was: the first so many entries of a longer one, folded without a copy of its text."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Self, overload

from foldline.protocol import AssistantMessage, BaseMessage, Compaction, Entry, Revert, ToolCallPart

from .history_entries import Entries
from .outline import MessageOutline
from .projection import Projection

SLICE: Final = 1_000
"""Entries folded between two breaths: about 6 ms."""


class Earlier(Entries):
    """The first entries of a longer history, read where they are kept. It only grows towards the whole."""

    def __init__(self, whole: Entries, length: int = 0) -> None:
        self._whole = whole
        self.outlines = whole.outlines[:length]

    def lengthen(self, length: int) -> None:
        """Take in the entries up to this length."""
        self.outlines += self._whole.outlines[len(self.outlines) : length]

    def append(self, entry: Entry) -> None:
        raise ValueError("what was cannot be added to")

    def message(self, outline: MessageOutline) -> BaseMessage:
        return self._whole.message(outline)

    def __len__(self) -> int:
        return len(self.outlines)

    def __iter__(self) -> Iterator[Entry]:
        return (self._whole[position] for position in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, int):
            return self._whole[range(len(self))[place]]
        start, stop, step = place.indices(len(self))
        if step > 0:
            return self._whole[start : max(start, stop) : step]
        return [self._whole[position] for position in range(start, stop, step)]

    def __copy__(self) -> Self:
        return type(self)(self._whole, len(self))


def nothing_of(whole: Entries) -> Projection:
    """The fold of none of these entries: where `fold_on` starts."""
    return Projection(Earlier(whole))


def fold_on(projection: Projection, length: int) -> Iterator[None]:
    """Fold a projection over `Earlier` entries up to this length, a slice at a time. In between it is the
    true fold of what it holds."""
    earlier = projection.entries
    assert isinstance(earlier, Earlier), "only what was grows without an append"
    while len(earlier) < length:
        earlier.lengthen(min(len(earlier) + SLICE, length))
        projection.follow()
        yield


def original(entry: Entry, *, without_calls: Collection[str] = ()) -> str | None:
    """The text of a message, of a fold's summary or of the message a rewind carries; None for other entries.

    Nothing is shortened. Calls of the tools in `without_calls` are left out.
    """
    match entry:
        case AssistantMessage():
            calls = [call for call in entry.calls if call.name not in without_calls]
            return "\n".join(_answer(entry, calls))
        case BaseMessage():
            return entry.text
        case Compaction():
            return entry.summary
        case Revert():
            return entry.message
        case _:
            return None


def _answer(message: AssistantMessage, calls: Collection[ToolCallPart]) -> Iterator[str]:
    if message.thinking:
        yield f"[thinking]\n{message.thinking}"
    if message.text:
        yield f"[answer]\n{message.text}" if message.thinking else message.text
    for call in calls:
        yield _call(call)


def _call(call: ToolCallPart) -> str:
    arguments = call.parsed()
    if not arguments:
        return f"[call {call.name}]\n{call.arguments}"
    return "\n".join([f"[call {call.name}]", *(_argument(*item) for item in arguments.items())])


def _argument(name: str, value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}"
