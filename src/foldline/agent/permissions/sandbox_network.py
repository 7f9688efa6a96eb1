"""The sandbox's network: a namespace whose only service is a proxy to allowed hosts."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from foldline.data import real_path
from foldline.programs import program

from . import sandbox_launcher
from .hosts import addresses_of, are_public

LAUNCHER = str(Path(sandbox_launcher.__file__).resolve())
_LONGEST_HEAD = 64 * 1024
"""Maximum size of a request's headers, in bytes.

If they are larger, the connection is closed.
"""
_PATIENCE = 10.0
"""Timeout in seconds for starting the namespace, and for connecting to a host."""
REFUSED = "Foldline's sandbox blocked network access"
"""Text that programs receive instead of a page from a blocked host."""
_REFUSAL = (
    "HTTP/1.1 403 Refused by Foldline's sandbox\r\n"
    "Connection: close\r\n"
    "Content-Type: text/plain\r\n\r\n"
)


Reach = Literal["", "public", "any"]
"""Which addresses of a host commands may reach: none, public ones, or any."""


def python_words(*words: str) -> list[str]:
    """Return the command line that runs `sandbox_launcher` with these arguments.

    It uses the real path of the interpreter, because commands may be able to write to a virtual environment.
    """
    return [real_path(sys.executable), "-I", "-S", LAUNCHER, *words]


class SandboxNetwork:
    """The network namespace and its proxy.

    They exist from the first command until the agent is closed.
    """

    def __init__(self, allows: Callable[[str], Reach]) -> None:
        self._allows = allows
        self.refused: list[str] = []
        """Hosts that the proxy rejected, newest last."""
        self._pid = 0
        self._channel: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._holder: asyncio.subprocess.Process | None = None

    @property
    def entering(self) -> list[str]:
        """The words to put before a command so that it runs in this network."""
        users = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [program("nsenter"), *users, "--net", "--target", str(self._pid)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make programs use the proxy."""
        variables = dict.fromkeys(
            _PROXY_VARIABLES, f"http://127.0.0.1:{sandbox_launcher.PORT}"
        )
        variables["no_proxy"] = "localhost,127.0.0.1,::1"
        variables |= {name.upper(): value for name, value in variables.items()}
        variables["NODE_USE_ENV_PROXY"] = "1"
        return variables

    async def start(self) -> None:
        """Create the namespace and start the proxy.

        Raises:
            OSError: the system does not allow this namespace.
        """
        ours, theirs = socket.socketpair()
        users = [] if os.geteuid() == 0 else ["--unshare-user"]
        words = [
            program("bwrap"),
            *users,
            "--unshare-net",
            "--die-with-parent",
            "--dev-bind",
            "/",
            "/",
            "--",
        ]
        self._channel = ours
        with theirs:
            self._holder = await asyncio.create_subprocess_exec(
                *words,
                *python_words("hold", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.settimeout(_PATIENCE)
        pid, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 64, 1)
        if not descriptors:
            raise OSError("the network namespace could not be created")
        self._pid = int(pid)
        listening = socket.socket(fileno=descriptors[0])
        self._server = await asyncio.start_server(
            self._serve, sock=listening, limit=_LONGEST_HEAD
        )

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._channel is not None:
            self._channel.close()
        if self._holder is not None:
            with suppress(ProcessLookupError):
                self._holder.kill()
            await self._holder.wait()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._relay(reader, writer)
        except (
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            TimeoutError,
        ):
            pass  # the connection is closed
        finally:
            writer.close()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        host, port, path = _parts(method, target)
        addresses = await self._addresses(host, port)
        if not addresses:
            if host not in self.refused:
                self.refused.append(host)
            writer.write(f"{_REFUSAL}{REFUSED}: {host}\n".encode())
            await writer.drain()
            return
        async with asyncio.timeout(_PATIENCE):
            host_reader, host_writer = await asyncio.open_connection(addresses[0], port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host_writer.write(_direct_request(head, method, path))
        try:
            await asyncio.gather(_copy(reader, host_writer), _copy(host_reader, writer))
        finally:
            host_writer.close()

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Resolve a host on behalf of the sandbox.

        Returns no addresses if the host is not allowed.
        """
        reach = self._allows(host)
        if not reach:
            return ()
        addresses = await asyncio.to_thread(addresses_of, host, port)
        return addresses if reach == "any" or are_public(addresses) else ()


_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def _parts(method: str, target: str) -> tuple[str, int, str]:
    """Return host, port and path of a request to the proxy.

    Raises:
        ValueError: the request is not valid.
    """
    default_port = "443"
    location = target
    if method != "CONNECT":
        default_port = "80"
        scheme, _, location = target.partition("://")
        if scheme != "http":
            raise ValueError(target)
    netloc, slash, path = location.partition("/")
    host, colon, port = netloc.rpartition(":")
    if not colon or port.endswith("]"):
        host = netloc
        port = default_port
    return host.strip("[]").rstrip(".").lower(), int(port), slash + path or "/"


def _direct_request(head: bytes, method: str, path: str) -> bytes:
    """Convert a request to the proxy into a request to the host.

    The connection is closed after the new request, so that the next request is checked again.
    """
    headers = head.split(b"\r\n")[1:-2]
    headers = [
        line
        for line in headers
        if not line.lower().startswith((b"connection:", b"proxy-"))
    ]
    return b"\r\n".join(
        [f"{method} {path} HTTP/1.1".encode(), *headers, b"Connection: close", b"", b""]
    )


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(64 * 1024):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
