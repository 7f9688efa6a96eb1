"""Reaching a server: the SDK's client, made one way for all we ask of it, and whether it is a local one."""

import ipaddress
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .providers import OPENAI, host_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def sdk_client(
    base_url: str,
    key: str,
    *,
    idle_seconds: float,
    connect_seconds: float,
    headers: Mapping[str, str] | None = None,
) -> "AsyncOpenAI":
    """A client that tries once: retries are ours, because they are announced and cancellable.

    `headers` go with every request. Importing the SDK and making a client block for long: do it in a thread.
    """
    import openai

    from .bounded import http_client

    timeout = openai.Timeout(idle_seconds, connect=connect_seconds)
    unsent: dict[str, openai.Omit] = {name: openai.Omit() for name in _meant_for_openai(base_url)}
    return openai.AsyncOpenAI(
        # The SDK insists on a key; servers that need none ignore it.
        api_key=key or "none",
        base_url=base_url,
        max_retries=0,
        timeout=timeout,
        default_headers={**unsent, **(headers or {})},  # type: ignore[dict-item]
        http_client=http_client(
            timeout,
            # A proxy of the environment is not meant for this machine and its neighbours.
            trust_env=not is_local(base_url),
            encrypted=not (is_local(base_url) and base_url.startswith("http:")),
        ),
    )


def _meant_for_openai(base_url: str) -> list[str]:
    """Headers that the SDK makes of the environment for every server, though they are about OpenAI."""
    if host_of(base_url) == OPENAI.host:
        return []
    custom = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    named = [name.strip() for name, colon, _ in (line.partition(":") for line in custom) if colon]
    return ["OpenAI-Organization", "OpenAI-Project", *named]


def is_local(base_url: str) -> bool:
    """Whether a server is on this machine or a private network: such servers need no key."""
    host = host_of(base_url)
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
