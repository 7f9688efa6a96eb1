"""The network of the sandbox: a namespace that holds nothing but our proxy. The proxy connects to allowed
hosts and records those that it refused."""

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
from foldline.protocol import FoldlineError

from . import sandbox_launcher
from .tools.web import addresses_of, are_public

LAUNCHER = str(Path(sandbox_launcher.__file__).resolve())
_LONGEST_HEAD = 64 * 1024
_PATIENCE = 10.0
"""Seconds for the namespace to begin, and for a host to be connected to."""
REFUSED = "Foldline's sandbox refused the network"
"""What a program reads in place of a page."""
_REFUSAL = (
    "HTTP/1.1 403 Refused by Foldline's sandbox\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
)


Reach = Literal["", "public", "any"]
"""Whether a host may be connected to: not at all, at public addresses, wherever it is."""


def python_words(*words: str) -> list[str]:
    """Our launcher with these words: by the interpreter itself, for that of a virtual environment may lie in
    the folder that commands write to."""
    return [real_path(sys.executable), "-I", "-S", LAUNCHER, *words]


class SandboxNetwork:
    """Begins with the first command that needs it, ends with the agent."""

    def __init__(self, allows: Callable[[str], Reach]) -> None:
        self._allows = allows
        self.refused: list[str] = []
        """The hosts that were refused, newest last."""
        self._pid = 0
        self._channel: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._holder: asyncio.subprocess.Process | None = None

    @property
    def entering(self) -> list[str]:
        """The words before a command that bring it there."""
        users = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [program("nsenter"), *users, "--net", "--target", str(self._pid)]

    @property
    def environment(self) -> dict[str, str]:
        """What programs look for that know of proxies."""
        proxy, direct = f"http://127.0.0.1:{sandbox_launcher.PORT}", "localhost,127.0.0.1,::1"
        names = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": direct}
        return names | {name.upper(): value for name, value in names.items()} | {"NODE_USE_ENV_PROXY": "1"}

    async def start(self) -> None:
        """
        Raises:
            OSError: the system does not give us a network of our own.
        """
        ours, theirs = socket.socketpair()
        users = [] if os.geteuid() == 0 else ["--unshare-user"]
        words = [program("bwrap"), *users, "--unshare-net", "--die-with-parent", "--dev-bind", "/", "/", "--"]
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
        said, handed, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 64, 1)
        if not handed:
            raise OSError("no network of its own could be made")
        self._pid = int(said)
        listening = socket.socket(fileno=handed[0])
        self._server = await asyncio.start_server(self._served, sock=listening, limit=_LONGEST_HEAD)

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._channel is not None:
            self._channel.close()
        if self._holder is not None:
            with suppress(ProcessLookupError):
                self._holder.kill()
            await self._holder.wait()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._proxied(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # it gets what a broken connection gets
        finally:
            writer.close()

    async def _proxied(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            there, back = await asyncio.open_connection(addresses[0], port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            back.write(_as_asked_of_it(head, method, path))
        try:
            await asyncio.gather(_passed(reader, back), _passed(there, writer))
        finally:
            back.close()

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Of a host that is allowed; looked up here, once: none in the sandbox can."""
        reach = self._allows(host)
        if not reach:
            return ()
        try:
            found = await asyncio.to_thread(addresses_of, host, port)
        except FoldlineError:
            return ()
        return found if reach == "any" or are_public(found) else ()


def _parts(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and path of what a proxy is asked for.

    Raises:
        ValueError: it is asked for something else.
    """
    scheme, _, rest = target.partition("://")
    if method == "CONNECT":
        scheme, rest = "https", target
    elif scheme != "http":
        raise ValueError(target)
    place, slash, path = rest.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = place, "443" if scheme == "https" else "80"
    return host.strip("[]").rstrip(".").lower(), int(port), slash + path or "/"


def _as_asked_of_it(head: bytes, method: str, path: str) -> bytes:
    """A request as the host itself gets it; the connection ends with its answer, so that what comes next is
    looked at again."""
    lines = head.split(b"\r\n")[1:-2]
    kept = [line for line in lines if not line.lower().startswith((b"connection:", b"proxy-"))]
    return b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *kept, b"Connection: close", b"", b""])


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(64 * 1024):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
