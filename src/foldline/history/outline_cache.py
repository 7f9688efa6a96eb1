"""Caches a long session's outlines, in `index.jsonl` next to its log.

With a cache, a session can be opened without parsing the log. The cache can be deleted at any time. Its lines
are a `Stamp`, which identifies the log; an `_OutlinePart` for every 2,000 entries; and a checksum. The file
is always replaced as a whole. It is ignored if its checksum is wrong or it belongs to another log. If the log
has grown, the cache may cover only its beginning.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from foldline.data import EVENTS
from foldline.files import open_regular, opened, put_private
from foldline.protocol import FileTouch
from foldline.protocol.messages import Record
from foldline.view.outline import (
    CompactionOutline,
    MarkerOutline,
    MessageOutline,
    OtherOutline,
    Outline,
    Reported,
    RequestOutline,
)
from foldline.view.tokens import estimate_tokens

from .log import ByteRange, Progress
from .meta import Meta
from .paths import INDEX
from .stored import StoredEntries

SMALLEST_LOG = 4 * 1024 * 1024
"""Minimum size of a log that is cached, in bytes.

Smaller logs are parsed each time they are opened.
"""
VERSION = 10
"""Version of the cache.

Increase this number if the lines or the meaning of an outline change.
"""
_PART_ENTRIES = 2_000
"""Number of entries in a part.

Parsing a part blocks other threads for several milliseconds.
"""
_CACHED_ENOUGH = 0.99
"""The cache is written again if less than this fraction of the log is cached."""
_LARGEST_RATIO = 8
"""Maximum size of a cache, as a multiple of its log's size.

A larger cache is ignored.
"""
_SAMPLE = 4096
"""Number of bytes included in a stamp's digest, at both the start and the end of a log."""
_CONFIG = ConfigDict(defer_build=True, extra="ignore")
# Equal file accesses share one object.
_share: Any = lru_cache(maxsize=4096)(lambda touch: touch)


class _AsRow:
    """Parses a JSON array as the annotated named tuple."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        hints = get_type_hints(source)
        if "type" in hints:
            hints["type"] = Literal[
                "system", "developer", "user", "assistant", "tool_result"
            ]
        fields = tuple(_FIELD_TYPES.get(hint, hint) for hint in hints.values())
        row = Annotated[tuple[fields], AfterValidator(source._make)]  # type: ignore[valid-type]
        return handler.generate_schema(row)


_FIELD_TYPES: dict[Any, Any] = {
    Reported | None: Annotated[Reported, _AsRow()] | None,
    tuple[FileTouch, ...]: tuple[Annotated[FileTouch, AfterValidator(_share)], ...],
}
"""Types with which the fields of outlines are parsed, if they differ from the annotations."""


class Stamp(Record):
    """Identity of a log, and the state of the reader after the last cached entry."""

    model_config = _CONFIG

    progress: Progress
    mtime_ns: int
    digest: str
    """Digest of the log's first and last bytes up to `progress`.

    The header is not included.
    """
    meta: Meta


class _OutlinePart(Record):
    """Outlines and byte ranges of consecutive entries."""

    model_config = _CONFIG

    offsets: list[int]
    lengths: list[int]
    messages: list[Annotated[MessageOutline, _AsRow()]]
    requests: list[Annotated[RequestOutline, _AsRow()]]
    others: list[Annotated[OtherOutline, _AsRow()]]
    compactions: list[CompactionOutline]
    markers: list[Annotated[MarkerOutline, Field(discriminator="type")]]

    @property
    def outlines(self) -> list[Outline]:
        """All outlines, in index order."""
        outlines = chain(
            self.messages, self.requests, self.others, self.compactions, self.markers
        )
        return sorted(outlines, key=attrgetter("index"))


_FIELDS = {
    MessageOutline: "messages", RequestOutline: "requests",
    OtherOutline: "others", CompactionOutline: "compactions",
}  # fmt: skip
"""The field that contains each type of outline in a part.

