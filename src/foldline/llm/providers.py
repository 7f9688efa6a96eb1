"""Model providers, with their addresses, keys and special features.

A dialect (`llm.dialect`), which is recorded with each request, defines how messages are rendered. All other
features are defined here. The presets are defined in `providers.toml`, and described for users in
`docs/providers.md`.
"""

import ipaddress
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from foldline.protocol import FoldlineError

Api = Literal["chat", "responses", "messages"]
Listing = Literal["openai", "ollama", "llama-cpp", "lm-studio"]

NO_ADDRESS = (
    "{origin} must be an http or https address, such as http://localhost:8000/v1."
)
ENVIRONMENT = "env"
"""Name of the provider for the server at OPENAI_BASE_URL."""
SHORTEST_KEY = 8
"""Minimum length of a key that is masked, in characters.

Shorter ones, such as `EMPTY`, are placeholders for servers that need no key.
"""


@dataclass(frozen=True, slots=True)
class Provider:
    """A model server, or a company that runs one."""

    name: str
    """Name used in `MODEL@NAME` and in the settings.

    Consists of lower-case letters, digits and hyphens.
    """
    title: str
    """Display name."""
    base_url: str
    key_env: str = ""
    """Environment variable that contains the key; empty if no key is needed."""
    api: Api = "chat"
    dialect: str = "strict"
    """Name of a dialect for chat completions."""
    default_model: str = ""
    """Default model. If empty, this is the first model that the server lists."""
    key_page: str = ""
    """Web page on which the user can create a key."""
    key_command: str = ""
    """Command that prints the key, if the user has set one."""
    other_key_envs: tuple[str, ...] = ()
    """Other environment variables for the key. The first one that is set is used."""
    asks_usage: bool = True
    """Whether `stream_options` may be sent. Without it, most servers report no usage."""
    takes_tools_off: bool = False
    """Whether requests with `tool_choice: none` can use the cached prefix (decision 10)."""
    states_output: bool = False
    """Whether requests set the maximum length of the answer.

    Needed if the server's default is too short.
    """
    session_field: str = ""
    """Request field for the session's name; empty if there is none.

    The provider uses it to route a request to the machine with the cached prefix. A name with a hyphen is a
    header.
    """
    cache_least: int = 0
    """Minimum size at which all of the provider's models cache a request, in tokens; 0 if unknown."""
    cache_step: int = 1
    """The size of a cached prefix is a multiple of this number of tokens."""
    cache_life: int = 0
    """How long an unused prefix stays in the cache, in seconds; 0 if unknown."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers sent with every request."""
    listing: Listing = "openai"
    """Type of the server's own model listing.

    It reports windows, in addition to the standard listing at `/models`.
    """
    embedding_model: str = ""
    """Name of the provider's embedding model; empty if none is known."""
    models: tuple[str, ...] = ()
    """Models to choose from if the server lists none."""
    url_name: str = ""
    """Variable or setting that contains the URL, as named in messages.

    If empty, this is the provider's setting.
    """

    @property
    def key_name(self) -> str:
        """Variable or setting that contains the key, as named in messages."""
        return next(iter(self.key_envs), f"{self.name} below [keys] in keys.toml")

    @property
    def url_setting(self) -> str:
        """Setting that contains the URL, as named in messages."""
        return self.url_name or f"providers.{self.name}.base_url"

    @property
    def host(self) -> str:
        return host_of(self.base_url)

    @property
    def key_envs(self) -> tuple[str, ...]:
        """All environment variables for the key, the usual one first."""
        usual = (self.key_env,) if self.key_env else ()
        return usual + self.other_key_envs


def _presets() -> Iterator[Provider]:
    table = Path(__file__).with_name("providers.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(table).items():
        lists = {
            key: tuple(value) for key, value in row.items() if isinstance(value, list)
        }
        yield Provider(name, **row | lists)


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {provider.name: provider for provider in _presets()}
)
"""The presets by name."""
OPENAI = PROVIDERS["openai"]


def provider_named(
    name: str, own: Mapping[str, Provider] | None = None
) -> Provider | None:
    """Find a provider by name.

    The user's `own` providers are searched first.
    """
    return (own or {}).get(name.lower()) or PROVIDERS.get(name.lower())


def is_provider(name: str, own: Mapping[str, Provider] | None = None) -> bool:
    """Return whether a provider with this name exists.

    This includes the server that is set by environment variables.
    """
    return name.lower() == ENVIRONMENT or provider_named(name, own) is not None


def provider_at(base_url: str) -> Provider | None:
    """Find the preset with the host of a URL, if any.

    The presets for local servers share a host, so their ports must also match.
    """
    host = host_of(base_url)
    for provider in PROVIDERS.values():
        if provider.host != "localhost":
            is_same = _belongs(host, provider.host)
        else:
            is_same_port = _port(base_url) == _port(provider.base_url)
            is_same = is_same_port and host in ("localhost", "127.0.0.1", "::1")
        if is_same:
            return provider
    return None


def split_model(
    model: str, own: Mapping[str, Provider] | None = None
) -> tuple[str, str]:
    """Split `MODEL@PROVIDER`. The provider is empty unless it is known.

    Model names may contain `/`, `:` and even `@`, so only the last `@` before a known provider counts.
    """
    name, at, provider = model.strip().rpartition("@")
    if at and is_provider(provider, own):
        return name, provider.lower()
    return model.strip(), ""


def close_to(
    name: str, own: Mapping[str, Provider] | None = None, *, at_least: float = 0.6
) -> str:
    """Return the provider with the most similar name, or an empty string.

    Args:
        at_least: minimum similarity, from 0 to 1.
    """
    close = get_close_matches(
        name.lower(), [*(own or {}), *PROVIDERS], n=1, cutoff=at_least
    )
    return close[0] if close else ""


def host_of(base_url: str) -> str:
    """Return a URL's host in lower case; may be empty."""
    try:
        return urlsplit(base_url).hostname or ""
    except ValueError:
        return ""


def is_local(base_url: str) -> bool:
    """Return whether a server is on this machine or on a private network.

    A local server needs no key.
    """
    host = host_of(base_url)
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(
            (".local", ".localhost", ".internal", ".lan")
        )


def address_of(base_url: str) -> str:
    """Return a URL's host and port, without user and password."""
    try:
        return urlsplit(base_url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def is_same_server(one: str, other: str) -> bool:
    """Return whether two URLs lead to the same port of the same host."""
    return (host_of(one), _port(one)) == (host_of(other), _port(other))


_OTHER_HOSTS: Mapping[str, tuple[str, ...]] = {
    "api.moonshot.ai": ("moonshot.ai", "moonshot.cn", "kimi.com"),
    "api.deepseek.com": ("deepseek.com",),
    "openrouter.ai": ("openrouter.ai",),
}
"""Other domains of a company, by the host in the company's preset."""


def _belongs(host: str, preset_host: str) -> bool:
    domains = _OTHER_HOSTS.get(preset_host, ())
    return host == preset_host or any(
        host == domain or host.endswith(f".{domain}") for domain in domains
    )


def _port(base_url: str) -> int | None:
    try:
        parts = urlsplit(base_url)
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None


def checked_url(url: str, origin: str) -> str:
    """Return a URL after checking that its scheme is http or https.

    Args:
        origin: setting or variable that contains the URL, as named in the error message.

    Raises:
        FoldlineError: the URL has another scheme, or is invalid.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 1
        is_usable = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and port > 0
        )
    except ValueError:  # the port is not a number
        is_usable = False
    if not is_usable:
        raise FoldlineError(NO_ADDRESS, origin=origin)
    return url
