"""Where models come from: providers, keys and servers as Setup lists them, asks them and keeps a choice."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.agent.api_keys import KEYS_FILE, key_of, key_origin, save_key
from foldline.agent.model_choice import save_choice, server_of_environment
from foldline.agent.settings import Settings
from foldline.agent.settings_edit import save_server, server_at
from foldline.llm import LLM
from foldline.llm.catalog import completed, list_models, require_sdk
from foldline.llm.client import preload
from foldline.llm.listing import ListedModel
from foldline.llm.messages import MESSAGES
from foldline.llm.providers import ENVIRONMENT, PROVIDERS, Provider, address_of, is_local
from foldline.llm.responses import RESPONSES
from foldline.protocol import FoldlineError

_QUOTES: Final = "\"'`“”‘’«»"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A key. Only `reveal` gives it away."""

    _text: str

    def reveal(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self._text)

    def __repr__(self) -> str:
        return f"Secret({len(self._text)} characters)"

    @property
    def fault(self) -> str:
        """Why this can be no key, as a sentence; empty where it may be one."""
        if not self._text.isascii() or not self._text.isprintable() or " " in self._text:
            return "A key has no blanks and no other than plain characters: copy it again."
        return ""


def cleaned_key(pasted: str) -> str:
    """The key alone: without blanks, line ends and quotes around it."""
    return pasted.strip().strip(_QUOTES).strip()


@dataclass(frozen=True, slots=True)
class Source:
    """Where models come from: the built-in one, a provider, or a server still to be named."""

    name: str
    title: str
    url: str = ""
    key_env: str = ""
    """Variable of the environment that holds its key; empty where none is needed."""
    key_in: str = ""
    """Where a key for it was found; empty where nowhere."""
    default_model: str = ""
    key_page: str = ""
    """Where a person gets a key."""
    key: Literal["needed", "optional", "none"] = "none"
    """Whether it wants one."""
    named: bool = True
    """Whether models are named with its name. The built-in one needs none, and the server of the environment
    is whatever that says."""

    @property
    def host(self) -> str:
        return address_of(self.url)

    @property
    def from_environment(self) -> bool:
        """Its key comes from the environment, which goes before any that is typed."""
        return self.key_in not in ("", KEYS_FILE)

    @property
    def asks_key(self) -> bool:
        """A key is typed before it is asked anything."""
        return self.key != "none" and not self.key_in


OFFLINE: Final = Source("offline", "offline, built in", named=False)
OTHER: Final = Source("", "Another OpenAI-compatible server")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the reader settled on."""

    source: Source
    model: str
    """As its server knows it."""
    key: Secret | None = None
    """The key that was typed; None where none was."""

    @property
    def named(self) -> str:
        """The model with its provider, as settings and operations name it."""
        if self.source == OFFLINE:
            return self.model
        return f"{self.model}@{self.source.name if self.source.named else ENVIRONMENT}"


class KnownServers:
    """Everybody who can be asked from here, and where a choice is kept. What fails raises FoldlineError."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], compacts_first: Callable[[ListedModel], bool]
    ) -> None:
        """`compacts_first`: whether the conversation has to be compacted before a model can go on with it."""
        self._environ = environ
        self.compacts_first = compacts_first
        own = settings.own_providers()
        self._providers: dict[str, Provider] = {**PROVIDERS, **own}
        self._own = [provider for name, provider in own.items() if name not in PROVIDERS]
        self.of_environment: Provider | None = None
        """The server that OPENAI_BASE_URL names, where that is none of the others; in place of the preset
        whose other address it is."""
        self.trouble = ""
        """Why the file of keys cannot be used; empty where it can."""
        if url := environ.get("OPENAI_BASE_URL", "").strip():
            server = server_of_environment(url)
            if not any(provider.base_url == server.base_url for provider in self._providers.values()):
                self.of_environment = self._providers[server.name] = server

    @property
    def sources(self) -> Sequence[Source]:
        """What the first step lists, in this order: the built-in one, what the environment and the user's own
        settings name, the table of providers, and a server still to be named."""
        server = self.of_environment
        first = [server] if server is not None and server.name not in PROVIDERS else []
        presets = [self._providers[name] for name in PROVIDERS]
        return (OFFLINE, *map(self._source, (*first, *self._own, *presets)), OTHER)

    def in_use(self, llm: LLM) -> tuple[str, str]:
        """(name of the source, model) of the model a session is held with."""
        info = llm.info
        if info.provider == OFFLINE.name:
            return OFFLINE.name, info.id
        there = [
            each.name for each in self.sources if each.host == info.provider and each.name in self._providers
        ]
        api = llm.dialect if llm.dialect in (RESPONSES, MESSAGES) else "chat"  # one host may offer several
        return min(there, key=lambda name: self._providers[name].api != api, default=""), info.id

    async def models(self, source: Source, key: Secret | None) -> Sequence[ListedModel]:
        """What a server has to offer; also the cheap call that checks a key."""
        provider = self._providers[source.name]
        require_sdk(provider)
        await asyncio.to_thread(preload, provider.api)
        stored = None if key else await asyncio.to_thread(key_of, provider, self._environ)
        return await list_models(provider, stored.value if stored else key.reveal() if key else "")

    def known(self, source: Source, names: Sequence[str]) -> Sequence[ListedModel]:
        """What is known of these models of a server, and of those set for it, before it is asked."""
        provider = self._providers[source.name]
        there = dict.fromkeys(name for name in (*names, *provider.models) if name)
        return [completed(ListedModel(name), provider) for name in there]

    def other(self, address: str) -> Source:
        """The server at an address somebody typed."""
        provider = server_at(address, self._providers)
        self._providers[provider.name] = provider
        source = self._source(provider)
        return source if source.key != "none" else replace(source, key="optional")

    async def forget(self, source: Source) -> None:
        """Take the key of a provider out of the file of keys."""
        await asyncio.to_thread(save_key, self._environ, self._providers[source.name], "")

    async def keep(self, choice: Choice) -> None:
        """Write down the key that was typed, and the choice."""
        await asyncio.to_thread(self._keep, choice)

    def _keep(self, choice: Choice) -> None:
        if choice.source is OFFLINE:
            save_choice(self._environ, None, "")
            return
        provider = self._providers[choice.source.name]
        if choice.key is not None:
            save_key(self._environ, provider, choice.key.reveal())
        if provider is self.of_environment:
            return  # It is the environment's word who is asked: a file could only contradict it.
        if provider.name not in PROVIDERS and provider not in self._own:
            save_server(self._environ, provider)
        save_choice(self._environ, provider, choice.model)

    def _source(self, provider: Provider) -> Source:
        try:
            origin = key_origin(provider, self._environ)
        except FoldlineError as failure:
            origin, self.trouble = "", str(failure)
        needs_none = is_local(provider.base_url) and not origin
        return Source(
            provider.name,
            provider.title,
            provider.base_url,
            key_env=provider.key_env,
            key_in=KEYS_FILE if origin.endswith(KEYS_FILE) else origin,
            default_model=provider.default_model,
            key_page=provider.key_page,
            key="needed" if provider.key_env else "none" if needs_none else "optional",
            named=provider is not self.of_environment,
        )
