"""The ways to a server: a program of our own, or an address; and the log of what it writes to its standard
error. Streams of messages, as the package `mcp` has them.
"""

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from foldline.files import make_private, open_own
from foldline.history import typed_path

from .config import Filled, ServerConfig

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.text import TextReceiveStream

_KEPT = 128 * 1024
"""Bytes. The file may grow to twice that, then only the newest are kept."""
_LONGEST_LINE = 16 * 1024
_CATCH_UP = 0.3
"""Seconds; longer where others still hold the output open, and then nobody knows when."""


class ServerLog:
    """One file for one server, through all its starts. What cannot be written is given up: it is a log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = ""
        """The last line it wrote that says something."""
        self._lock = threading.Lock()
        self._follower: threading.Thread | None = None
        self._tail = bytearray()

    def note(self, sentence: str) -> None:
        """One line of ours."""
        self._keep(f"-- {sentence}\n".encode("utf-8", "replace"))

    def writer(self, masked: Callable[[str], str]) -> TextIO:
        """An end for a process to write to. Close it here once the process has it.

        A thread empties it until all who have it are gone: a server that writes more than is kept is never
        held up. `masked` hides what must not be kept.
        """
        reading, writing = os.pipe()
        self.last = ""
        self._follower = threading.Thread(target=self._follow, args=(reading, masked), daemon=True)
        self._follower.start()
        return os.fdopen(writing, "w")

    def caught_up(self) -> None:
        """Wait a moment until all is read that a process wrote which has ended."""
        if self._follower is not None:
            self._follower.join(_CATCH_UP)

    def _follow(self, reading: int, masked: Callable[[str], str]) -> None:
        rest = b""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(64 * 1024):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                if lines:
                    self._write(lines, masked)
        if rest:
            self._write([rest], masked)

    def _write(self, lines: list[bytes], masked: Callable[[str], str]) -> None:
        texts = [masked(line.decode("utf-8", "replace").rstrip("\r")) for line in lines]
        said = [text for text in texts if text.strip()]
        if said:
            self.last = said[-1].strip()
        self._keep("".join(f"{text}\n" for text in texts).encode("utf-8", "replace"))

    def _keep(self, new: bytes) -> None:
        with self._lock:
            self._tail += new
            del self._tail[:-_KEPT]
            try:
                make_private(self.path.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with os.fdopen(open_own(self.path, flags), "ab") as file:
                    if file.tell() + len(new) > 2 * _KEPT:
                        file.truncate(0)
                        new = bytes(self._tail)
                    file.write(new)
            except OSError:
                pass


_CONNECT_SECONDS = 30.0
_ENDING_SECONDS = 0.5
"""How long a program has to end by itself once its input is closed; and again, after SIGTERM, until it is
killed. The package waits 2 s each: who quits should not."""
_LARGEST = 16 * 1024 * 1024
"""Bytes, or characters, of one message; the package's own limit for events, 1 MiB, is less than a picture may
be, and for lines it has none."""


@asynccontextmanager
async def program(filled: Filled, log: ServerLog, folder: Path) -> AsyncGenerator[Any]:
    """A program in a session of its own, ended on leaving; what it says on its error output is logged.

    It gets the few variables the package takes for harmless, and those that were set for it.
    """
    from mcp.client import stdio
    from mcp.client.stdio import StdioServerParameters, stdio_client

    stdio.PROCESS_TERMINATION_TIMEOUT = stdio.FORCE_KILL_TIMEOUT = _ENDING_SECONDS
    stdio.TextReceiveStream = _lines_of(log)  # type: ignore[attr-defined]
    config = filled.config
    parameters = StdioServerParameters(
        command=config.command,
        args=list(config.args),
        env=dict(config.env),
        cwd=folder / typed_path(config.cwd) if config.cwd else folder,
        encoding_error_handler="replace",
    )
    errors = log.writer(filled.masked)
    try:
        async with stdio_client(parameters, errlog=errors) as streams:
            errors.close()
            yield streams
    finally:
        errors.close()


def _lines_of(log: ServerLog) -> "type[TextReceiveStream]":
    """A stream of text that gives whole lines. The package would put a line together anew with each of its
    pieces, which takes minutes for one of 300 MB; one that is longer than a message may be is the end."""
    from anyio import EndOfStream
    from anyio.streams.text import TextReceiveStream

    class Lines(TextReceiveStream):
        async def receive(self) -> str:
            pieces: list[str] = []
            length = 0
            while not pieces or "\n" not in pieces[-1]:
                pieces.append(await super().receive())
                length += len(pieces[-1])
                if length > _LARGEST:
                    log.note(f"it sent a message of more than {_LARGEST / 2**20:.0f} MB: not read")
                    await self.transport_stream.aclose()  # or all the rest would be waited for
                    raise EndOfStream
            return "".join(pieces)

    return Lines


@asynccontextmanager
async def over_http(config: ServerConfig, refused: Callable[[int], None]) -> AsyncGenerator[Any]:
    """Streamable HTTP. `refused` is told the status of each message that was not taken."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def look(response: "httpx2.Response") -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            refused(response.status_code)

    limits = httpx2.Timeout(_CONNECT_SECONDS, read=config.timeout + _CONNECT_SECONDS)
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers), timeout=limits, event_hooks={"response": [look]}
        ) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=_LARGEST) as streams,
    ):
        yield streams


@asynccontextmanager
async def relayed(
    read: Any, mend: Callable[[Any], None], at_end: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Any]:
    """What the server says, each result mended in place; and a word when it says no more."""
    import anyio

    passed, heard = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with passed:
                async for message in read:
                    mend(getattr(getattr(message, "message", None), "result", None))
                    await passed.send(message)
        await at_end()

    async with anyio.create_task_group() as group:
        group.start_soon(pass_on)
        try:
            yield heard
        finally:
            group.cancel_scope.cancel()
