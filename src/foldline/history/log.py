"""A session's event file.

Reads all undamaged records, and appends records without damaging them.
"""

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from foldline.data import EVENTS
from foldline.files import create_private, make_private, open_own, read_regular
from foldline.protocol import (
    Entry,
    FoldlineError,
    SessionHeader,
    dump_entry,
    parse_entry,
    system_words,
)
from foldline.text.numbers import some

from .lock import WriterLock

FORMAT_VERSION = 1
NO_FILE = "There is no session file {path}."
EMPTY_FILE = "{path} is empty, and was not changed."
NOT_A_SESSION = (
    "{path} does not begin with the header of a Foldline session, and was not changed."
)
IMPORT_HINT = "`foldline import {path}` copies the readable part."
DOCTOR_HINT = "`foldline doctor {id}` shows the details."
NEWER_FORMAT = (
    "{path} was written by a newer version of Foldline (format {version}; this version supports "
    f"{FORMAT_VERSION}), and was not changed."
)
CHANGED_ON_DISK = (
    "Another process has continued the session {session} since it was opened here. Open it again to "
    "continue."
)
CANNOT_BE_WRITTEN = (
    "The session cannot be written ({reason}): its folder is {folder}. Set FOLDLINE_HOME to store new "
    "sessions elsewhere."
)
NOT_CONFIRMED = "{path} was written, but the disk did not confirm it ({reason})."
NOTHING_ON_DISK = "Nothing of this session is on disk"
NOTHING_AFTER = "Nothing after entry {index} is on disk"


# --- lines of an event file ------------------------------------------------------------------------------

WHITE = b" \t\r\n"
BLANK = WHITE + b"\0"
"""Bytes around a record that are ignored.

These are white space, and NULs left by a disk that lost data.
"""
_TORN_INDEX = re.compile(rb'\{"type":"[^"]*","index":(\d{1,12})[,}]')
"""Matches the index at the start of a record written by `dump_entry`.

The record may be incomplete.
"""


class ByteRange(NamedTuple):
    """Start and end of a record in its file, as byte offsets."""

    offset: int
    length: int


class LocatedEntry(NamedTuple):
    """An entry and its byte range in the file."""

    entry: Entry
    place: ByteRange


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an event file has been read, so that reading can continue."""

    upto: int
    """Number of bytes read."""
    lines: int
    """Number of lines read, including the header."""
    last: int = -1
    """Index of the newest entry."""
    taken: int = -1
    """Highest index in use, including those of damaged records."""
    damaged: tuple[int, ...] = ()
    """Numbers of damaged lines, counted from 1."""


class LineReader:
    """Reads the lines that follow `start`, in order.

    This includes a last line without a line end.
    """

    def __init__(self, start: Progress) -> None:
        self._upto = start.upto
        self._lines = start.lines
        self._last = start.last
        self._taken = start.taken
        self._damaged = list(start.damaged)

    @property
    def progress(self) -> Progress:
        return Progress(
            upto=self._upto,
            lines=self._lines,
            last=self._last,
            taken=self._taken,
            damaged=tuple(self._damaged),
        )

    def take(self, line: bytes) -> LocatedEntry | None:
        """Return the entry on the next line.

        Returns None if the line is blank or damaged.
        """
        begin = self._upto
        self._upto += len(line)
        self._lines += 1
        record = line.strip(BLANK)
        if not record:
            if b"\0" in line:
                self._damaged.append(self._lines)
            return None
        entry = entry_in(record)
        is_next = entry is not None and entry.index > self._last
        has_nuls = len(record) < len(line.strip(WHITE))
        if not is_next or has_nuls:
            self._damaged.append(self._lines)
        if entry is None:
            # The index of a lost record is never reused.
            match = _TORN_INDEX.match(record)
            index = int(match[1]) if match else self._last + 1
            self._taken = max(self._taken, index)
        if entry is None or not is_next:
            return None
        self._last = entry.index
        self._taken = max(self._taken, entry.index)
        blank_bytes = len(line) - len(line.lstrip(BLANK))
        offset = begin + blank_bytes
        return LocatedEntry(entry, ByteRange(offset, len(record)))


def entry_in(record: bytes) -> Entry | None:
    """Parse a record.

    Returns None if the record is damaged.
    """
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        return None


# --- reading a log --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damage:
    """The damaged records in a file.

    Damaged records are excluded from the history, but stay in the file.
    """

    lines: tuple[int, ...] = ()
    """Numbers of damaged lines, counted from 1."""

    @property
    def count(self) -> int:
        return len(self.lines)

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        """Format as `2 damaged records (lines 3, 9) were left out`.

        Returns an empty string if there is no damage.
        """
        if not self.lines:
            return ""
        numbers = some([str(line) for line in self.lines])
        if self.count == 1:
            return f"1 damaged record (line {numbers}) was left out"
        return f"{self.count} damaged records (lines {numbers}) were left out"


NO_DAMAGE = Damage()


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The content of an event file."""

    header: SessionHeader
    entries: list[Entry]
    """All undamaged entries in index order, including those of unknown types."""
    damage: Damage
    last_index: int
    """Highest index in use, including those of damaged records.

    -1 in an empty history.
    """
    size: int
    """Size of the file, in bytes."""
    torn: bool
    """Whether the last line has no line end.

    If so, the next append adds one.
    """


