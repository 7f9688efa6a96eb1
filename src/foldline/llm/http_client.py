"""The SDK's client, made one way for all we ask: it tries once, follows no redirect, and reads no more of a
failure than anybody wants to know. Imported where a request is made: an SDK takes a third of a second.

OpenAI's and Anthropic's come out of one generator and differ in names alone.
"""

import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import httpx2

from .providers import PROVIDERS, Api, Provider, host_of, is_local

LONGEST_FAILURE = 64 * 2**10
"""Bytes of an answer with an error status, unpacked: enough for any sentence in it."""
LONGEST_LISTING = 4 * 2**20
"""Bytes of an answer that is JSON, and read whole; the longest list of models known is a fifth of it."""


def sdk_of(api: Api) -> ModuleType:
    """The SDK for an API; the import blocks."""
    return import_module("anthropic" if api == "messages" else "openai")


class Sdk:
    """The SDK's client of one server. Its errors hold the request, and the key in it."""

    def __init__(self, provider: Provider, key: str, *, idle_seconds: float, connect_seconds: float) -> None:
        """Blocks."""
        self._module = sdk_of(provider.api)
        self.failed: type[Exception] = self._module.APIError
        self.failed_with_status: type[Any] = self._module.APIStatusError
        """With the `response`."""
        self.timed_out: type[Exception] = self._module.APITimeoutError
        self.unreachable: type[Exception] = self._module.APIConnectionError
        self._client = _client(self._module, provider, key, idle_seconds, connect_seconds)
        self._keeps_connection = False
        """Whether a connection may be open that the server has closed in the meantime."""

    async def stream(self, path: str, body: Mapping[str, object], headers: Mapping[str, str]) -> Any:
        """The answer to a POST, a stream whose `response` is to be read.

        Raises:
            Exception: `failed`.
        """
        kind = self._module.AsyncStream[object]
        options = {"headers": headers} if headers else {}
        # Bytes: Anthropic's SDK would copy all of the body first, which takes longer than to write it.
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        send = partial(
            self._client.post,
            path,
            cast_to=object,
            content=content,
            stream=True,
            stream_cls=kind,
            options=options,
        )
        return await self._sent(send)

    async def ask(self, path: str, body: Mapping[str, object] | None, seconds: float | None = None) -> object:
        """The JSON that answers a GET within `seconds`, or a POST of `body`, which may take long.

        Raises:
            Exception: `failed`, or ValueError or RecursionError where the JSON is none.
        """
        if body is not None:
            return await self._sent(partial(self._client.post, path, cast_to=object, body=body))
        options = {"timeout": seconds}
        return await self._sent(partial(self._client.get, path, cast_to=object, options=options))

    async def _sent(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request; at once a second time if a kept connection breaks before the answer begins."""
        was_kept = self._keeps_connection
        self._keeps_connection = False
        try:
            answer = await send()
        except self.failed_with_status:
            self._keeps_connection = True
            raise
        except self.unreachable as error:
            if not was_kept or isinstance(error, self.timed_out):
                raise
            answer = await send()
        self._keeps_connection = True
        return answer

    async def aclose(self) -> None:
        await self._client.close()


def _client(sdk: ModuleType, provider: Provider, key: str, idle: float, connect: float) -> Any:
    """Retries are ours: they are announced and can be cancelled. On the way to a local server nothing is
    encrypted, and no certificate is read: that takes 25 ms."""
    anthropic = provider.api == "messages"
    url = provider.base_url.rstrip("/")
    if anthropic and not url.endswith("/v1"):  # Compatible servers are named without it, for Anthropic's SDK.
        url += "/v1"
    local, timeout = is_local(url), httpx2.Timeout(idle, connect=connect)
    http = sdk.DefaultAsyncHttpxClient if anthropic else sdk.DefaultAsyncHttpx2Client
    make = sdk.AsyncAnthropic if anthropic else sdk.AsyncOpenAI
    headers = dict(provider.headers)
    if anthropic and key and host_of(url) != PROVIDERS["anthropic"].host:
        headers.setdefault("x-api-key", key)  # The SDK's own way is newer than many compatible servers.
    return make(
        api_key=key or "none",  # The SDK insists on a key; servers that need none ignore it.
        base_url=url,
        max_retries=0,
        timeout=timeout,
        default_headers={name: sdk.Omit() for name in _meant_for_another(provider)} | headers,
        http_client=http(
            timeout=timeout,
            # A proxy of the environment is not meant for this machine and its neighbours.
            trust_env=not local,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local and url.startswith("http:") else True,
            follow_redirects=False,  # A conversation is meant for one server.
            event_hooks={"response": [_bound]},
        ),
        **({"open_telemetry": False} if anthropic else {}),  # Disable the SDK's telemetry.
    )


def _meant_for_another(provider: Provider) -> list[str]:
    """Headers that the SDK makes of the environment for every server, though they are about its maker."""
    maker = "anthropic" if provider.api == "messages" else "openai"
    if provider.host == PROVIDERS[maker].host:
        return []
    custom = os.environ.get(f"{maker.upper()}_CUSTOM_HEADERS", "").splitlines()
    named = [name.strip() for name, colon, _ in (line.partition(":") for line in custom) if colon]
    return [*(["OpenAI-Organization", "OpenAI-Project"] if maker == "openai" else []), *named]


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
