"""The event file of a session: read whatever is whole in it, append without ever tearing what is there."""

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
from foldline.protocol import Entry, FoldlineError, SessionHeader, dump_entry, parse_entry, system_words

from .lock import WriterLock

FORMAT_VERSION = 1


# --- the lines of an event file: all that read one do so with these --------------------------------------

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


# --- the whole of it ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damage:
    """Records of a file that could not be read. Nothing of them reaches the history, nothing is repaired."""

    lines: tuple[int, ...] = ()
    """Their line numbers, the first line being 1."""

    @property
    def count(self) -> int:
        return len(self.lines)

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        """For people: `2 damaged records (lines 3 and 9) were left out`; empty where all is well."""
        if not self.lines:
            return ""
        shown = [str(line) for line in self.lines[:3]]
        if self.count > len(shown):
            shown[-1] = f"{shown[-1]}, …"
        where = " and ".join(shown) if self.count <= 2 else ", ".join(shown)
        if self.count == 1:
            return f"1 damaged record (line {where}) was left out"
        return f"{self.count} damaged records (lines {where}) were left out"


NO_DAMAGE = Damage()


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What an event file holds."""

    header: SessionHeader
    entries: list[Entry]
    """Every whole record in index order, those of types unknown here included."""
    damage: Damage
    last_index: int
    """The highest index that is taken, damaged records included; -1 in an empty history."""
    size: int
    """Bytes read."""
    torn: bool
    """Whether the last line has no line end, so that an append must begin a new one."""


class WriteFailed(FoldlineError):
    """An append did not reach the disk. `written` is how many of its entries did, whole; `places` where."""

    def __init__(self, sentence: str, written: int, places: Sequence[ByteRange] = ()) -> None:
        super().__init__(sentence)
        self.written = written
        self.places = places


def our_header(line: bytes) -> SessionHeader | None:
    """The header of a session of ours, of any version, given the first line; None where it is none."""
    try:
        header = SessionHeader.model_validate_json(line.rstrip(b"\n"))
    except ValidationError:
        return None
    return header if header.version >= 1 else None


def is_our_header(line: bytes) -> bool:
    """Whether this is the first line of a session of ours, of any version."""
    return our_header(line) is not None


def read_log(path: Path) -> LoadedLog:
    """Everything whole in an event file. Never writes. Raises FoldlineError where it cannot be read, or is
    none of ours."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise cannot_be_read(path, error) from None
    return parse_log(data, path)


def cannot_be_read(path: Path, error: OSError) -> FoldlineError:
    """The sentence for an event file that the system does not give us."""
    if isinstance(error, FileNotFoundError):
        return FoldlineError(f"There is no session file {path}.")
    return FoldlineError(f"The session file {path} cannot be read: {system_words(error)}.")


def parse_log(data: bytes, path: Path) -> LoadedLog:
    """`read_log` for bytes already read; `path` is for the sentences."""
    lines = io.BytesIO(data)
    first = lines.readline()
    header = parse_header(first.rstrip(b"\n"), path)
    reader = LineReader(Progress(upto=len(first), lines=1))
    entries = [found.entry for line in lines if (found := reader.take(line)) is not None]
    read = reader.progress
    return LoadedLog(
        header=header,
        entries=entries,
        damage=Damage(read.damaged),
        last_index=read.taken,
        size=len(data),
        torn=not data.endswith(b"\n"),
    )


def parse_header(line: bytes, path: Path) -> SessionHeader:
    """The header of the event file at `path`, given its first line without the line end."""
    try:
        header = SessionHeader.model_validate_json(line)
    except ValidationError:
        what = "is empty" if not line.strip(b"\0 \t\r") else "does not begin like one of Foldline's sessions"
        kept = path.name == EVENTS
        hint = f"doctor {path.parent.name}` says more" if kept else f"import {path}` copies what can be read"
        raise FoldlineError(f"{path} {what}: it was left as it is. `foldline {hint}.") from None
    if header.version > FORMAT_VERSION:
        raise FoldlineError(
            f"{path} was written by a newer Foldline (format {header.version}, this one knows "
            f"{FORMAT_VERSION}): it was left as it is."
        )
    return header


