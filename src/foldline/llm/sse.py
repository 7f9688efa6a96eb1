"""Parses server-sent events (WHATWG HTML, 9.2.6).

Some servers send a plain JSON body instead, which is also parsed.

The SDK's decoder is not used, because it has no size limit, treats a byte order mark as part of a name, and
fails on invalid UTF-8.
"""

from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from io import IncrementalNewlineDecoder

from foldline.json_text import parse_json

LONGEST_EVENT = 16 * 2**20
"""Maximum size of an event, and of the data between two events, in bytes.

If more arrives, the stream fails. Real events are much shorter. Decoding this much JSON takes 20 ms.
"""


class TooLong(Exception):
    """Raised if an event, or the data between two events, is too long."""


class WebPage(Exception):
    """Raised if the server responds with an HTML page.

    Examples are login pages, and error pages from proxies.
    """


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    name: str
    data: str

    @property
    def is_last(self) -> bool:
        """Whether this event ends the stream."""
        return self.data.lstrip().startswith("[DONE]")

    def decoded(self) -> object:
        """Decode the event's data as JSON.

        Raises:
            ValueError: the data is not JSON.
        """
        return parse_json(self.data)


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
    """Yield the events of a body as they arrive.

    A JSON body is treated as one event, because some servers do not stream even if they are asked to.

    Raises:
        TooLong: an event, or the data between two events, exceeds `LONGEST_EVENT`.
        WebPage: the body is HTML.
    """
    decoder = IncrementalNewlineDecoder(
        getincrementaldecoder("utf-8-sig")("replace"), translate=True
    )
    reader = _EventReader()
    unfinished = 0
    async for chunk in chunks:
        unfinished += len(chunk)
        for event in reader.feed(decoder.decode(chunk)):
            unfinished = 0
            yield event
        if unfinished > LONGEST_EVENT:
            raise TooLong
    for event in reader.feed(decoder.decode(b"", final=True)):
        yield event
    if (last := reader.rest()) is not None:
        yield last


class _EventReader:
    """Reads a body of fields, one per line, with an empty line after each event.

    A body that begins with a bracket is a single JSON text. Content types are unreliable.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        """Pieces of the unfinished line or JSON text.

        Joining them after each chunk would take quadratic time.
        """
        self._has_begun = False
        self._is_json = False
        self._data: list[str] = []
        self._name = ""

    def feed(self, text: str) -> Iterator[Event]:
        """Yield the events that this text completes.

        Raises:
            WebPage: the body is HTML.
        """
        if not self._has_begun:
            text = text.lstrip()
            self._has_begun = bool(text)
            self._is_json = text.startswith(("{", "["))
            if text.startswith("<"):
                raise WebPage
        *line_ends, unfinished = [text] if self._is_json else text.split("\n")
        for line_end in line_ends:
            event = self._take("".join([*self._text, line_end]))
            self._text.clear()
            if event is not None:
                yield event
        self._text.append(unfinished)

    def rest(self) -> Event | None:
        """Return the last event, if the server omitted the empty line after it."""
        text = "".join(self._text)
        if self._is_json:
            return Event("", text)
        self._take(text)
        return self._take("")

    def _take(self, line: str) -> Event | None:
        """Process a line, and return the event that it ends, if any."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        if line:
            return None
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._data.clear()
        self._name = ""
        return event
