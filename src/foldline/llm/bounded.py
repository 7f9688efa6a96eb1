"""An HTTP client that reads no more of a failure than anybody wants to know, and goes where it was sent."""

import ssl
from collections.abc import AsyncIterator

import httpx2
import openai

LONGEST_FAILURE = 64 * 2**10
"""Bytes of an answer with an error status: enough for any sentence in it."""
LONGEST_LISTING = 16 * 2**20
"""Bytes of an answer that is JSON, and read whole; the longest list of models known is a twentieth of it."""


def http_client(timeout: openai.Timeout, *, trust_env: bool, encrypted: bool) -> httpx2.AsyncClient:
    """The SDK's own HTTP client, bounded. It follows no redirect: a conversation is meant for one server.

    Where nothing is `encrypted`, it trusts no certificate at all: reading those of the world takes 25 ms.
    """
    return openai.DefaultAsyncHttpx2Client(
        timeout=timeout,
        trust_env=trust_env,
        verify=True if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        follow_redirects=False,
        event_hooks={"response": [_bound]},
    )


async def _bound(response: httpx2.Response) -> None:
    """Streamed answers have their bound where they are read; what the SDK reads whole gets it here."""
    if isinstance(response.stream, httpx2.AsyncByteStream):
        if not response.is_success:
            response.stream = _Until(response.stream, LONGEST_FAILURE)
        elif "json" in response.headers.get("content-type", ""):
            response.stream = _Until(response.stream, LONGEST_LISTING)


class _Until(httpx2.AsyncByteStream):
    """A stream that ends early."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()
