"""Server-sent events out of bytes: WHATWG HTML, 9.2.6, and what servers send in their place.

The SDK's own decoder has no bound, takes a byte order mark for part of a name, and gives up at bytes that are
no UTF-8; hence this one.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

from .wire import decoded

LONGEST_EVENT = 16 * 2**20
"""Bytes of one event, and of all that stands between two. To decode so much JSON takes 20 ms, which nobody
notices; no event of an honest answer comes near."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class TooLong(Exception):
    """An event without an end."""


class WebPage(Exception):
    """The server answers with a page for people: a login, the excuse of a proxy."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str

    @property
    def is_last(self) -> bool:
        """Whether it is the mark that ends a stream."""
        return self.data.lstrip().startswith("[DONE]")

    def decoded(self) -> object:
        """Its data, which should be JSON.

        Raises:
            ValueError: it is not.
        """
        return decoded(self.data)


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
    """The events of a body, as they arrive. A body that is one JSON text is one event: some servers do not
    stream although they are asked to.

    Raises:
        TooLong: one of them, or what stands between two, is longer than `LONGEST_EVENT`.
        WebPage: the body is HTML.
    """
    reader: _Lines | _Whole | None = None
    start, unfinished = b"", 0
    async for chunk in chunks:
        unfinished += len(chunk)
        if reader is None:
            start = (start + chunk).removeprefix(_BOM).lstrip()
            if start and not _BOM.startswith(start):
                reader, chunk = _reader_for(start), start
        if reader is not None:
            for event in reader.feed(chunk):
                unfinished = 0
                yield event
        if unfinished > LONGEST_EVENT:
            raise TooLong
    if reader is not None:
        for event in reader.rest():
            yield event


def _reader_for(start: bytes) -> "_Lines | _Whole":
    """The reader for a body, by how it begins: the type that servers give of it cannot be relied on."""
    match start[:1]:
        case b"<":
            raise WebPage
        case b"{" | b"[":
            return _Whole()
        case _:
            return _Lines()


class _Whole:
    """A body that is one JSON text."""

    def __init__(self) -> None:
        self._body: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._body.append(chunk)
        return iter(())

    def rest(self) -> Iterator[Event]:
        yield Event("", _text(b"".join(self._body)))


class _Lines:
    """A body of fields, one a line, and an empty line after each event."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """The line that has not come to its end. Pieces: to join them each time would be quadratic."""
        self._data: list[bytes] = []
        self._name = b""
        self._skips_newline = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        if self._skips_newline and chunk[:1] == b"\n":  # The other half of a CR LF.
            chunk = chunk[1:]
        self._skips_newline = chunk.endswith(b"\r") or (self._skips_newline and not chunk)
        *ended, begun = _LINE_END.split(chunk)
        for end in ended:
            self._begun.append(end)
            if event := self._take(self._line()):
                yield event
        self._begun.append(begun)

    def rest(self) -> Iterator[Event]:
        """Some servers leave out the last empty line."""
        for line in (self._line(), b""):
            if event := self._take(line):
                yield event

    def _line(self) -> bytes:
        begun, self._begun = self._begun, []
        return b"".join(begun)

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._event()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
        return None

    def _event(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._name = [], b""
        return Event(_text(name), _text(b"\n".join(data))) if data else None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
