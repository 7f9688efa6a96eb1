"""The setup screen's servers for real: the table of providers, the user's own, keys, and the settings."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from foldline.agent.api_keys import KEYS_FILE, key_of, keys_file, save_key
from foldline.agent.layers import config_file
from foldline.agent.model_choice import save_choice, server_of_environment
from foldline.agent.settings import DEFAULT, Settings
from foldline.agent.settings_edit import save_server, server_at
from foldline.history.paths import with_tilde
from foldline.llm import LLM, providers
from foldline.llm.catalog import completed, list_models
from foldline.llm.client import preload
from foldline.llm.listing import ListedModel
from foldline.llm.providers import PROVIDERS, Provider, is_local
from foldline.llm.responses import RESPONSES
from foldline.protocol import FoldlineError
from foldline.tui.screens.setup_state import OFFLINE, OTHER, Choice, Secret, Source


class KnownServers:
    """Everybody who can be asked from here, and where a choice is kept. What fails raises FoldlineError."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        compacts_first: Callable[[ListedModel], bool],
        summarise_with: Callable[[str | None], Awaitable[str]] | None = None,
    ) -> None:
        """
        Args:
            compacts_first: whether the conversation has to be compacted before this model can go on with it.
            summarise_with: lets a model write the summaries from now on, by its name in settings.
        """
        self._environ = environ
        self.compacts_first = compacts_first
        self._summarise_with = summarise_with
        self.summariser = settings.compaction.model
        """The model that writes the summaries, as settings name it; empty: the session's own."""
        own = settings.own_providers()
        self._providers: dict[str, Provider] = {**PROVIDERS, **own}
        self._own = [provider for name, provider in own.items() if name not in PROVIDERS]
        self.of_environment: Provider | None = None
        """The server that OPENAI_BASE_URL names, where that is none of the others; in place of the preset
        whose other address it is."""
        self.overruled_by = ""
        """What goes before the settings of the user in new sessions; empty where nothing does."""
        for key in ("provider", "model"):
            origin = settings.origin(key)
            if origin not in (DEFAULT, str(config_file(environ))):
                self.overruled_by = with_tilde(origin)
        self.trouble = ""
        """Why the file of keys cannot be used; empty where it can."""
        if url := environ.get("OPENAI_BASE_URL", "").strip():
            server = server_of_environment(url)
            if not any(provider.base_url == server.base_url for provider in self._providers.values()):
                self.of_environment = self._providers[server.name] = server
                self.overruled_by = self.overruled_by or "OPENAI_BASE_URL"

    @property
    def sources(self) -> Sequence[Source]:
        """What the first step lists, in this order: the built-in one, what the environment and the user's own
        settings name, the table of providers, and a server still to be named."""
        server = self.of_environment
        first = [server] if server is not None and server.name not in PROVIDERS else []
        presets = [self._providers[name] for name in PROVIDERS]
        return (OFFLINE, *map(self._source, (*first, *self._own, *presets)), OTHER)

    @property
    def kept_in(self) -> tuple[str, str]:
        """The files of keys and of settings, as people are told of them."""
        return with_tilde(str(keys_file(self._environ))), with_tilde(str(config_file(self._environ)))

    def in_use(self, llm: LLM) -> tuple[str, str]:
        """(name of the source, model) of the model a session is held with."""
        info = llm.info
        if info.provider == OFFLINE.name:
            return OFFLINE.name, info.id
        there = [
            each.name for each in self.sources if each.host == info.provider and each.name in self._providers
        ]
        responses = [name for name in there if self._providers[name].api == "responses"]
        named = responses if llm.dialect == RESPONSES else [name for name in there if name not in responses]
        return next(iter((*named, *there)), ""), info.id

    async def answers(self, source: Source) -> bool:
        """Whether a local server is there right now; asked for a moment only, never an error."""
        return await providers.answers(source.url)

    async def models(self, source: Source, key: Secret | None) -> Sequence[ListedModel]:
        """What a server has to offer; also the cheap call that checks a key."""
        provider = self._providers[source.name]
        await asyncio.to_thread(preload)
        return await list_models(provider, key.reveal() if key else key_of(provider, self._environ).value)

    def known(self, source: Source, names: Sequence[str]) -> Sequence[ListedModel]:
        """What is known of these models of a server, and of those set for it, before it is asked."""
        provider = self._providers.get(source.name)
        if provider is None:
            return ()
        there = dict.fromkeys(name for name in (*names, *provider.models) if name)
        return [completed(ListedModel(name), provider) for name in there]

    async def summarise_with(self, choice: Choice | None) -> str:
        """Let this model write the summaries, or the session's own again; what became of it."""
        if self._summarise_with is None:
            raise FoldlineError("There is no session yet whose summaries it could write.")
        if choice is not None and choice.key is not None:
            await asyncio.to_thread(self._keep_key, choice)
        told = await self._summarise_with(choice.named if choice is not None else None)
        self.summariser = choice.named if choice is not None else ""
        return told

    def other(self, address: str) -> Source:
        """The server at an address somebody typed."""
        provider = server_at(address, self._providers)
        self._providers[provider.name] = provider
        source = self._source(provider)
        return source if source.key != "none" else replace(source, key="optional")

    async def keep(self, choice: Choice) -> None:
        """Write down the key that was typed, and the choice."""
        await asyncio.to_thread(self._keep, choice)

    def _keep(self, choice: Choice) -> None:
        if choice.source is OFFLINE:
            save_choice(self._environ, None, "")
            return
        provider = self._providers[choice.source.name]
        self._keep_key(choice)
        if provider is self.of_environment:
            return  # It is the environment's word who is asked: a file could only contradict it.
        if provider.name not in PROVIDERS and provider not in self._own:
            save_server(self._environ, provider)
        save_choice(self._environ, provider, choice.model)

    def _keep_key(self, choice: Choice) -> None:
        if choice.key is not None:
            save_key(self._environ, self._providers[choice.source.name], choice.key.reveal())

    def _source(self, provider: Provider) -> Source:
        try:
            origin = key_of(provider, self._environ).origin
        except FoldlineError as failure:
            origin, self.trouble = "", str(failure)
        local = is_local(provider.base_url)
        return Source(
            provider.name,
            provider.title,
            provider.base_url,
            key_env=provider.key_env,
            key_in=KEYS_FILE if origin.endswith(KEYS_FILE) else origin,
            default_model=provider.default_model,
            key_page=provider.key_page,
            key="needed" if provider.key_env else "none" if local and not origin else "optional",
            local=local,
            named=provider is not self.of_environment,
        )
