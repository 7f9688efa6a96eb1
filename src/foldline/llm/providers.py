"""Providers: who can be asked, where, with whose key, and what each of them does in a way of its own.

What concerns the rendering of messages is a dialect (`llm.dialect`), recorded with each request; the rest is
here. From the providers' public pages as of November 2026; `docs/providers.md` says it for people.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

Api = Literal["chat", "responses"]
Listing = Literal["openai", "ollama", "llama-cpp", "lm-studio"]

ENVIRONMENT = "env"
"""Names the server of OPENAI_BASE_URL where a provider is named."""
SHORTEST_KEY = 8
"""Characters. What is set for servers that need no key (`EMPTY`, `x`) is no secret, but part of words."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Somebody who can be asked."""

    name: str
    """What people write behind the `@`, and in the settings: small letters, digits and hyphens."""
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
    other_key_envs: tuple[str, ...] = ()
    """Further names its users give the variable; the first that is set counts."""
    asks_usage: bool = True
    """Whether `stream_options` may be sent, without which most servers report no usage."""
    states_output: bool = False
    """Whether a request says how long its answer may be, because the server's own limit is a short one."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Sent with every request."""
    key_headers: tuple[str, ...] = ()
    """Headers that carry the key besides `Authorization`."""
    listing: Listing = "openai"
    """What besides `/models` says how large a window is."""
    embedding_model: str = ""
    """Its model for embeddings; empty where it has none, or where nobody knows which."""
    models: tuple[str, ...] = ()
    """What can be chosen where the server lists nothing."""
    url_name: str = ""
    """Where its URL was set, for sentences; empty: where a setting would change it."""

    def headers_with(self, key: str) -> Mapping[str, str]:
        """What is sent with every request, the key in the headers of its own included."""
        return {**self.headers, **{name: key for name in self.key_headers if key}}

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


OPENAI = Provider(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    dialect="openai",
    default_model="gpt-5-mini",  # Its list begins with models that do not chat.
    key_page="https://platform.openai.com/api-keys",
    embedding_model="text-embedding-3-small",
)

_PRESETS = (
    OPENAI,
    Provider(
        name="openai-responses",
        title="OpenAI, Responses API",
        base_url=OPENAI.base_url,
        key_env=OPENAI.key_env,
        api="responses",
        dialect="openai",
        default_model=OPENAI.default_model,
        key_page=OPENAI.key_page,
        embedding_model=OPENAI.embedding_model,
    ),
    Provider(
        name="anthropic",
        title="Anthropic, compatible endpoint",
        base_url="https://api.anthropic.com/v1",
        key_env="ANTHROPIC_API_KEY",
        # It moves every system message to the front: a later one would change what was sent before it.
        dialect="strict",
        default_model="claude-sonnet-5-5",
        states_output=True,
        # Its list of models is not of the compatible API, and wants these.
        headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        key_headers=("x-api-key",),
        key_page="https://console.anthropic.com/settings/keys",
    ),
    Provider(
        name="gemini",
        title="Google Gemini, compatible endpoint",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        other_key_envs=("GOOGLE_API_KEY",),
        dialect="gemini",
        default_model="gemini-flash-latest",
        key_page="https://aistudio.google.com/apikey",
        embedding_model="gemini-embedding-001",
    ),
    Provider(
        name="moonshot",
        title="Moonshot AI (Kimi)",
        base_url="https://api.moonshot.ai/v1",
        key_env="MOONSHOT_API_KEY",
        dialect="strict-thinking",
        default_model="kimi-k2.6",
        key_page="https://platform.moonshot.ai/console/api-keys",
    ),
    Provider(
        name="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        key_env="DEEPSEEK_API_KEY",
        dialect="strict-thinking",
        default_model="deepseek-v4-flash",
        key_page="https://platform.deepseek.com/api_keys",
    ),
    Provider(
        name="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        dialect="openrouter",
        default_model="openrouter/auto",
        key_page="https://openrouter.ai/keys",
        headers=MappingProxyType({"X-Title": "Foldline"}),
    ),
    Provider(
        name="mistral",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        dialect="mistral",
        default_model="devstral-latest",
        key_page="https://console.mistral.ai/api-keys",
        # It reports usage unasked, and refuses fields it does not know.
        asks_usage=False,
        states_output=True,  # 4,096 tokens else, reasoning included (mistralai/mistral-vibe, issue 1118).
        embedding_model="mistral-embed",
    ),
    Provider(
        name="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_env="GROQ_API_KEY",
        # It refuses every field of reasoning in what it is sent.
        default_model="openai/gpt-oss-120b",
        key_page="https://console.groq.com/keys",
    ),
    Provider(
        name="xai",
        title="xAI (Grok)",
        base_url="https://api.x.ai/v1",
        key_env="XAI_API_KEY",
        dialect="strict",
        default_model="grok-4.7",
        key_page="https://console.x.ai",
    ),
    Provider(
        name="ollama",
        title="Ollama",
        base_url="http://localhost:11434/v1",
        listing="ollama",
    ),
    Provider(
        name="vllm",
        title="vLLM",
        base_url="http://localhost:8000/v1",
        other_key_envs=("VLLM_API_KEY",),
    ),
    Provider(
        name="llama-cpp",
        title="llama.cpp",
        base_url="http://localhost:8080/v1",
        other_key_envs=("LLAMA_API_KEY",),
        listing="llama-cpp",
    ),
    Provider(
        name="lm-studio",
        title="LM Studio",
        base_url="http://localhost:1234/v1",
        listing="lm-studio",
    ),
)

PROVIDERS: Mapping[str, Provider] = MappingProxyType({provider.name: provider for provider in _PRESETS})
"""Those Foldline knows, by name."""


def provider_named(name: str, own: Mapping[str, Provider] | None = None) -> Provider | None:
    """The provider of this name; `own` are the user's, and go first."""
    return (own or {}).get(name.lower()) or PROVIDERS.get(name.lower())


def is_provider(name: str, own: Mapping[str, Provider] | None = None) -> bool:
    """Whether somebody is called so, the server of the environment included."""
    return name.lower() == ENVIRONMENT or provider_named(name, own) is not None


def provider_at(base_url: str) -> Provider | None:
    """The preset whose host a URL names; None for all others. Local presets share a host, so there the port
    counts, too."""
    host, port = host_of(base_url), _port(base_url)
    for provider in _PRESETS:
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


MOMENT: Final = 0.3
"""Seconds within which a server on this computer answers, or is taken for none."""
_LOOK: Final = 4_096
"""Bytes of an answer that are looked at."""
_LISTS: Final = (b'"data"', b'"models"')
"""What the answer of `/models` holds: OpenAI's form, and Ollama's own."""


async def answers(base_url: str, seconds: float = MOMENT) -> bool:
    """Whether `/models` is known there. A server that wants a key first counts, anything else that listens at
    the port does not. Never raises for what the network does."""
    with suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(seconds):
            return _is_model_server(await _answer(base_url))
    return False


async def _answer(base_url: str) -> bytes:
    """The beginning of what the server says."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=parts.scheme == "https" or None)
    try:
        path = parts.path.rstrip("/") + "/models"
        request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        said = b""
        while len(said) < _LOOK and not _is_model_server(said) and (piece := await reader.read(_LOOK)):
            said += piece
        return said
    finally:
        writer.close()


def _is_model_server(said: bytes) -> bool:
    status = said.split(b" ", 2)[1:2]
    if status == [b"200"]:
        return any(word in said for word in _LISTS)
    return status in ([b"401"], [b"403"])