class WriteFailed(FoldlineError):
    """Raised if an append could not be written to disk completely.

    `written` is the number of written entries, and `places` are their byte ranges.
    """

    def __init__(
        self, sentence: str, written: int, places: Sequence[ByteRange] = ()
    ) -> None:
        super().__init__(sentence)
        self.written = written
        self.places = places


def our_header(line: bytes) -> SessionHeader | None:
    """Parse the first line of a Foldline session of any version.

    Returns None for other lines.
    """
    try:
        header = SessionHeader.model_validate_json(line.rstrip(b"\n"))
    except ValidationError:
        return None
    return header if header.version >= 1 else None


def is_our_header(line: bytes) -> bool:
    """Return whether this is the first line of a Foldline session."""
    return our_header(line) is not None


def read_log(path: Path) -> LoadedLog:
    """Read all undamaged records of an event file.

    Raises:
        FoldlineError: the file cannot be read, or is not a Foldline session.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise cannot_be_read(path, error) from None
    return parse_log(data, path)


def cannot_be_read(path: Path, error: OSError) -> FoldlineError:
    """Return the error for an event file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return FoldlineError(NO_FILE, path=path)
    reason = system_words(error)
    return FoldlineError(f"The session file {path} cannot be read: {reason}.")


def parse_log(data: bytes, path: Path) -> LoadedLog:
    """Parse the bytes of an event file, as `read_log` does.

    Args:
        path: path of the file, as named in error messages.
    """
    lines = io.BytesIO(data)
    header_line = lines.readline()
    header = parse_header(header_line.rstrip(b"\n"), path)
    reader = LineReader(Progress(upto=len(header_line), lines=1))
    located = map(reader.take, lines)
    entries = [item.entry for item in located if item is not None]
    progress = reader.progress
    return LoadedLog(
        header=header,
        entries=entries,
        damage=Damage(progress.damaged),
        last_index=progress.taken,
        size=len(data),
        torn=not data.endswith(b"\n"),
    )


def parse_header(line: bytes, path: Path) -> SessionHeader:
    """Parse the header of the event file at `path`.

    Raises:
        FoldlineError: the line is not a header, or its format is newer.
    """
    try:
        header = SessionHeader.model_validate_json(line)
    except ValidationError:
        is_empty = not line.strip(b"\0 \t\r")
        problem = EMPTY_FILE if is_empty else NOT_A_SESSION
        hint = DOCTOR_HINT if path.name == EVENTS else IMPORT_HINT
        sentence = f"{problem} {hint}"
        raise FoldlineError(sentence, path=path, id=path.parent.name) from None
    if header.version > FORMAT_VERSION:
        raise FoldlineError(NEWER_FORMAT, path=path, version=header.version)
    return header


