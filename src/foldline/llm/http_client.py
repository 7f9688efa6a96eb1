"""The SDK's client, without retries or redirects, and with size limits.

This module is imported at the first request, because importing an SDK takes a third of a second. The OpenAI
and Anthropic SDKs were created by the same generator, and differ only in names.
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

from foldline.json_text import JsonFields

from . import failures
from .failures import Endpoint, Failure
from .providers import PROVIDERS, Api, Provider, host_of, is_local

LONGEST_FAILURE = 64 * 2**10
"""Maximum size of a decompressed error body, in bytes. Real error messages are shorter."""
LONGEST_LISTING = 4 * 2**20
"""Maximum size of a JSON response, in bytes.

The longest known list of models is a fifth of this size.
"""


def sdk_of(api: Api) -> ModuleType:
    """Import the SDK for an API. Importing it blocks for a while."""
    return import_module("anthropic" if api == "messages" else "openai")


class Sdk:
    """The SDK's client for a server.

    The SDK's errors contain the request, including the key, so they must not be passed on.
    """

    def __init__(
        self,
        provider: Provider,
        key: str,
        *,
        idle_seconds: float,
        connect_seconds: float,
    ) -> None:
        """Create the client. This blocks while the SDK is imported."""
        self._module = sdk_of(provider.api)
        self.failed: type[Exception] = self._module.APIError
        """Base type of the SDK's errors."""
        self._failed_with_status: type[Any] = self._module.APIStatusError
        """Type of the SDK's errors that have a `response`."""
        self._timed_out: type[Exception] = self._module.APITimeoutError
        self._idle_seconds = idle_seconds
        self._client = _client(
            self._module, provider, key, idle_seconds, connect_seconds
        )
        self._keeps_connection = False
        """Whether a connection has been kept open.

        The server may have closed it in the meantime.
        """

    async def stream(
        self, path: str, body: JsonFields, headers: Mapping[str, str]
    ) -> Any:
        """Send a POST request, and return a stream with its `response`.

        Raises:
            Exception: an exception of the type `failed`.
        """
        kind = self._module.AsyncStream[object]
        options = {"headers": headers} if headers else {}
        # Pass bytes: Anthropic's SDK would first copy the entire body, which takes longer than writing it.
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

    async def ask(
        self, path: str, body: JsonFields | None, seconds: float | None = None
    ) -> object:
        """Send a small request, and return the JSON of the response.

        Sends a POST request if there is a `body`, otherwise a GET request.

        Args:
            seconds: timeout for GET requests. POST requests have none, because they may take a long time.

        Raises:
            Exception: an exception of the type `failed`, or ValueError or RecursionError for invalid JSON.
        """
        if body is not None:
            return await self._sent(
                partial(self._client.post, path, cast_to=object, body=body)
            )
        options = {"timeout": seconds}
        return await self._sent(
            partial(self._client.get, path, cast_to=object, options=options)
        )

    async def _sent(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request.

        If a connection that was kept open breaks before the response, the request is sent again.
        """
        was_kept = self._keeps_connection
        self._keeps_connection = False
        try:
            answer = await send()
        except self._failed_with_status:
            self._keeps_connection = True
            raise
        except self._module.APIConnectionError as error:
            if not was_kept or isinstance(error, self._timed_out):
                raise
            answer = await send()
        self._keeps_connection = True
        return answer

    def failure(self, error: Exception, at: Endpoint) -> Failure:
        """Describe an error of the type `failed`, which the SDK raised before the answer's body."""
        if isinstance(error, self._failed_with_status):
            headers = {
                name.lower(): value for name, value in error.response.headers.items()
            }
            return failures.status_failure(
                at, error.status_code, error.response.text, headers
            )
        # ConnectError or ConnectTimeout of the SDK's HTTP library
        if "Connect" in type(error.__cause__).__name__:
            return failures.unreachable_failure(at, error)
        if isinstance(error, self._timed_out):
            return failures.stalled_failure(at, self._idle_seconds)
        return failures.broken_failure(at)

    async def aclose(self) -> None:
        await self._client.close()


def _client(
    sdk: ModuleType, provider: Provider, key: str, idle: float, connect: float
) -> Any:
    """Create the SDK's client, without its retries.

    Foldline retries requests itself, so that retries are shown and can be cancelled. For local servers
    without encryption, no certificates are loaded, which saves 25 ms.
    """
    anthropic = provider.api == "messages"
    url = provider.base_url.rstrip("/")
    if anthropic and not url.endswith(
        "/v1"
    ):  # URLs omit it because Anthropic's SDK adds it
        url += "/v1"
    local, timeout = is_local(url), httpx2.Timeout(idle, connect=connect)
    http = sdk.DefaultAsyncHttpxClient if anthropic else sdk.DefaultAsyncHttpx2Client
    make = sdk.AsyncAnthropic if anthropic else sdk.AsyncOpenAI
    headers = dict(provider.headers)
    if anthropic and key and host_of(url) != PROVIDERS["anthropic"].host:
        headers.setdefault(
            "x-api-key", key
        )  # The SDK's own method is newer than many compatible servers.
    return make(
        api_key=key
        or "none",  # The SDK requires a key, which servers without keys ignore.
        base_url=url,
        max_retries=0,
        timeout=timeout,
        default_headers={name: sdk.Omit() for name in _meant_for_another(provider)}
        | headers,
        http_client=http(
            timeout=timeout,
            # A proxy set in the environment is not meant for this machine and its local network.
            trust_env=not local,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if local and url.startswith("http:")
            else True,
            follow_redirects=False,  # Do not follow redirects: a conversation is meant for one server only.
            event_hooks={"response": [_bound]},
        ),
        **(
            {"open_telemetry": False} if anthropic else {}
        ),  # Disable the SDK's telemetry.
    )


def _meant_for_another(provider: Provider) -> list[str]:
    """Return the headers from the environment that are meant for another server.

    The SDK would otherwise send these headers.
    """
    maker = "anthropic" if provider.api == "messages" else "openai"
    if provider.host == PROVIDERS[maker].host:
        return []
    custom = os.environ.get(f"{maker.upper()}_CUSTOM_HEADERS", "").splitlines()
    named = [
        name.strip()
        for name, colon, _ in (line.partition(":") for line in custom)
        if colon
    ]
    return [
        *(["OpenAI-Organization", "OpenAI-Project"] if maker == "openai" else []),
        *named,
    ]


async def _bound(response: httpx2.Response) -> None:
    """Limit the size of response bodies that the SDK reads completely.

    Streams are limited by their reader.
    """
    if not response.is_success:
        _cut(response, LONGEST_FAILURE)
    elif "json" in response.headers.get("content-type", ""):
        _cut(response, LONGEST_LISTING)


def _cut(response: httpx2.Response, most: int) -> None:
    """Cut off the body after `most` decompressed bytes.

    A limit on compressed bytes would not be enough: 64 KB can expand to 64 MB.
    """
    if isinstance(response.stream, httpx2.AsyncByteStream):
        packed = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
        )
        response.stream = _Until(packed, most)
        response.headers.pop("content-encoding", None)


class _Until(httpx2.AsyncByteStream):
    """The beginning of a response's decompressed body, up to a size limit."""

    def __init__(self, response: httpx2.Response, most: int) -> None:
        self._response = response
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = self._most
        async with aclosing(self._response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                yield chunk[:remaining]
                remaining -= len(chunk)
                if remaining <= 0:
                    return

    async def aclose(self) -> None:
        await self._response.aclose()
