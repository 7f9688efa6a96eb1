"""The entries of a history, as a projection reads them: any of them at any time, wherever they are kept."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Self, overload

from foldline.protocol import BaseMessage, Compaction, Entry

from .outline import MessageOutline, Outline, outline_of


class Entries(Sequence[Entry]):
    """Entries in index order, each with its outline. The projection appends; others only read.

    It equals any sequence of equal entries.
    """

    outlines: list[Outline]
    """The outline of each entry, in the same order."""

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Add the next entry, and its outline.

        Raises:
            ValueError: its index is not above those that are there.
        """

    @abstractmethod
    def message(self, outline: MessageOutline) -> BaseMessage:
        """The message that this is the outline of; of a fold, that which it wrote."""

    @abstractmethod
    def __copy__(self) -> Self:
        """The same entries, to append others to."""

    def _comes_next(self, entry: Entry) -> None:
        if self.outlines and entry.index <= self.outlines[-1].index:
            raise ValueError(f"entry {entry.index} does not come after entry {self.outlines[-1].index}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == yours for mine, yours in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


def message_in(entry: Entry, outline: MessageOutline) -> BaseMessage:
    """The message of this outline: the entry itself, or what it wrote where it is a fold."""
    if isinstance(entry, Compaction):
        message = entry.written[outline.nth].message
        return message.model_copy(update={"index": outline.index, "nth": outline.nth})
    assert isinstance(entry, BaseMessage), "an outline of a message is of a message"
    return entry


class HeldEntries(Entries):
    """Entries that are simply in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.outlines = []
        self._entries: list[Entry] = []
        self._by_index: dict[int, Entry] = {}
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        self._comes_next(entry)
        self._entries.append(entry)
        self._by_index[entry.index] = entry
        self.outlines.append(outline_of(entry))

    def message(self, outline: MessageOutline) -> BaseMessage:
        return message_in(self._by_index[outline.index], outline)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __reversed__(self) -> Iterator[Entry]:
        return reversed(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._entries[place]

    def __copy__(self) -> Self:
        other = type(self)()
        other.outlines = list(self.outlines)
        other._entries = list(self._entries)
        other._by_index = dict(self._by_index)
        return other
