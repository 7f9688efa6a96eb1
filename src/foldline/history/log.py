"""The event file of a session: read whatever is whole in it, append without ever tearing what is there."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from foldline.protocol import Entry, FoldlineError, SessionHeader, dump_entry, parse_entry

from .lock import WriterLock
from .paths import EVENTS

FORMAT_VERSION = 1
_INDEX_OF_TORN = re.compile(rb'\{"type":"[^"]*","index":(\d{1,12})[,}]')
"""The index at the start of a record as `dump_entry` writes it: readable although the rest is torn."""


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
    """An append did not reach the disk. `written` is how many of its entries did, whole."""

    def __init__(self, sentence: str, written: int) -> None:
        super().__init__(sentence)
        self.written = written


def is_our_header(line: bytes) -> bool:
    """Whether this is the first line of a session of ours, of any version."""
    try:
        header = SessionHeader.model_validate_json(line)
    except ValidationError:
        return False
    return header.version >= 1


def read_log(path: Path) -> LoadedLog:
    """Everything whole in an event file. Never writes.

    Raises:
        FoldlineError: there is no such file, it cannot be read, or it is not a session of ours.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FoldlineError(f"There is no session file {path}.") from None
    except OSError as error:
        raise FoldlineError(f"The session file {path} cannot be read: {_why(error)}.") from None
    return parse_log(data, path)


def parse_log(data: bytes, path: Path) -> LoadedLog:
    """`read_log` for bytes already read; `path` is for the sentences."""
    first, *lines = data.split(b"\n")
    header = _header(first, path)
    entries: list[Entry] = []
    damaged: list[int] = []
    last = taken = -1
    for number, line in enumerate(lines, start=2):
        record = line.strip(b"\0 \t\r")
        if not record and b"\0" not in line:
            continue
        if len(record) < len(line.strip(b" \t\r")):
            damaged.append(number)
        entry = _entry(record) if record else None
        if entry is not None and entry.index > last:
            entries.append(entry)
            last = entry.index
            taken = max(taken, last)
            continue
        if not damaged or damaged[-1] != number:
            damaged.append(number)
        if entry is None and record:
            # A record was begun here. Its index is never used again, though the record is lost.
            begun = _INDEX_OF_TORN.match(record)
            taken = max(taken, int(begun[1]) if begun else last + 1)
    return LoadedLog(
        header=header,
        entries=entries,
        damage=Damage(tuple(damaged)),
        last_index=taken,
        size=len(data),
        torn=not data.endswith(b"\n"),
    )


def _entry(record: bytes) -> Entry | None:
    try:
        return parse_entry(record)
    except (ValueError, RecursionError):
        return None


def _header(line: bytes, path: Path) -> SessionHeader:
    try:
        header = SessionHeader.model_validate_json(line)
    except ValidationError:
        what = "is empty" if not line.strip(b"\0 \t\r") else "does not begin like one of Foldline's sessions"
        raise FoldlineError(f"{path} {what}: it was left as it is.") from None
    if header.version > FORMAT_VERSION:
        raise FoldlineError(
            f"{path} was written by a newer Foldline (format {header.version}, this one knows "
            f"{FORMAT_VERSION}): it was left as it is."
        )
    return header


class Log:
    """Appends to one event file. The file is created by the first append, and only ever grows.

    The file is opened anew for each append: what another program did to it meanwhile is noticed, not
    overwritten, and no handle is held between turns. The lock is held from the first append on.
    """

    def __init__(self, path: Path, header: SessionHeader, *, loaded: LoadedLog | None = None) -> None:
        self.path = path
        self.header = header
        self.lock = WriterLock(path.parent)
        self.last_index = loaded.last_index if loaded else -1
        """The highest index that is taken on disk."""
        self._size = loaded.size if loaded else 0
        self._torn = loaded.torn if loaded else False
        self._created = False
        """Whether we made the file, so that a first line that did not fit may be taken away again."""

    @property
    def size(self) -> int:
        """Bytes of the file as this process knows it; 0 before it exists."""
        return self._size

    @property
    def exists(self) -> bool:
        return self._size > 0

    def claim(self) -> None:
        """Become the one writer of this session; does nothing where we are.

        Raises:
            FoldlineError: another process is; the sentence says which.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.lock.acquire()
        except OSError as error:
            raise WriteFailed(
                f"The session cannot be written to {self.path.parent}: {_why(error)}.", 0
            ) from None

    def close(self) -> None:
        """Let another process write. A later append claims the session again."""
        self.lock.release()

    async def append(self, entries: Sequence[Entry], durable: bool = False) -> None:
        """Write these entries as whole lines, in one piece. `durable` waits until the disk has them.

        Raises:
            WriteFailed: the disk refused; says which entry is the last one there, and why.
            FoldlineError: another process writes, or has written, to this session.
        """
        self.claim()
        lines = [dump_entry(entry) for entry in entries]
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
            self._forget_torn_header()
            written = 0
        self._size += written
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        if error is None:
            self.last_index = max([self.last_index, *(entry.index for entry in entries)])
            return
        whole, begun = _reached(lines, written - sum(len(line) + 1 for line in before))
        self.last_index = max([self.last_index, *(entry.index for entry in entries[:begun])])
        raise WriteFailed(self._sentence(entries, whole, written == len(data), error), whole)

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
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            self._created = True
            return descriptor
        descriptor = os.open(path, flags & ~os.O_CREAT)
        if os.fstat(descriptor).st_size != self._size:
            os.close(descriptor)
            raise ChangedOnDisk(self.path)
        return descriptor

    def _forget_torn_header(self) -> None:
        """A file that never got its whole first line is no session: the next append begins it again."""
        with suppress(OSError):
            self.path.unlink()
            self._created = False

    def _sentence(self, entries: Sequence[Entry], whole: int, complete: bool, error: OSError) -> str:
        if complete:
            return f"{self.path} was written, but the disk did not confirm it ({_why(error)})."
        last = entries[whole - 1].index if whole else entries[0].index - 1 if entries else self.last_index
        what = f"Nothing after entry {last} is on disk" if last >= 0 else "Nothing of this session is on disk"
        return f"{what}: {self.path} could not be written ({_why(error)})."


class ChangedOnDisk(FoldlineError):
    """Somebody else wrote to the file since we read it."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The session {path.parent.name if path.name == EVENTS else path} was continued by another "
            "process since it was opened here: open it again to go on from there."
        )


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


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
