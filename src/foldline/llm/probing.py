"""Whether a model server answers at an address on this computer: asked for a moment, without the SDK."""

import asyncio
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

MOMENT: Final = 0.3
"""Seconds within which a server on this computer answers, or is taken for none."""
_LOOK: Final = 4_096
"""Bytes of an answer that are looked at."""
_LISTS: Final = (b'"data"', b'"models"')
"""What the answer of `/models` holds: OpenAI's form, and Ollama's own."""


async def answers(base_url: str, seconds: float = MOMENT) -> bool:
    """Whether `/models` is known there. A server that wants a key first counts, anything else that listens at
    the port does not. Never raises for what the network does."""
    with suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(seconds):
            return _is_model_server(await _answer(base_url))
    return False


async def _answer(base_url: str) -> bytes:
    """The beginning of what the server says."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=parts.scheme == "https" or None)
    try:
        path = parts.path.rstrip("/") + "/models"
        request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        said = b""
        while len(said) < _LOOK and not _is_model_server(said) and (piece := await reader.read(_LOOK)):
            said += piece
        return said
    finally:
        writer.close()


def _is_model_server(said: bytes) -> bool:
    status = said.split(b" ", 2)[1:2]
    if status == [b"200"]:
        return any(word in said for word in _LISTS)
    return status in ([b"401"], [b"403"])
