"""Reaching a server: the SDK's client, made one way for all we ask of it, and whether it is a local one."""

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def sdk_client(base_url: str, key: str, *, idle_seconds: float, connect_seconds: float) -> "AsyncOpenAI":
    """A client that tries once: retries are ours, because they are announced and cancellable.

    Importing the SDK and making a client block for long: do it in a thread.
    """
    import openai

    timeout = openai.Timeout(idle_seconds, connect=connect_seconds)
    return openai.AsyncOpenAI(
        # The SDK insists on a key; servers that need none ignore it.
        api_key=key or "none",
        base_url=base_url,
        max_retries=0,
        timeout=timeout,
        # A proxy of the environment is not meant for this machine and its neighbours.
        http_client=openai.DefaultAsyncHttpx2Client(timeout=timeout, trust_env=False)
        if is_local(base_url)
        else None,
    )


def is_local(base_url: str) -> bool:
    """Whether a server is on this machine or a private network: such servers need no key."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
