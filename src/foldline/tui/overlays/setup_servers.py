"""Servers of the Setup screen: lists them, requests their models, and writes the choice."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.agent.settings.api_keys import KEYS_FILE, key_of, key_origin, save_key
from foldline.agent.settings.edit import save_server, server_at
from foldline.agent.settings.model_choice import save_choice, server_of_environment
from foldline.agent.settings.settings import Settings
from foldline.llm import LLM
from foldline.llm.base import MESSAGES, RESPONSES
from foldline.llm.catalog import completed, list_models, require_sdk
from foldline.llm.client import preload
from foldline.llm.listing import ListedModel
from foldline.llm.providers import (
    ENVIRONMENT,
    PROVIDERS,
    Provider,
    address_of,
    is_local,
)
from foldline.protocol import FoldlineError

INVALID_KEY: Final = (
    "A key contains only ASCII characters and no spaces. Copy the key again."
)
_QUOTES: Final = "\"'`“”‘’«»"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """An API key whose text is never printed.

    `reveal` returns the text.
    """

    _text: str

    def reveal(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self._text)

    def __repr__(self) -> str:
        return f"Secret({len(self._text)} characters)"

    @property
    def fault(self) -> str:
        """A message that explains why the key is invalid.

        Empty if the key is valid.
        """
        if (
            not self._text.isascii()
            or not self._text.isprintable()
            or " " in self._text
        ):
            return INVALID_KEY
        return ""


def cleaned_key(pasted: str) -> str:
    """Strip whitespace, newlines and quotes from a pasted key."""
    return pasted.strip().strip(_QUOTES).strip()


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that offers models.

    It is the built-in one, a provider, or a server at an address that the user typed.
    """

    name: str
    title: str
    url: str = ""
    key_env: str = ""
    """Environment variable for the server's key, if the server needs a key."""
    key_in: str = ""
    """File or environment variable that contains the server's key, if there is one."""
    default_model: str = ""
    key_page: str = ""
    """URL of the page where the user gets a key."""
    key: Literal["needed", "optional", "none"] = "none"
    """Whether the server requires a key."""
    named: bool = True
    """Whether a model's full name includes the server's name.

    False for the offline model and `OPENAI_BASE_URL`.
    """

    @property
    def host(self) -> str:
        return address_of(self.url)

    @property
    def from_environment(self) -> bool:
        """Whether the key comes from the environment, which overrides a typed key."""
        return self.key_in not in ("", KEYS_FILE)

    @property
    def asks_key(self) -> bool:
        """Whether a key must be typed before the first request."""
        return self.key != "none" and not self.key_in


OFFLINE: Final = ModelServer("offline", "offline, built in", named=False)
OTHER: Final = ModelServer("", "Another OpenAI-compatible server")


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The chosen model and server."""

    source: ModelServer
    model: str
    """The model's name on the server."""
    key: Secret | None = None
    """The API key that the user entered, if any."""

    @property
    def named(self) -> str:
        """The model's full name, `model@provider`, as used in settings and operations."""
        if self.source == OFFLINE:
            return self.model
        return f"{self.model}@{self.source.name if self.source.named else ENVIRONMENT}"


