"""The transfer: one GET after another until something comes that is no redirect.

Only addresses that were looked at before are connected to: the name of the host goes into the header and the
handshake, never to a resolver again.
"""

import asyncio
import os
import ssl
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foldline.version import __version__

from ..failure import ToolFailure
from .addresses import are_public, no_such_host
from .locations import Location

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Request, Response

MOST_BYTES = 10_000_000
"""Of an answer; more is not read."""
_SECONDS = 60
"""For the whole of it."""
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 20
_REDIRECTS = 5
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, image/*;q=0.5, */*;q=0.1"
_AGENT = f"Foldline/{__version__} (coding agent; fetches a page at its user's word)"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came."""

    location: Location
    """Where from, after redirects."""
    status: int
    reason: str
    content_type: str
    content: bytes
    is_cut: bool
    """Whether there was more than is read."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A redirect that was not followed."""

    location: Location


async def transferred(location: Location, addresses: Sequence[str]) -> Answer | Elsewhere:
    """What is at this location, whose host has these addresses. Redirects are followed on the same site only.

    Raises:
        ToolFailure: nothing came.
    """
    import httpx2

    secure = await asyncio.to_thread(httpx2.create_ssl_context)
    proxy = _proxy(location, addresses)
    if not addresses and proxy is None:
        raise no_such_host(location.host)
    try:
        async with (
            asyncio.timeout(_SECONDS),
            # Nothing of the environment: no password from ~/.netrc, no proxy but the one found here.
            httpx2.AsyncClient(
                trust_env=False,
                verify=secure,
                proxy=proxy,
                timeout=httpx2.Timeout(_IDLE_SECONDS, connect=_CONNECT_SECONDS),
                headers={"User-Agent": _AGENT, "Accept": _ACCEPT, "Accept-Encoding": "gzip"},
            ) as client,
        ):
            return await _followed(client, location, [] if proxy else addresses)
    except TimeoutError:
        raise _not_had(location, f"it took longer than {_SECONDS} s") from None
    except httpx2.TimeoutException:
        raise _not_had(location, "no answer came in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, ValueError) as error:
        raise _not_had(location, _words(error)) from None


async def _followed(
    client: "AsyncClient", location: Location, addresses: Sequence[str]
) -> Answer | Elsewhere:
    for _ in range(_REDIRECTS + 1):
        response = await _asked(client, location, addresses)
        try:
            target = response.headers.get("location") if response.is_redirect else None
            if target is None:
                return await _read(location, response)
        finally:
            await response.aclose()
        following = location.joined(target)
        if following.host != location.host or not _is_same_door(location, following):
            return Elsewhere(following)
        location = following
    raise ToolFailure(f"{location.url} redirects more than {_REDIRECTS} times.", brief="redirects ✗")


def _is_same_door(before: Location, after: Location) -> bool:
    """Whether a redirect stays where it was allowed: on its port, or from http to https."""
    if before.port == after.port:
        return before.is_safe == after.is_safe
    return (before.port, after.port) == (80, 443)


async def _asked(client: "AsyncClient", location: Location, addresses: Sequence[str]) -> "Response":
    """The answer of the first address that can be connected to; without any, by name, through the proxy."""
    import httpx2

    trouble: Exception | None = None
    for address in addresses or [""]:
        try:
            return await client.send(_request(client, location, address), stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            trouble = trouble or error
    assert trouble is not None
    raise trouble


def _request(client: "AsyncClient", location: Location, address: str) -> "Request":
    url = location.url
    if not address:
        return client.build_request("GET", url)
    return client.build_request(
        "GET",
        url.copy_with(host=address),
        headers={"Host": url.netloc.decode("ascii")},
        extensions={"sni_hostname": location.host},
    )


async def _read(location: Location, response: "Response") -> Answer:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise _not_had(location, "it came compressed in a way that was not asked for")
    raw = bytearray()
    async for piece in response.aiter_raw():
        raw += piece
        if len(raw) > MOST_BYTES:
            break
    content = await asyncio.to_thread(_unpacked, bytes(raw), location) if "gzip" in encoding else bytes(raw)
    return Answer(
        location,
        response.status_code,
        response.reason_phrase,
        response.headers.get("content-type", ""),
        content[:MOST_BYTES],
        len(content) > MOST_BYTES or len(raw) > MOST_BYTES,
    )


def _unpacked(packed: bytes, location: Location) -> bytes:
    """Unpacked by hand, because a few bytes can stand for gigabytes."""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(packed, MOST_BYTES + 1)
    except zlib.error:
        raise _not_had(location, "what came is damaged (no valid gzip)") from None


def _proxy(location: Location, addresses: Sequence[str]) -> str | None:
    """The proxy of the environment for this location: not for what is private, which is asked directly."""
    if (addresses and not are_public(addresses)) or urllib.request.proxy_bypass(location.host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(location.url.scheme) or proxies.get("all")


def _not_had(location: Location, why: str) -> ToolFailure:
    return ToolFailure(f"{location.url} could not be fetched: {why}.", brief="failed ✗")


def _words(error: Exception) -> str:
    """What went wrong, in the system's words where it says more than the library."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({cause.verify_message.rstrip('.')})"
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return str(error).rstrip(".") or type(error).__name__
