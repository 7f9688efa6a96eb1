"""Single records of an event file, parsed when somebody looks at them, and kept while there is room."""

import gc
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from foldline.files import open_regular
from foldline.protocol import Entry, parse_entry

from .lines import Place

ROOM = 8 * 1024 * 1024
"""Bytes of records that are kept parsed, the one looked at last in any case: twice the largest window.
In memory they take two and a half times as much: one sign beyond Latin-1 makes a text twice as wide."""


class Records:
    """The records of one file. Its handle stays open: what is read later is of the file that was opened."""

    def __init__(self, path: Path, file: FileIO | None = None, *, room: int = ROOM) -> None:
        """`file` is the open file at `path`; without it, that is opened at the first look."""
        self._path = path
        self._room = room
        self._kept: OrderedDict[int, tuple[Entry, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        if file is not None:
            self._use(file)

    def __len__(self) -> int:
        """How many entries are kept."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of their records."""
        return self._size

    def kept(self, index: int) -> Entry | None:
        """The entry, where it is in memory."""
        with self._lock:
            found = self._kept.get(index)
            if found is None:
                return None
            self._kept.move_to_end(index)
            return found[0]

    def keep(self, entry: Entry, place: Place, *, if_there_is_room: bool = False) -> None:
        """Keep what was parsed, or just written, in place of what nobody looked at for longest."""
        with self._lock:
            if entry.index in self._kept or (if_there_is_room and self._size + place.length > self._room):
                return
            self._kept[entry.index] = entry, place.length
            self._size += place.length
            while self._size > self._room and len(self._kept) > 1:
                _, (_, length) = self._kept.popitem(last=False)
                self._size -= length

    def read(self, place: Place) -> bytes:
        """The bytes there, fewer where the file has become shorter or unreadable."""
        with self._lock:
            try:
                file = self._file or self._use(FileIO(open_regular(self._path), "rb"))
                file.seek(place.offset)
                return _read_all(file, place.length)
            except OSError:
                return b""

    def _use(self, file: FileIO) -> FileIO:
        self._file = file
        weakref.finalize(self, file.close)
        return file


def parsed(record: bytes, index: int) -> Entry | None:
    """The entry of a record, where it is the one with this index."""
    try:
        entry = parse_entry(record)
    except (ValueError, RecursionError):
        return None
    return entry if entry.index == index else None


def _read_all(file: FileIO, length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


_MANY = 20_000
"""Objects kept from which on looking at them again would be felt."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Within it, cycles are not collected: none are made, and looking for them took more than half the time.

    What is made by the hundred thousand is not looked at later either, which would stop the screen each time;
    it goes with the last reference to it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        made, _, _ = gc.get_count()
        if made > _MANY:
            gc.freeze()
        if was_enabled:
            gc.enable()
