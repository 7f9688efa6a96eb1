"""The lines of an event file, one after the other: which of them are entries, and which are damaged.

All that read a session read it with this, from the beginning or from where they stopped.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from foldline.protocol import Entry, parse_entry

WHITE = b" \t\r\n"
BLANK = WHITE + b"\0"
"""What may stand around a record: white space, and the NULs of a disk that lost its contents."""
_INDEX_OF_TORN = re.compile(rb'\{"type":"[^"]*","index":(\d{1,12})[,}]')
"""The index at the start of a record as `dump_entry` writes it: readable although the rest is torn."""


class ByteRange(NamedTuple):
    """Where a record stands in its file, in bytes."""

    offset: int
    length: int


class Found(NamedTuple):
    entry: Entry
    place: ByteRange


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an event file was read, and what must be remembered of that to continue."""

    upto: int
    """Bytes."""
    lines: int
    """How many lines these are, the header included."""
    last: int = -1
    """Index of the newest entry."""
    taken: int = -1
    """The highest index that is taken, damaged records included."""
    damaged: tuple[int, ...] = ()
    """The lines that were left out, or of which something was; the first is 1."""


class LineReader:
    """Takes the lines behind `since` in order; a last one without a line end, too."""

    def __init__(self, since: Progress) -> None:
        self._upto, self._lines = since.upto, since.lines
        self._last, self._taken = since.last, since.taken
        self._damaged = list(since.damaged)

    @property
    def progress(self) -> Progress:
        return Progress(self._upto, self._lines, self._last, self._taken, tuple(self._damaged))

    def take(self, line: bytes) -> Found | None:
        """The entry on this line; None where it is blank or damaged."""
        begin, self._upto, self._lines = self._upto, self._upto + len(line), self._lines + 1
        record = line.strip(BLANK)
        if not record:
            if b"\0" in line:
                self._damaged.append(self._lines)
            return None
        entry = entry_in(record)
        whole = entry is not None and entry.index > self._last
        if not whole or len(record) < len(line.strip(WHITE)):
            self._damaged.append(self._lines)
        if entry is None:
            # A record was begun here. Its index is never used again, though the record is lost.
            begun = _INDEX_OF_TORN.match(record)
            self._taken = max(self._taken, int(begun[1]) if begun else self._last + 1)
        if entry is None or not whole:
            return None
        self._last = entry.index
        self._taken = max(self._taken, entry.index)
        return Found(entry, ByteRange(begin + len(line) - len(line.lstrip(BLANK)), len(record)))


def entry_in(record: bytes) -> Entry | None:
    """The entry a record is; None where it is damaged."""
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        return None