class EventLog:
    """Appends to an event file. The first append creates the file.

    The file is opened for each append, so that changes by other programs are detected. The first append takes
    the lock, which is then held.
    """

    def __init__(
        self,
        path: Path,
        header: SessionHeader,
        *,
        read: Progress | None = None,
        torn: bool = False,
    ) -> None:
        """Prepare to append to a file that has been read.

        Args:
            read: progress at the end of the file; None for a new file.
            torn: whether the last line has no line end.
        """
        self.path = path
        self.header = header
        self.lock = WriterLock(path.parent)
        self.last_index = read.taken if read else -1
        """Highest index in use in the file."""
        self._size = read.upto if read else 0
        self._torn = torn
        self._read = read or Progress(upto=0, lines=0)
        self._known = True
        """Whether the content of the file is known.

        False after a write has failed.
        """
        self._created = False
        """Whether this object created the file.

        If so, it may delete the file if the header could not be written.
        """
        self._file: tuple[int, int] | None = None
        """Device and inode of the file.

        They show whether the file was replaced, even if the size is the same.
        """

    @property
    def size(self) -> int:
        """Expected size of the file, in bytes; 0 before the file exists."""
        return self._size

    @property
    def exists(self) -> bool:
        return self._size > 0

    @property
    def settled(self) -> Progress | None:
        """Progress at the end of the file, if known.

        None after a write has failed, or if the last line has no line end.
        """
        return self._read if self._known and not self._torn and self.exists else None

    def claim(self) -> None:
        """Take the writer's lock.

        Raises:
            FoldlineError: another process is writing, or has written since the file was read.
            WriteFailed: writing to disk failed.
        """
        ours = self.lock.held
        try:
            if not self.exists:
                make_private(self.path.parent)
            self.lock.acquire()
            if self.exists and not ours:
                # Report a changed file now, instead of at the first prompt.
                os.close(self._opener(str(self.path), os.O_WRONLY | os.O_APPEND))
        except ChangedOnDisk:
            self.close()
            raise
        except OSError as error:
            if not ours:
                self.close()
            reason = system_words(error)
            raise WriteFailed(
                CANNOT_BE_WRITTEN.format(folder=self.path.parent, reason=reason), 0
            ) from None

    def close(self) -> None:
        """Release the lock. The next append takes the lock again."""
        self.lock.release()

    async def append(
        self,
        entries: Sequence[Entry],
        durable: bool = False,
        lines: Sequence[bytes] | None = None,
    ) -> list[ByteRange]:
        """Append entries in one write, and return their byte ranges in the log.

        Args:
            durable: whether to wait until the data is on disk.
            lines: the entries as returned by `dump_entry`, if the caller already has them.

        Raises:
            WriteFailed: writing to disk failed. The message names the last entry on disk.
            FoldlineError: another process is writing, or has written since the file was read.
        """
        self.claim()
        lines = [dump_entry(entry) for entry in entries] if lines is None else lines
        before = [b""] if self._torn else []
        if not self.exists:
            before = [dump_header(self.header)]
        data = b"".join(line + b"\n" for line in [*before, *lines])
        try:
            written, error = await self._write(data, durable)
        except ChangedOnDisk:
            self.close()  # this session is outdated, so release the lock for others
            raise
        if self._created and not self.exists and written < len(before[0]):
            with suppress(OSError):  # a file without a header is created again
                self.path.unlink()
                self._created = False
            written = 0
        places = list(
            _places(lines, self._size + sum(len(line) + 1 for line in before))
        )
        self._size += written
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        if error is None:
            self.last_index = max(
                [self.last_index, *(entry.index for entry in entries)]
            )
            self._read = replace(
                self._read,
                upto=self._size,
                lines=self._read.lines + len(lines) + (not self._read.lines),
                last=entries[-1].index if entries else self._read.last,
                taken=self.last_index,
            )
            return places
        self._known = False
        whole, begun = _count_written(
            lines, written - sum(len(line) + 1 for line in before)
        )
        self.last_index = max(
            [self.last_index, *(entry.index for entry in entries[:begun])]
        )
        sentence = self._sentence(entries, whole, written == len(data), error)
        raise WriteFailed(sentence, whole, places[:whole])

    async def _write(self, data: bytes, durable: bool) -> tuple[int, OSError | None]:
        """Write data to the file.

        Returns the number of bytes written, and the error if there was one.
        """
        import asyncio

        import aiofiles  # slow, and needed only for writing

        written = 0
        try:
            async with aiofiles.open(
                self.path, "ab", buffering=0, opener=self._opener
            ) as file:
                # A write may be partial if the disk is almost full.
                while written < len(data):
                    written += await file.write(data[written:])
                if durable:
                    await asyncio.to_thread(os.fsync, file.fileno())
        except OSError as error:
            return written, error
        return written, None

    def _opener(self, path: str, flags: int) -> int:
        """Open the file.

        Raises:
            ChangedOnDisk: another program has changed the file.
        """
        if not self.exists:
            descriptor = create_private(path)
            self._created = True
            self._file = _identity(descriptor)
            return descriptor
        descriptor = open_own(path, flags & ~os.O_CREAT)
        identity = _identity(descriptor)
        if os.fstat(descriptor).st_size != self._size or self._file not in (
            None,
            identity,
        ):
            os.close(descriptor)
            raise ChangedOnDisk(self.path)
        self._file = identity
        return descriptor

    def _sentence(
        self, entries: Sequence[Entry], whole: int, complete: bool, error: OSError
    ) -> str:
        reason = system_words(error)
        if complete:
            return NOT_CONFIRMED.format(path=self.path, reason=reason)
        last = self.last_index
        if whole:
            last = entries[whole - 1].index
        elif entries:
            last = entries[0].index - 1
        lost = NOTHING_AFTER.format(index=last) if last >= 0 else NOTHING_ON_DISK
        return f"{lost} ({reason}): {self.path} cannot be written."


class ChangedOnDisk(FoldlineError):
    """Raised if another process has written to the file since it was read."""

    def __init__(self, path: Path) -> None:
        session = path.parent.name if path.name == EVENTS else path
        super().__init__(CHANGED_ON_DISK.format(session=session))


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def dump_header(header: SessionHeader) -> bytes:
    return header.model_dump_json().encode()


def _count_written(lines: Sequence[bytes], written: int) -> tuple[int, int]:
    """Return how many lines were written completely, and how many were begun.

    A line counts as complete even if its line end is missing.
    """
    complete = 0
    begun = 0
    for line in lines:
        if written > 0:
            begun += 1
        if written >= len(line):
            complete += 1
        written -= len(line) + 1
    return complete, begun


def _places(lines: Iterable[bytes], offset: int) -> Iterator[ByteRange]:
    for line in lines:
        yield ByteRange(offset, len(line))
        offset += len(line) + 1
