"""JSON-RPC messages on stdin and stdout, one per line.

Any other output to stdout is redirected to stderr.
"""

import asyncio
import json
import os
import threading
from contextlib import suppress
from typing import Any

from foldline.cli.arguments import NEEDS_PIPES
from foldline.json_text import parse_json
from foldline.protocol import FoldlineError

TOO_LARGE = "The message has more than {most:,} bytes."
MOST = 64 * 1024 * 1024
"""Maximum size of a message, in bytes.

Prompts with images are within this limit. Larger messages are rejected.
"""
_DRAIN_TIMEOUT = 1.0
"""Maximum wait at exit, in seconds, for the client to read the remaining output."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600

Message = dict[str, Any]


class Stdio:
    """A transport for the ACP package.

    It answers invalid messages with an error.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        # Read in a daemon thread, because event loops cannot wait for every type of stdin.
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    @classmethod
    async def open(cls) -> "Stdio":
        """Take over stdin and stdout.

        Raises:
            FoldlineError: stdout is a file, not a pipe.
        """
        out = os.fdopen(os.dup(1), "wb", 0)
        os.dup2(2, 1)
        loop = asyncio.get_running_loop()
        try:
            transport, flow = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), out
            )
        except ValueError:
            raise FoldlineError(NEEDS_PIPES) from None
        # With a limit of 0, `drain` waits until everything has been written.
        transport.set_write_buffer_limits(0)
        return cls(asyncio.StreamWriter(transport, flow, None, loop))

    async def receive(self) -> Message | None:
        """Read the next message.

        Returns None at the end of the input.
        """
        while line := await self._lines.get():
            if len(line) > MOST:
                await self._refuse(_INVALID_REQUEST, TOO_LARGE.format(most=MOST))
                continue
            if not line.strip():
                continue
            try:
                message = parse_json(line)
            except ValueError:
                await self._refuse(_PARSE_ERROR, "The message is not JSON.")
                continue
            if _is_message(message):
                return dict(message)
            await self._refuse(_INVALID_REQUEST, "The message is not JSON-RPC.")
        return None

    async def send(self, message: Message) -> None:
        data = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            self._lines.put_nowait(b"")  # the client is gone, so end the input

    async def close(self) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                await self._writer.drain()
        self._writer.transport.abort()

    async def _refuse(self, code: int, sentence: str) -> None:
        await self.send(
            {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": sentence}}
        )

    def _read(self) -> None:
        # Do not use `sys.stdin`, which has a lock.
        with open(0, "rb", closefd=False) as stream:
            line = b"\n"
            while line:
                line = stream.readline(MOST + 1)
                chunk = line
                while len(chunk) > MOST and not chunk.endswith(b"\n"):
                    chunk = stream.readline(MOST + 1)
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _is_message(value: object) -> bool:
    """Return whether a value is a valid message.

    Checks the types of the fields that the ACP package relies on.
    """
    if not isinstance(value, dict) or not isinstance(
        value.get("id"), str | int | float | None
    ):
        return False
    return isinstance(value.get("method"), str | None) and isinstance(
        value.get("error"), dict | None
    )
