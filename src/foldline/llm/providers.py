"""Providers: who can be asked, where, with whose key, and what each of them does in a way of its own.

What concerns the rendering of messages is a dialect (`llm.dialect`), recorded with each request; the rest is
here. The presets are in `providers.toml`; `docs/providers.md` says it for people.
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

Api = Literal["chat", "responses", "messages"]
Listing = Literal["openai", "ollama", "llama-cpp", "lm-studio"]

ENVIRONMENT = "env"
"""Names the server of OPENAI_BASE_URL where a provider is named."""
SHORTEST_KEY = 8
"""Characters. What is set for servers that need no key (`EMPTY`, `x`) is no secret, but part of words."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A server of models, or a company that runs one."""

    name: str
    """As in `MODEL@NAME` and in the settings: small letters, digits and hyphens."""
    title: str
    """What it is called."""
    base_url: str
    key_env: str = ""
    """The variable of the environment its key is in; empty where no key is needed."""
    api: Api = "chat"
    dialect: str = "strict"
    """The name of a dialect of chat completions."""
    default_model: str = ""
    """Asked where no model is named. Empty: the first the server lists."""
    key_page: str = ""
    """Where a person gets a key."""
    key_command: str = ""
    """What prints its key, where the user set that."""
    other_key_envs: tuple[str, ...] = ()
    """Further names its users give the variable; the first that is set counts."""
    asks_usage: bool = True
    """Whether `stream_options` may be sent, without which most servers report no usage."""
    takes_tools_off: bool = False
    """Whether `tool_choice` may be `none`, and the cached prefix is still used: decision 10."""
    states_output: bool = False
    """Whether a request says how long its answer may be, because the server's own limit is a short one."""
    session_field: str = ""
    """The field of a request that names its session, by which it finds the server with its prefix in the
    cache; empty where there is none. One that holds a hyphen is a header."""
    cache_least: int = 0
    """Tokens from which on it keeps a request in its cache, whatever the model; 0 where nothing is known."""
    cache_step: int = 1
    """What was kept is found in multiples of so many tokens."""
    cache_life: int = 0
    """Seconds that its cache keeps what is not used; 0 where it does not say."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    listing: Listing = "openai"
    """What besides `/models` says how large a window is."""
    embedding_model: str = ""
    """Its model for embeddings; empty where it has none, or where nobody knows which."""
    models: tuple[str, ...] = ()
    """What can be chosen where the server lists nothing."""
    url_name: str = ""
    """Where its URL was set, for sentences; empty: where a setting would change it."""

    @property
    def key_name(self) -> str:
        """What to set for it to have a key, for sentences."""
        return next(iter(self.key_envs), f"{self.name} below [keys] in keys.toml")

    @property
    def url_setting(self) -> str:
        """What to set for it to be asked elsewhere, for sentences."""
        return self.url_name or f"providers.{self.name}.base_url"

    @property
    def host(self) -> str:
        return host_of(self.base_url)

    @property
    def key_envs(self) -> tuple[str, ...]:
        """Every variable its key may be in, the usual one first."""
        return (*filter(None, (self.key_env,)), *self.other_key_envs)


def _presets() -> Iterator[Provider]:
    table = Path(__file__).with_name("providers.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(table).items():
        lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        yield Provider(name, **row | lists)


PROVIDERS: Mapping[str, Provider] = MappingProxyType({provider.name: provider for provider in _presets()})
"""Those Foldline knows, by name."""
OPENAI = PROVIDERS["openai"]


def provider_named(name: str, own: Mapping[str, Provider] | None = None) -> Provider | None:
    """The provider of this name; `own` are the user's, and go first."""
    return (own or {}).get(name.lower()) or PROVIDERS.get(name.lower())


def is_provider(name: str, own: Mapping[str, Provider] | None = None) -> bool:
    """Whether there is a provider of this name, the server of the environment included."""
    return name.lower() == ENVIRONMENT or provider_named(name, own) is not None


def provider_at(base_url: str) -> Provider | None:
    """The preset whose host a URL names; None for all others. Local presets share a host, so there the port
    counts, too."""
    host, port = host_of(base_url), _port(base_url)
    for provider in PROVIDERS.values():
        local = provider.host == "localhost"
        same = host in ("localhost", "127.0.0.1", "::1") if local else _belongs(host, provider.host)
        if same and (not local or port == _port(provider.base_url)):
            return provider
    return None


def split_model(model: str, own: Mapping[str, Provider] | None = None) -> tuple[str, str]:
    """`MODEL@PROVIDER` as its two names; no provider where what stands behind the `@` is none.

    Names of models hold `/`, `:` and even `@` themselves: only the last `@` counts, before a known name.
    """
    name, at, provider = model.strip().rpartition("@")
    return (name, provider.lower()) if at and is_provider(provider, own) else (model.strip(), "")


def close_to(name: str, own: Mapping[str, Provider] | None = None, *, at_least: float = 0.6) -> str:
    """A provider whose name is nearly this one, by a share of its letters; empty where there is none."""
    close = get_close_matches(name.lower(), [*(own or {}), *PROVIDERS], n=1, cutoff=at_least)
    return close[0] if close else ""


def host_of(base_url: str) -> str:
    """The host of a URL in small letters; empty where it has none."""
    try:
        return urlsplit(base_url).hostname or ""
    except ValueError:
        return ""


def is_local(base_url: str) -> bool:
    """Whether a server is on this machine or a private network: such servers need no key."""
    host = host_of(base_url)
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))


def address_of(base_url: str) -> str:
    """Host and port of a URL as they stand there, without user and password, which are secrets."""
    try:
        return urlsplit(base_url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def is_same_server(one: str, other: str) -> bool:
    """Whether two URLs lead to the same port of the same host."""
    return (host_of(one), _port(one)) == (host_of(other), _port(other))


_OTHER_HOSTS: Mapping[str, tuple[str, ...]] = {
    "api.moonshot.ai": ("moonshot.ai", "moonshot.cn", "kimi.com"),
    "api.deepseek.com": ("deepseek.com",),
    "openrouter.ai": ("openrouter.ai",),
}
"""Domains that are the same company's, by the host of its preset."""


def _belongs(host: str, known: str) -> bool:
    domains = _OTHER_HOSTS.get(known, ())
    return host == known or any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _port(base_url: str) -> int | None:
    try:
        parts = urlsplit(base_url)
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