class Log:
    """Appends to one event file, which is created by the first append and only ever grows.

    It is opened anew for each append: what another program did to it is noticed, not overwritten, and no
    handle is held between turns. The lock is held from the first append on.
    """

    def __init__(
        self, path: Path, header: SessionHeader, *, read: Progress | None = None, torn: bool = False
    ) -> None:
        """`read` is what the file holds, all of it; `torn` whether its last line has no line end."""
        self.path = path
        self.header = header
        self.lock = WriterLock(path.parent)
        self.last_index = read.taken if read else -1
        """The highest index that is taken on disk."""
        self._size = read.upto if read else 0
        self._torn = torn
        self._read = read or Progress(upto=0, lines=0)
        self._known = True
        """Whether what a reader would find in the file is known: not after a write that failed."""
        self._created = False
        """Whether we made the file, so that a first line that did not fit may be taken away again."""
        self._file: tuple[int, int] | None = None
        """Which file we write to: another one in its place, of the same size even, is not ours."""

    @property
    def size(self) -> int:
        """Bytes of the file as this process knows it; 0 before it exists."""
        return self._size

    @property
    def exists(self) -> bool:
        return self._size > 0

    @property
    def settled(self) -> Progress | None:
        """What reading the whole file would come to; None where that is not known, or its end is torn."""
        return self._read if self._known and not self._torn and self.exists else None

    def claim(self) -> None:
        """Become the one writer of this session. Raises FoldlineError where another process is, or has
        written since we read; WriteFailed where the disk does not let us."""
        ours = self.lock.held
        try:
            if not self.exists:
                make_private(self.path.parent)
            self.lock.acquire()
            if self.exists and not ours:  # said now, not at the first prompt
                os.close(self._opener(str(self.path), os.O_WRONLY | os.O_APPEND))
        except ChangedOnDisk:
            self.close()
            raise
        except OSError as error:
            if not ours:
                self.close()
            raise WriteFailed(
                f"The session cannot be written ({system_words(error)}): its place is {self.path.parent}. "
                "FOLDLINE_HOME names another one for new sessions.",
                0,
            ) from None

    def close(self) -> None:
        """Let another process write. A later append claims the session again."""
        self.lock.release()

    async def append(
        self, entries: Sequence[Entry], durable: bool = False, lines: Sequence[bytes] | None = None
    ) -> list[ByteRange]:
        """Write these entries as whole lines, in one piece; gives where they are. `durable` waits for the
        disk. `lines` are the entries as `dump_entry` writes them, where the caller knows.

        Raises:
            WriteFailed: the disk refused; says which entry is the last one there, and why.
            FoldlineError: another process writes, or has written, to this session.
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
            self.close()  # what is here is of the past: nobody shall wait for it
            raise
        if self._created and not self.exists and written < len(before[0]):
            with suppress(OSError):  # no session without its first line: the next append begins it
                self.path.unlink()
                self._created = False
            written = 0
        places = list(_places(lines, self._size + sum(len(line) + 1 for line in before)))
        self._size += written
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        if error is None:
            self.last_index = max([self.last_index, *(entry.index for entry in entries)])
            self._read = replace(
                self._read,
                upto=self._size,
                lines=self._read.lines + len(lines) + (not self._read.lines),
                last=entries[-1].index if entries else self._read.last,
                taken=self.last_index,
            )
            return places
        self._known = False
        whole, begun = _reached(lines, written - sum(len(line) + 1 for line in before))
        self.last_index = max([self.last_index, *(entry.index for entry in entries[:begun])])
        sentence = self._sentence(entries, whole, written == len(data), error)
        raise WriteFailed(sentence, whole, places[:whole])

    async def _write(self, data: bytes, durable: bool) -> tuple[int, OSError | None]:
        """Write all of `data`; how many bytes got there, and what stopped the rest."""
        import asyncio

        import aiofiles  # with asyncio, only where somebody writes

        written = 0
        try:
            async with aiofiles.open(self.path, "ab", buffering=0, opener=self._opener) as file:
                while written < len(
                    data
                ):  # the system may take a piece at a time when the disk is nearly full
                    written += await file.write(data[written:])
                if durable:
                    await asyncio.to_thread(os.fsync, file.fileno())
        except OSError as error:
            return written, error
        return written, None

    def _opener(self, path: str, flags: int) -> int:
        """Open the file as we left it, or not at all."""
        if not self.exists:
            descriptor = create_private(path)
            self._created = True
            self._file = _identity(descriptor)
            return descriptor
        descriptor = open_own(path, flags & ~os.O_CREAT)
        found = _identity(descriptor)
        if os.fstat(descriptor).st_size != self._size or self._file not in (None, found):
            os.close(descriptor)
            raise ChangedOnDisk(self.path)
        self._file = found
        return descriptor

    def _sentence(self, entries: Sequence[Entry], whole: int, complete: bool, error: OSError) -> str:
        if complete:
            return f"{self.path} was written, but the disk did not confirm it ({system_words(error)})."
        last = entries[whole - 1].index if whole else entries[0].index - 1 if entries else self.last_index
        what = f"Nothing after entry {last} is on disk" if last >= 0 else "Nothing of this session is on disk"
        return f"{what} ({system_words(error)}): {self.path} could not be written."


class ChangedOnDisk(FoldlineError):
    """Somebody else wrote to the file since we read it."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The session {path.parent.name if path.name == EVENTS else path} was continued by another "
            "process since it was opened here: open it again to continue from there."
        )


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def dump_header(header: SessionHeader) -> bytes:
    return header.model_dump_json().encode()


def _reached(lines: Sequence[bytes], written: int) -> tuple[int, int]:
    """How many of these lines were written whole (their line end apart), and how many at least begun."""
    whole = begun = 0
    for line in lines:
        if written > 0:
            begun += 1
        if written >= len(line):
            whole += 1
        written -= len(line) + 1
    return whole, begun


def _places(lines: Iterable[bytes], offset: int) -> Iterator[ByteRange]:
    for line in lines:
        yield ByteRange(offset, len(line))
        offset += len(line) + 1
