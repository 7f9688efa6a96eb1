"""Connects to a server: its configuration and secrets, its program or URL, and its log."""

import os
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from foldline.data import Environ
from foldline.files import make_private, open_own
from foldline.history import typed_path
from foldline.protocol import FoldlineError

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.text import TextReceiveStream

    from foldline.agent.permissions.sandbox import Sandbox

CALL_SECONDS = 120.0
"""Default timeout for a call, in seconds, the same as for a `bash` command."""

NO_TARGET = "The MCP server {server} needs either a command or a url: set one of them in [mcp.{server}]."
NO_VARIABLE = (
    "The MCP server {server} needs the environment variable {variable}, which is not set: set it, or remove "
    "it from [mcp.{server}]."
)
LARGE_MESSAGE = "it sent a message of more than {size:.0f} MB, which was not read"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 6
"""Minimum length of a value that is masked, in characters.

Masking `1` or `true` would make a log unreadable.
"""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server's configuration.

    Either `command` or `url` is set.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables, in addition to a few harmless ones such as PATH and HOME."""
    cwd: str = ""
    """Working directory; empty for the session's."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sandbox: bool = True
    """Whether the server runs in the sandbox in sandboxed modes."""
    writable: tuple[str, ...] = ()
    """Additional paths that the server may write to in the sandbox."""
    hosts: tuple[str, ...] = ()
    """Additional hosts that the server may connect to from the sandbox."""
    timeout: float = CALL_SECONDS
    """Timeout for a call, in seconds."""
    literal: bool = False
    """Whether `${NAME}` is plain text instead of a variable.

    True for configurations from other programs, which must not read Foldline's environment.
    """

    def filled_in(self, environ: Environ) -> "FilledConfig":
        """Return the configuration with each `${NAME}` replaced by that environment variable's value.

        Raises:
            FoldlineError: a variable is not set, or `command` and `url` are both set or both missing.
        """
        if bool(self.command) == bool(self.url):
            raise FoldlineError(NO_TARGET, server=self.name)
        values: set[str] = set()

        def value_of(match: re.Match[str]) -> str:
            value = environ.get(match[1])
            if value is None:
                raise FoldlineError(NO_VARIABLE, server=self.name, variable=match[1])
            values.add(value)
            return value

        def filled(text: str) -> str:
            return text if self.literal else _VARIABLE.sub(value_of, text)

        config = replace(
            self,
            command=filled(self.command),
            args=tuple(map(filled, self.args)),
            env={name: filled(value) for name, value in self.env.items()},
            cwd=filled(self.cwd),
            url=filled(self.url),
            headers={name: filled(value) for name, value in self.headers.items()},
        )
        return FilledConfig(
            config, _masking([*values, *config.env.values(), *config.headers.values()])
        )


@dataclass(frozen=True, slots=True)
class FilledConfig:
    """A configuration with all variables replaced."""

    config: ServerConfig
    masked: Callable[[str], str]
    """Replaces the values of `env`, `headers` and variables in text with `***`."""


def _masking(values: Iterable[str]) -> Callable[[str], str]:
    secrets: set[str] = set()
    for value in values:  # in "Bearer abc", "abc" is a secret too
        secrets.update(
            part for part in (value, *value.split()) if len(part) >= _SHORTEST_SECRET
        )

    longest_first = sorted(secrets, key=len, reverse=True)

    def masked(text: str) -> str:
        for secret in longest_first:
            text = text.replace(secret, "***")
        return text

    return masked


# --- the log --------------------------------------------------------------------------------------

_KEPT = 128 * 1024
"""Size to which a log is shortened, in bytes.

The newest part is kept. The file may grow to twice this size before it is shortened.
"""
_LONGEST_LINE = 16 * 1024
"""Maximum size of a line in the log, in bytes. Longer lines are split."""
_CATCH_UP = 0.3
"""Maximum time to wait for a stopped program's last output, in seconds.

Other processes may keep the pipe open.
"""


class ServerLog:
    """A server's log file, which is kept across restarts.

    Write errors are ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""
        """The last part of the output since the server was last started."""
        self._lock = threading.Lock()
        self._follower: threading.Thread | None = None
        self._tail = bytearray()

    @property
    def last(self) -> str:
        """The last line that is not blank."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip() if lines else ""

    def note(self, sentence: str) -> None:
        """Write a line from Foldline itself to the log."""
        self._append(f"-- {sentence}\n".encode("utf-8", "replace"))

    def writer(self, masked: Callable[[str], str]) -> TextIO:
        """Open a pipe for the output of a process.

        Close the returned stream once the process has started.

        A thread reads the pipe until all processes have closed it, so that a server never blocks on output.

        Args:
            masked: function that hides secrets in text.
        """
        reading, writing = os.pipe()
        self.text = ""
        self._follower = threading.Thread(
            target=self._follow, args=(reading, masked), daemon=True
        )
        self._follower.start()
        return os.fdopen(writing, "w")

    def caught_up(self) -> None:
        """Wait briefly until all output of a stopped process has been read."""
        if self._follower is not None:
            self._follower.join(_CATCH_UP)

    def _follow(self, reading: int, masked: Callable[[str], str]) -> None:
        unfinished = b""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(64 * 1024):
                *lines, unfinished = (unfinished + chunk).split(b"\n")
                if len(unfinished) > _LONGEST_LINE:
                    lines.append(unfinished)
                    unfinished = b""
                if lines:
                    self._write(lines, masked)
        if unfinished:
            self._write([unfinished], masked)

    def _write(self, lines: list[bytes], masked: Callable[[str], str]) -> None:
        text = ""
        for line in lines:
            text += masked(line.decode("utf-8", "replace").rstrip("\r")) + "\n"
        self.text = (self.text + text)[-_LONGEST_LINE:]
        self._append(text.encode("utf-8", "replace"))

    def _append(self, new: bytes) -> None:
        with self._lock:
            self._tail += new
            del self._tail[:-_KEPT]
            with suppress(OSError):
                make_private(self.path.parent)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with os.fdopen(open_own(self.path, flags), "ab") as file:
                    if file.tell() + len(new) > 2 * _KEPT:
                        file.truncate(0)
                        new = bytes(self._tail)
                    file.write(new)


