"""The ways to a server: a program of our own, or an address. Streams of messages, as the package has them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline.history import typed_path

from .config import Filled, ServerConfig
from .log import ServerLog

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.text import TextReceiveStream

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
