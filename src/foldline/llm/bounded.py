"""An HTTP client that reads no more of a failure than anybody wants to know, and goes where it was sent."""

import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2
import openai

LONGEST_FAILURE = 64 * 2**10
"""Bytes of an answer with an error status, unpacked: enough for any sentence in it."""
LONGEST_LISTING = 4 * 2**20
"""Bytes of an answer that is JSON, and read whole; the longest list of models known is a fifth of it."""


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
    if not response.is_success:
        _cut(response, LONGEST_FAILURE)
    elif "json" in response.headers.get("content-type", ""):
        _cut(response, LONGEST_LISTING)


def _cut(response: httpx2.Response, most: int) -> None:
    """Let its body end after so many bytes. What is packed is unpacked here, or it would grow behind the cut:
    64 KB come to 64 MB and more."""
    if isinstance(response.stream, httpx2.AsyncByteStream):
        packed = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream, request=response.request
        )
        response.stream = _Until(packed, most)
        response.headers.pop("content-encoding", None)


class _Until(httpx2.AsyncByteStream):
    """The unpacked body of a response, up to its first so many bytes."""

    def __init__(self, response: httpx2.Response, most: int) -> None:
        self._response = response
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async with aclosing(self._response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return

    async def aclose(self) -> None:
        await self._response.aclose()