# --- streams of messages for the package `mcp` ------------------------------------------------------

_CONNECT_SECONDS = 30.0
_ENDING_SECONDS = 0.5
"""Maximum time for a program to stop, in seconds.

It applies after the program's input is closed, and again after SIGTERM. The `mcp` package's own limits of 2 s
would delay Foldline's exit.
"""
_LARGEST = 16 * 1024 * 1024
"""Maximum size of one message, in bytes or characters; a larger one ends the connection.

The `mcp` package's own limit for events, 1 MiB, is too small for images, and the package has no limit for
lines.
"""


@asynccontextmanager
async def program(
    filled: FilledConfig, log: ServerLog, folder: Path, box: "Sandbox | None" = None
) -> AsyncGenerator[Any]:
    """Run a server's program in a new session, and stop it when the context exits.

    The program's environment contains a few harmless variables and those of the configuration. The program's
    error output is logged.

    Args:
        box: sandbox in which the program runs.
    """
    from mcp.client import stdio
    from mcp.client.stdio import StdioServerParameters, stdio_client

    stdio.PROCESS_TERMINATION_TIMEOUT = stdio.FORCE_KILL_TIMEOUT = _ENDING_SECONDS
    stdio.TextReceiveStream = _line_stream(log)  # type: ignore[attr-defined]
    config = filled.config
    cwd = folder / typed_path(config.cwd) if config.cwd else folder
    argv = [config.command, *config.args]
    env = config.env
    async with AsyncExitStack() as stack:
        if box is not None:
            await box.ready()
            argv, env = await stack.enter_async_context(box.entering(argv, env, cwd))
        parameters = StdioServerParameters(
            command=argv[0],
            args=argv[1:],
            env=dict(env),
            cwd=cwd,
            encoding_error_handler="replace",
        )
        errors = stack.enter_context(log.writer(filled.masked))
        streams = await stack.enter_async_context(
            stdio_client(parameters, errlog=errors)
        )
        errors.close()
        yield streams


def _line_stream(log: ServerLog) -> "type[TextReceiveStream]":
    """Return a text stream class that yields complete lines.

    The stream ends at a line that is too long. The `mcp` package's own stream joins all chunks of a line
    again for each new chunk, which takes minutes for 300 MB.
    """
    from anyio import EndOfStream
    from anyio.streams.text import TextReceiveStream

    class LineReceiveStream(TextReceiveStream):
        async def receive(self) -> str:
            chunks: list[str] = []
            length = 0
            while not chunks or "\n" not in chunks[-1]:
                chunks.append(await super().receive())
                length += len(chunks[-1])
                if length > _LARGEST:
                    log.note(LARGE_MESSAGE.format(size=_LARGEST / 2**20))
                    # Otherwise, the package would wait for the rest.
                    await self.transport_stream.aclose()
                    raise EndOfStream
            return "".join(chunks)

    return LineReceiveStream


@asynccontextmanager
async def over_http(
    config: ServerConfig,
    refused: Callable[[tuple[int, bool]], None],
    auth: "httpx2.Auth | None" = None,
) -> AsyncGenerator[Any]:
    """Open a connection over streamable HTTP.

    Args:
        refused: called with the status of each rejected message, and whether its text is about the session.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def look(response: "httpx2.Response") -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            text = b""
            if (
                response.status_code == 400
                and 0 < int(response.headers.get("content-length", 0)) < 4_096
            ):
                text = await response.aread()
            refused((response.status_code, b"session" in text.lower()))

    limits = httpx2.Timeout(_CONNECT_SECONDS, read=config.timeout + _CONNECT_SECONDS)
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers),
            timeout=limits,
            event_hooks={"response": [look]},
            auth=auth,
        ) as client,
        streamable_http_client(
            config.url, http_client=client, max_sse_event_size=_LARGEST
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def relayed(
    read: Any, repair: Callable[[Any], None], at_end: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Any]:
    """Relay messages from the server.

    Args:
        repair: called with each result, which it may change in place.
        at_end: called after the last message.
    """
    import anyio

    sender, receiver = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with sender:
                async for message in read:
                    repair(getattr(getattr(message, "message", None), "result", None))
                    await sender.send(message)
        await at_end()

    async with anyio.create_task_group() as group:
        group.start_soon(pass_on)
        try:
            yield receiver
        finally:
            group.cancel_scope.cancel()
