"""JSON-RPC messages, one a line. stdout is theirs alone: what else is written there goes to stderr."""

import asyncio
import json
import os
import threading
from contextlib import suppress
from typing import Any, Final

from foldline.protocol import FoldlineError

MOST: Final = 64 * 1024 * 1024
"""Bytes of one message: a prompt with pictures."""
_LAST_WORDS: Final = 1.0
"""Seconds in which what was said is to be read once the input has ended."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600

Message = dict[str, Any]


class Stdio:
    """What the package calls a transport. What is no message is answered with an error, and read over."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        # A thread, as stdin may be what no event loop can wait for. It ends with the program.
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    @classmethod
    async def open(cls) -> "Stdio":
        """
        Raises:
            FoldlineError: stdout is a file.
        """
        out = os.fdopen(os.dup(1), "wb", 0)
        os.dup2(2, 1)
        loop = asyncio.get_running_loop()
        try:
            transport, flow = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), out
            )
        except ValueError:
            raise FoldlineError("`foldline acp` speaks with an editor: its stdout must be a pipe.") from None
        transport.set_write_buffer_limits(0)  # so that `drain` waits until all is on its way
        return cls(asyncio.StreamWriter(transport, flow, None, loop))

    async def receive(self) -> Message | None:
        """The next message; None where the input has ended."""
        while line := await self._lines.get():
            if len(line) > MOST:
                await self._refuse(_INVALID_REQUEST, f"A message of more than {MOST:,} bytes is not read.")
                continue
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "This is no JSON.")
                continue
            if _is_message(message):
                return dict(message)
            await self._refuse(_INVALID_REQUEST, "This is no message of JSON-RPC.")
        return None

    async def send(self, message: Message) -> None:
        data = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            self._lines.put_nowait(b"")  # nobody reads any more: as if the input had ended

    async def close(self) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._writer.drain()
        self._writer.transport.abort()

    async def _refuse(self, code: int, sentence: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": sentence}})

    def _read(self) -> None:
        with open(0, "rb", closefd=False) as stream:  # `sys.stdin` has a lock
            line = b"\n"
            while line:
                rest = line = stream.readline(MOST + 1)
                while len(rest) > MOST and not rest.endswith(b"\n"):
                    rest = stream.readline(MOST + 1)
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _is_message(value: object) -> bool:
    """Whether it can be handed on: the package trusts these fields to have their types."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str | int | float | None):
        return False
    return isinstance(value.get("method"), str | None) and isinstance(value.get("error"), dict | None)
