"""The SDK's client, made one way for all we ask: it tries once, follows no redirect, and reads no more of a
failure than anybody wants to know. Imported where a request is made: `openai` takes a third of a second."""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

import httpx2
import openai

from .providers import OPENAI, host_of, is_local

LONGEST_FAILURE = 64 * 2**10
"""Bytes of an answer with an error status, unpacked: enough for any sentence in it."""
LONGEST_LISTING = 4 * 2**20
"""Bytes of an answer that is JSON, and read whole; the longest list of models known is a fifth of it."""


def sdk_client(
    base_url: str, key: str, *, idle_seconds: float, connect_seconds: float, headers: Mapping[str, str]
) -> openai.AsyncOpenAI:
    """The client of a server. Retries are ours: they are announced and can be cancelled. Blocks.

    `headers` go with every request. On the way to a local server nothing is encrypted, and no certificate is
    read: that takes 25 ms.
    """
    timeout = openai.Timeout(idle_seconds, connect=connect_seconds)
    unsent: dict[str, openai.Omit] = {name: openai.Omit() for name in _meant_for_openai(base_url)}
    local = is_local(base_url)
    return openai.AsyncOpenAI(
        api_key=key or "none",  # The SDK insists on a key; servers that need none ignore it.
        base_url=base_url,
        max_retries=0,
        timeout=timeout,
        default_headers={**unsent, **headers},  # type: ignore[dict-item]
        http_client=openai.DefaultAsyncHttpx2Client(
            timeout=timeout,
            # A proxy of the environment is not meant for this machine and its neighbours.
            trust_env=not local,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if local and base_url.startswith("http:")
            else True,
            follow_redirects=False,  # A conversation is meant for one server.
            event_hooks={"response": [_bound]},
        ),
    )


def _meant_for_openai(base_url: str) -> list[str]:
    """Headers that the SDK makes of the environment for every server, though they are about OpenAI."""
    if host_of(base_url) == OPENAI.host:
        return []
    custom = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    named = [name.strip() for name, colon, _ in (line.partition(":") for line in custom) if colon]
    return ["OpenAI-Organization", "OpenAI-Project", *named]


async def _bound(response: httpx2.Response) -> None:
    """Bounds what the SDK reads whole; streamed answers are bounded where they are read."""
    if not response.is_success:
        _cut(response, LONGEST_FAILURE)
    elif "json" in response.headers.get("content-type", ""):
        _cut(response, LONGEST_LISTING)


def _cut(response: httpx2.Response, most: int) -> None:
    """Ends the body after `most` bytes. What is packed is unpacked first, or it would grow behind the cut:
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