class KnownServers:
    """The servers that the user can choose from.

    Its methods raise FoldlineError if they fail.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        compacts_first: Callable[[ListedModel], bool],
    ) -> None:
        """Create the collection of servers.

        Args:
            compacts_first: Returns whether a model's window is too small for the conversation.
        """
        self._environ = environ
        self.compacts_first = compacts_first
        own = settings.own_providers()
        self._providers: dict[str, Provider] = {**PROVIDERS, **own}
        self._own = [
            provider for name, provider in own.items() if name not in PROVIDERS
        ]
        self.of_environment: Provider | None = None
        """The server at OPENAI_BASE_URL, unless it is a known one.

        It replaces a preset of the same name.
        """
        self.trouble = ""
        """A message that explains why the key file is unusable.

        Empty if the file is usable.
        """
        if url := environ.get("OPENAI_BASE_URL", "").strip():
            server = server_of_environment(url)
            if not any(
                provider.base_url == server.base_url
                for provider in self._providers.values()
            ):
                self.of_environment = self._providers[server.name] = server

    @property
    def sources(self) -> Sequence[ModelServer]:
        """All servers in the order shown: built in, environment, user's own, presets, other."""
        server = self.of_environment
        first = [server] if server is not None and server.name not in PROVIDERS else []
        presets = [self._providers[name] for name in PROVIDERS]
        return (OFFLINE, *map(self._source, (*first, *self._own, *presets)), OTHER)

    def in_use(self, llm: LLM) -> tuple[str, str]:
        """Return the names of a session's server and model."""
        info = llm.info
        if info.provider == OFFLINE.name:
            return OFFLINE.name, info.id
        names = [
            server.name
            for server in self.sources
            if server.host == info.provider and server.name in self._providers
        ]
        api = (
            llm.dialect if llm.dialect in (RESPONSES, MESSAGES) else "chat"
        )  # a host may have several
        return min(
            names, key=lambda name: self._providers[name].api != api, default=""
        ), info.id

    async def models(
        self, source: ModelServer, key: Secret | None
    ) -> Sequence[ListedModel]:
        """Request the models of a server.

        Fails if the key is invalid.
        """
        provider = self._providers[source.name]
        require_sdk(provider)
        await asyncio.to_thread(preload, provider.api)
        if key:
            return await list_models(provider, key.reveal())
        stored = await asyncio.to_thread(key_of, provider, self._environ)
        return await list_models(provider, stored.value if stored else "")

    def known(self, source: ModelServer, names: Sequence[str]) -> Sequence[ListedModel]:
        """Return the models that are known without a request.

        These are the models in `names` and those in the settings.
        """
        provider = self._providers[source.name]
        models = dict.fromkeys(filter(None, (*names, *provider.models)))
        return [completed(ListedModel(name), provider) for name in models]

    def other(self, address: str) -> ModelServer:
        """Return the server at a typed address."""
        provider = server_at(address, self._providers)
        self._providers[provider.name] = provider
        source = self._source(provider)
        return source if source.key != "none" else replace(source, key="optional")

    async def forget(self, source: ModelServer) -> None:
        """Remove the key of a server from the key file."""
        await asyncio.to_thread(
            save_key, self._environ, self._providers[source.name], ""
        )

    async def keep(self, choice: SetupResult) -> None:
        """Write the choice and its key to the user's files."""
        await asyncio.to_thread(self._keep, choice)

    def _keep(self, choice: SetupResult) -> None:
        if choice.source is OFFLINE:
            save_choice(self._environ, None, "")
            return
        provider = self._providers[choice.source.name]
        if choice.key is not None:
            save_key(self._environ, provider, choice.key.reveal())
        if provider is self.of_environment:
            return  # The environment overrides the settings, so there is nothing to write.
        if provider.name not in PROVIDERS and provider not in self._own:
            save_server(self._environ, provider)
        save_choice(self._environ, provider, choice.model)

    def _source(self, provider: Provider) -> ModelServer:
        try:
            origin = key_origin(provider, self._environ)
        except FoldlineError as failure:
            origin = ""
            self.trouble = str(failure)
        key: Literal["needed", "optional", "none"] = "optional"
        if provider.key_env:
            key = "needed"
        elif is_local(provider.base_url) and not origin:
            key = "none"
        return ModelServer(
            provider.name,
            provider.title,
            provider.base_url,
            key_env=provider.key_env,
            key_in=KEYS_FILE if origin.endswith(KEYS_FILE) else origin,
            default_model=provider.default_model,
            key_page=provider.key_page,
            key=key,
            named=provider is not self.of_environment,
        )