All other types are in `markers`.
"""


class CachedLog(NamedTuple):
    """The cached content of a log, up to the progress in its stamp."""

    stamp: Stamp
    outlines: list[Outline]
    places: list[ByteRange]


class OutlineCache:
    """The outline cache of one log."""

    def __init__(self, events: Path, *, smallest_log: int = SMALLEST_LOG) -> None:
        self._events = events
        self._path = events.with_name(INDEX)
        # A file outside a session folder gets no cache.
        self._smallest_log = smallest_log if events.name == EVENTS else sys.maxsize
        self._log_size = 0
        """Number of bytes of the log that have been cached."""

    def load(self, log: FileIO) -> CachedLog | None:
        """Return the cached content of an open log.

        Returns None if there is no valid cache.
        """
        self._log_size = 0
        status = os.fstat(log.fileno())
        if status.st_size < self._smallest_log:
            return None
        try:
            cached = _read_cache(self._path, _LARGEST_RATIO * status.st_size)
        except (OSError, ValueError, RecursionError):
            return None
        stamp = cached.stamp
        size = stamp.progress.upto
        is_unchanged = status.st_size == size and status.st_mtime_ns == stamp.mtime_ns
        if status.st_size <= size and not is_unchanged:
            return None
        if _digest(log.fileno(), cached.places, size) != stamp.digest:
            return None
        self._log_size = size
        return cached

    def is_due(self, progress: Progress) -> bool:
        """Return whether too little of a log has been cached.

        The log has been read up to `progress`.
        """
        is_large = progress.upto >= self._smallest_log
        return is_large and progress.upto * _CACHED_ENOUGH > self._log_size

    def save(
        self, entries: StoredEntries, count: int, progress: Progress, meta: Meta
    ) -> None:
        """Write the cache if it is due.

        Disk errors are ignored.

        Args:
            entries: the log's entries. More may be appended in the meantime.
            count: number of entries to cache, namely those up to `progress`.
        """
        if not self.is_due(progress):
            return
        places = [entries.place(position) for position in range(count)]
        with suppress(OSError), FileIO(open_regular(self._events), "rb") as log:
            status = os.fstat(log.fileno())
            if status.st_size < progress.upto:
                return
            digest = _digest(log.fileno(), places, progress.upto)
            stamp = Stamp(
                progress=progress,
                mtime_ns=status.st_mtime_ns,
                digest=digest,
                meta=meta,
            )
            content = bytearray(_line(stamp))
            for line in _part_lines(entries.outlines[:count], places):
                content += line
            content += _checksum(content).hexdigest().encode()
            put_private(self._path, content)
            self._log_size = progress.upto


def _read_cache(path: Path, largest: int) -> CachedLog:
    """Read a cache file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged.
    """
    outlines: list[Outline] = []
    places: list[ByteRange] = []
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > largest:
            raise ValueError("larger than the cache of this log")
        line = file.readline()
        stamp = Stamp.model_validate_json(line)
        checksum = _checksum(line)
        while (line := file.readline()).endswith(b"\n"):
            part = _OutlinePart.model_validate_json(line)
            outlines += part.outlines
            places += map(ByteRange, part.offsets, part.lengths)
            checksum.update(line)
    if line != checksum.hexdigest().encode():
        raise ValueError("wrong checksum")
    return CachedLog(stamp, outlines, places)


def _part_lines(
    outlines: Sequence[Outline], places: Sequence[ByteRange]
) -> Iterator[bytes]:
    for start in range(0, len(outlines), _PART_ENTRIES):
        stop = start + _PART_ENTRIES
        fields: dict[str, list[Any]] = {name: [] for name in _OutlinePart.model_fields}
        for outline in outlines[start:stop]:
            fields[_FIELDS.get(type(outline), "markers")].append(outline)
        for place in places[start:stop]:
            fields["offsets"].append(place.offset)
            fields["lengths"].append(place.length)
        yield _line(_OutlinePart.model_construct(None, **fields))


def _line(record: Record) -> bytes:
    return record.model_dump_json().encode() + b"\n"


def _digest(log: int, places: Sequence[ByteRange], size: int) -> str:
    """Return a digest of the first and last bytes of a log's entries."""
    begin = places[0].offset if places else size
    length = min(_SAMPLE, size - begin)
    sample = os.pread(log, length, begin) + os.pread(log, length, size - length)
    return hashlib.sha256(sample).hexdigest()


def _checksum(content: bytes | bytearray) -> "hashlib._Hash":
    """Begin a checksum of the content.

    It includes the cache's version, and the token estimate of a fixed text.
    """
    estimate = estimate_tokens(
        "Fold 12 entries: don't! 折りたたみ 접기 压缩。🚀→é\n" * 99
    )
    checksum = hashlib.sha256(b"%d %d" % (VERSION, estimate))
    checksum.update(content)
    return checksum
