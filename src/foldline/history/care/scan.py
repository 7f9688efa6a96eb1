"""An event file line by line: which records are whole, and why the others are not. Pure.

Reads exactly what opening the session reads, without a header, too, and says why the rest is left out.
"""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from foldline.history.reading.lines import LineReader, Progress
from foldline.protocol import NEW, Entry, SessionHeader, parse_entry

_BLANK = b" \t\r\n"
_NO_INDEX = "is no record with an index"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an event file, blank ones and what stands in place of the header apart."""

    number: int
    """The first line of the file is 1."""
    record: bytes
    """What it holds, without the NULs and blanks around it."""
    entry: Entry | None
    """The record, where it is whole and comes in order."""
    fault: str = ""
    """What is wrong with it, as the end of "line 3 …"; a record among NULs is whole all the same."""


@dataclass(frozen=True, slots=True)
class Scan:
    """All there is in an event file."""

    header: SessionHeader | None
    """The first line; None where it is not the header of a session of ours."""
    first: bytes
    """The first line as it stands, without its line end."""
    lines: tuple[Line, ...]
    taken: int
    """The highest index that is taken, records that are lost included; -1 where none is."""
    ends: bool
    """Whether the last line has a line end."""

    @property
    def entries(self) -> list[Entry]:
        return [line.entry for line in self.lines if line.entry is not None]

    @property
    def damaged(self) -> list[Line]:
        return [line for line in self.lines if line.fault]


def scan(data: bytes) -> Scan:
    """What an event file with this content holds."""
    file = io.BytesIO(data)
    first = file.readline()
    header = _header(first)
    if header is None and isinstance(_read(first.strip(b"\0" + _BLANK)), Entry):
        file.seek(0)  # the header is gone altogether
    behind = Progress(upto=file.tell(), lines=1 if file.tell() else 0)
    reader = LineReader(behind)
    lines = tuple(_lines(file, behind.lines, reader))
    return Scan(header, first.rstrip(b"\n"), lines, reader.progress.taken, data.endswith(b"\n"))


def _lines(file: Iterable[bytes], before: int, reader: LineReader) -> Iterator[Line]:
    last, seen = NEW, set[int]()
    for number, text in enumerate(file, start=before + 1):
        found = reader.take(text)
        content = text.strip(_BLANK)
        record = content.strip(b"\0" + _BLANK)
        if found is not None:
            last = found.entry.index
            seen.add(last)
            yield Line(number, record, found.entry, "stands among NULs" if len(record) < len(content) else "")
        elif not record:
            if content:
                yield Line(number, record, None, f"holds {len(content):,} NULs, nothing else")
        else:
            fault = "is cut off" if not text.endswith(b"\n") else _why(record, last, seen)
            yield Line(number, record, None, fault)


def _why(record: bytes, last: int, seen: set[int]) -> str:
    """Why a record behind the entry `last` was not taken."""
    match _read(record):
        case Entry(index=index) if index != NEW:
            return (
                f"holds entry {index}, which {'is there already' if index in seen else f'comes after {last}'}"
            )
        case str(fault):
            return fault
        case _:
            return _NO_INDEX


def _read(record: bytes) -> Entry | str:
    """The entry a record is, or why it is none."""
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        pass
    try:
        json.loads(record.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except RecursionError:
        return "is nested too deep"
    except ValueError:
        return "is not whole JSON"
    return _NO_INDEX


def _header(line: bytes) -> SessionHeader | None:
    try:
        header = SessionHeader.model_validate_json(line.rstrip(b"\n"))
    except ValidationError:
        return None
    return header if header.version >= 1 else None


def gaps(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    """The indices below the newest that no entry has, as ranges with both ends included."""
    expected = 0
    for entry in entries:
        if entry.index > expected:
            yield expected, entry.index - 1
        expected = entry.index + 1
