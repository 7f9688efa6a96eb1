"""How a server is reached: its settings, and which of them are secret; the program that is started, or the
address that is asked; and the log of what it writes to its standard error."""

import os
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from foldline.files import make_private, open_own
from foldline.history import typed_path
from foldline.protocol import FoldlineError

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.text import TextReceiveStream

    from ..sandbox import Sandbox

CALL_SECONDS = 120.0
"""How long a call may take where nothing is set: as long as a command of `bash`."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 6
"""Characters; what is shorter, such as `1` or `true`, would black out half of a log."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server: a program that is started, or an address that is asked. Exactly one of the two is set."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What its environment has beside a few harmless variables of ours, such as PATH and HOME."""
    cwd: str = ""
    """Where it runs; empty is the working directory of the session."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sandbox: bool = True
    """Whether it runs in the sandbox, in the modes that have one; and what more it may write and reach."""
    writable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    timeout: float = CALL_SECONDS
    """Seconds a call may take."""
    literal: bool = False
    """Whether `${NAME}` in it stands for itself: who wrote it may not be who owns our environment."""

    def filled_in(self, environ: Mapping[str, str]) -> "Filled":
        """With the variables it refers to as `${NAME}` in their places.

        Raises:
            FoldlineError: it names neither a program nor an address, or both; or a variable is not set.
        """
        if bool(self.command) == bool(self.url):
            raise FoldlineError(
                f"The MCP server {self.name} needs either a command or a url: set one of them in "
                f"[mcp.{self.name}]."
            )
        used: set[str] = set()

        def filled(text: str) -> str:
            def value(match: re.Match[str]) -> str:
                if match[1] not in environ:
                    raise FoldlineError(
                        f"The MCP server {self.name} needs the environment variable {match[1]}, which is not "
                        f"set: set it, or take it out of [mcp.{self.name}]."
                    )
                used.add(environ[match[1]])
                return environ[match[1]]

            return text if self.literal else _VARIABLE.sub(value, text)

        config = replace(
            self,
            command=filled(self.command),
            args=tuple(map(filled, self.args)),
            env={name: filled(value) for name, value in self.env.items()},
            cwd=filled(self.cwd),
            url=filled(self.url),
            headers={name: filled(value) for name, value in self.headers.items()},
        )
        return Filled(config, _masking([*used, *config.env.values(), *config.headers.values()]))


@dataclass(frozen=True, slots=True)
class Filled:
    """A configuration ready to be used."""

    config: ServerConfig
    masked: Callable[[str], str]
    """A text with `***` for every value that came from `env`, `headers` or a variable."""


def _masking(values: Iterable[str]) -> Callable[[str], str]:
    # "Bearer abc" is secret as a whole, and so is what stands after the blank.
    parts = {part for value in values for part in (value, *value.split())}
    secret = sorted((part for part in parts if len(part) >= _SHORTEST_SECRET), key=len, reverse=True)

    def masked(text: str) -> str:
        for value in secret:
            text = text.replace(value, "***")
        return text

    return masked


# --- the log --------------------------------------------------------------------------------------

_KEPT = 128 * 1024
"""Bytes. The file may grow to twice that, then only the newest are kept."""
_LONGEST_LINE = 16 * 1024
_CATCH_UP = 0.3
"""Seconds; longer where others still hold the output open, and then nobody knows when."""


class ServerLog:
    """The log file of one server, kept through restarts. What cannot be written is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said = ""
        """The end of what it wrote since it was started."""
        self._lock = threading.Lock()
        self._follower: threading.Thread | None = None
        self._tail = bytearray()

    @property
    def last(self) -> str:
        """The last line it wrote that says something."""
        return next((line.strip() for line in reversed(self.said.splitlines()) if line.strip()), "")

    def note(self, sentence: str) -> None:
        """Writes one line of our own."""
        self._keep(f"-- {sentence}\n".encode("utf-8", "replace"))

    def writer(self, masked: Callable[[str], str]) -> TextIO:
        """An end for a process to write to. Close it here once the process has it.

        A thread empties it until all who have it are gone: a server that writes more than is kept is never
        held up. `masked` hides what must not be kept.
        """
        reading, writing = os.pipe()
        self.said = ""
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
        text = "".join(f"{masked(line.decode('utf-8', 'replace').rstrip(chr(13)))}\n" for line in lines)
        self.said = (self.said + text)[-_LONGEST_LINE:]
        self._keep(text.encode("utf-8", "replace"))

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


# --- streams of messages, as the package `mcp` has them ---------------------------------------------

_CONNECT_SECONDS = 30.0
_ENDING_SECONDS = 0.5
"""How long a program has to end by itself once its input is closed; and again, after SIGTERM, until it is
killed. The package waits 2 s each: who quits should not."""
_LARGEST = 16 * 1024 * 1024
"""Bytes, or characters, of one message; the package's own limit for events, 1 MiB, is less than a picture may
be, and for lines it has none."""


@asynccontextmanager
async def program(
    filled: Filled, log: ServerLog, folder: Path, box: "Sandbox | None" = None
) -> AsyncGenerator[Any]:
    """A program in a session of its own, in the sandbox where there is one, ended on leaving; what it says on
    its error output is logged.

    It gets the few variables the package takes for harmless, and those that were set for it.
    """
    from mcp.client import stdio
    from mcp.client.stdio import StdioServerParameters, stdio_client

    stdio.PROCESS_TERMINATION_TIMEOUT = stdio.FORCE_KILL_TIMEOUT = _ENDING_SECONDS
    stdio.TextReceiveStream = _lines_of(log)  # type: ignore[attr-defined]
    config = filled.config
    cwd = folder / typed_path(config.cwd) if config.cwd else folder
    argv, env = [config.command, *config.args], config.env
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
        streams = await stack.enter_async_context(stdio_client(parameters, errlog=errors))
        errors.close()
        yield streams


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
async def over_http(
    config: ServerConfig, refused: Callable[[tuple[int, bool]], None], auth: "httpx2.Auth | None" = None
) -> AsyncGenerator[Any]:
    """Streamable HTTP. `refused` gets the status of each message that was not taken, and whether it is 400
    for want of a session."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def look(response: "httpx2.Response") -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            is_short = 0 < int(response.headers.get("content-length", 0)) < 4_096
            said = await response.aread() if response.status_code == 400 and is_short else b""
            refused((response.status_code, b"session" in said.lower()))

    limits = httpx2.Timeout(_CONNECT_SECONDS, read=config.timeout + _CONNECT_SECONDS)
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers), timeout=limits, event_hooks={"response": [look]}, auth=auth
        ) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=_LARGEST) as streams,
    ):
        yield streams


@asynccontextmanager
async def relayed(
    read: Any, mend: Callable[[Any], None], at_end: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Any]:
    """The server's messages, each result mended in place; calls `at_end` after the last."""
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
