"""Settings: what a user may choose, where each choice came from, and the model clients they lead to.

Files first (the user's, then the project's), then the environment, then options: the last one wins. What is
set for one model wins over what is set for all, in files; the environment and options speak for this run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from foldline.context.budget import BudgetSettings
from foldline.llm.base import OFFLINE
from foldline.llm.providers import ENVIRONMENT, Provider, provider_named, split_model
from foldline.protocol import FoldlineError, OptionError

from .api_keys import keep_secret, key_of
from .layers import (
    BY_NAME,
    KEY_SETTINGS,
    MODELS,
    PROVIDERS,
    Given,
    config_file,
    dotted,
    from_environment,
    from_file,
    from_project,
)
from .model_choice import named_in, own_provider, provider_called, provider_in_force
from .settings_schema import (
    KEYS,
    UNWATCHED,
    AllSettings,
    Amount,
    ContextSettings,
    Limits,
    ModelSettings,
    checked,
    is_secret,
)

if TYPE_CHECKING:
    from foldline.compaction import CompactionStrategy
    from foldline.llm import LLM, Embedder
    from foldline.llm.wire import Options

    from .sandbox_policy import SandboxOptions

DEFAULT = "default"
"""The origin of a value nobody set."""
COMMAND_LINE = "command line"
"""The origin of a value that an option set."""


class Settings(AllSettings):
    """All settings, as they are in force."""

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _options: Mapping[str, object] = PrivateAttr(default_factory=dict)
    _of_project: list[Given] = PrivateAttr(default_factory=list)

    def origin(self, key: str) -> str:
        """Who set a value, by its dotted key: a file, an environment variable, an option, or `default`."""
        return self._origins.get(key, DEFAULT)

    @property
    def of_project(self) -> Sequence[Given]:
        """What the project set that the user had agreed to."""
        return self._of_project

    def again(self, cwd: Path | str, environ: Mapping[str, str]) -> "Settings":
        """As the files and the environment are now, with the options of this run.

        Raises:
            FoldlineError: as `load_settings`.
        """
        return load_settings(cwd, environ, self._options)

    def values(self) -> dict[str, object]:
        """Every setting by its dotted key, as plain JSON values; of models, providers and tool servers, what
        was set. What may hold a password is left out."""
        from foldline.llm.failures import Endpoint

        sections = self.model_dump(mode="json")
        found = {key: _lookup(sections, key) for key in KEYS}
        for section in BY_NAME:
            for name, table in sections[section].items():
                for key in getattr(self, section)[name].model_fields_set:
                    names, value = (section, name, key), table[key]
                    if is_secret(names):
                        inner = [(*names, each) for each in value] if isinstance(value, dict) else [names]
                        found |= {dotted(each): "(set)" for each in inner}
                    elif key in ("url", "base_url") and value:
                        found[dotted(names)] = Endpoint(value, "").shown  # without user, password and query
                    elif value is not None:
                        found[dotted(names)] = value
        for screen, chosen in self.keys.items():
            found |= {dotted((KEY_SETTINGS, screen, command)): keys for command, keys in chosen.items()}
        return found

    def provider_named(self, name: str) -> Provider | None:
        """The provider of this name, one of the user's own or a preset."""
        return provider_named(name, self.own_providers())

    def own_providers(self) -> Mapping[str, Provider]:
        """Those of `[providers.NAME]`, by name."""
        return {name: own_provider(name, table) for name, table in self.providers.items()}

    def bounds(self, *, watched: bool) -> Limits:
        """The limits in force, where somebody watches and where nobody does."""
        given = self.limits.model_dump(exclude_none=True)
        usual = Limits() if watched else UNWATCHED
        return replace(usual, **given, cost_is_usual="turn_cost" not in given)

    @property
    def sandbox_options(self) -> "SandboxOptions":
        """The options of the sandbox that commands run in."""
        from .sandbox_policy import SandboxOptions

        return SandboxOptions(**{**self.sandbox.model_dump(), "shell": self.sandbox.shell == "on"})

    def of_model(self, model: str) -> ModelSettings:
        """What was set for this model alone."""
        return self.models.get(model.lower(), ModelSettings())

    def window_of(self, model: str) -> int | None:
        """The window that was set for this model, or for all; in tokens."""
        return self.of_model(model).window or self.context.window

    @property
    def request_options(self) -> "Options":
        """What is set of requests to the model."""
        from foldline.llm.wire import Options

        return Options(self.effort, self.context.cache_life)

    def budget_settings(self, window: int, model: str = "") -> BudgetSettings:
        """The sizes that were set for this model, or for all, in tokens of this window."""
        own, shared = self.of_model(model), self.compaction

        def tokens(first: Amount | None, second: Amount | None) -> int | None:
            amount = second if first is None else first
            return None if amount is None else amount.of(window)

        return BudgetSettings(
            threshold=tokens(own.threshold, shared.threshold),
            reserve_tokens=tokens(own.reserve_tokens, shared.reserve_tokens),
            keep_recent_tokens=tokens(own.keep_recent_tokens, shared.keep_recent_tokens),
            max_summary_tokens=tokens(own.max_summary_tokens, shared.max_summary_tokens),
            soft_ratio=own.soft_ratio or shared.soft_ratio,
        )

    def strategy(self, dependencies: "Mapping[type, object] | None" = None) -> "CompactionStrategy":
        """The strategy that was set; `dependencies` are what its constructor may ask for, by type.

        Raises:
            FoldlineError: it cannot be loaded.
        """
        from foldline.compaction import load_strategy

        return load_strategy(self.compaction.strategy, dependencies)

    def check_strategy(self) -> None:
        """See whether the strategy that was set can be loaded: one of the user's own is imported for that.

        Raises:
            FoldlineError: it cannot; the sentence says who set it.
        """
        from foldline.compaction import check_strategy

        try:
            check_strategy(self.compaction.strategy)
        except FoldlineError as failure:
            key = "compaction.strategy"
            origin = self.origin(key)
            raise _by_origin(FoldlineError(f"{origin}: {key}: {failure}"), origin) from None


def _by_origin(failure: FoldlineError, origin: str) -> FoldlineError:
    """Return the failure of a value as what it is for the command line: wrong usage, if an option set it."""
    return OptionError(str(failure)) if origin == COMMAND_LINE else failure


def load_settings(
    cwd: Path | str,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    *,
    said_by: str = COMMAND_LINE,
) -> Settings:
    """The settings in force in a folder. `overrides`, by dotted key, come from options and win; `said_by`,
    for sentences, is who gave them.

    Raises:
        FoldlineError: an unknown key or a value that is not allowed; the sentence says where and what is.
    """
    layers = [
        from_file(config_file(environ)),
        from_project(Path(cwd)),
        from_environment(environ, (key for key in KEYS if "." not in key)),
        [
            Given(tuple(key.split(".")), value, said_by, for_this_run=True)
            for key, value in (overrides or {}).items()
        ],
    ]
    for layer in layers:
        for item in layer:
            try:
                checked(item)
            except FoldlineError as failure:
                raise _by_origin(failure, item.origin) from None
    values: dict[tuple[str, ...], object] = {}
    origins: dict[str, str] = {}
    for item in named_in(layers, environ):
        value = checked(item)
        names = _same_for_all_spellings(item.names)
        if item.for_this_run:
            values = {key: kept for key, kept in values.items() if not _for_one_model(key, names)}
        values[names] = value
        origins[dotted(names)] = item.origin
    settings = Settings.model_validate(_nested(values))
    settings._origins.update(origins)
    settings._options, settings._of_project = dict(overrides or {}), layers[1]
    keep_secret(settings.own_providers().values())
    return settings


def connect_llm(settings: Settings, environ: Mapping[str, str]) -> "LLM":
    """The model client in force; the embedded model where nobody else is to be asked.

    Raises:
        FoldlineError: the model needs a server or a key, and there is none.
    """
    provider = provider_in_force(settings, environ)
    return _client(settings.model, provider, settings, environ, settings.window_of)


def connect_summariser(settings: Settings, environ: Mapping[str, str]) -> "LLM | None":
    """The client of the model that writes the summaries; None where it is the session's own.

    Raises:
        FoldlineError: it needs a server or a key, and there is none.
    """
    named = settings.compaction.model
    if not named:
        return None
    name, at = split_model(named, settings.own_providers())
    try:
        own = provider_in_force(settings, environ)
        provider = provider_called(at, settings, environ) if at else own
        if provider == own and name == connect_llm(settings, environ).info.id:
            return None
        # `context.window` is about the session's model: it says nothing of this one.
        return _client(name, provider, settings, environ, lambda model: settings.of_model(model).window)
    except FoldlineError as failure:
        raise FoldlineError(f"compaction.model, {named}, cannot be used: {failure}") from None


def connect_embedder(settings: Settings, environ: Mapping[str, str]) -> "Embedder | None":
    """What compares texts by what they mean; None offline, and where no model for it is known."""
    from foldline.llm.catalog import connect_embeddings

    provider = provider_in_force(settings, environ)
    if settings.model == "offline" or provider is None:
        return None
    model = settings.compaction.embedding_model.strip()
    return connect_embeddings(provider, key_of(provider, environ).value, model)


def _client(
    name: str,
    provider: Provider | None,
    settings: Settings,
    environ: Mapping[str, str],
    window_of: Callable[[str], int | None],
) -> "LLM":
    from foldline.llm.catalog import connect

    if name == OFFLINE or (provider is None and not name):
        from foldline.llm.offline import OfflineLLM

        return OfflineLLM(window_of(OFFLINE) or settings.offline.window, pace=settings.offline.pace)
    if provider is None:
        model, at, called = name.rpartition("@")
        missing = f"There is no provider {called}" if at else f"No provider is set up for {name}"
        raise FoldlineError(
            f"{missing}: name one, as in {model or called}@openai, set OPENAI_API_KEY, or OPENAI_BASE_URL "
            "for a server of your own, or use -m offline."
        )
    if not name and provider.key_name == "OPENAI_API_KEY" and settings.provider in ("", ENVIRONMENT):
        name = environ.get("OPENAI_MODEL", "").strip()
    key = key_of(provider, environ)
    return connect(provider, name, key.value, window_of, key_name=key.name, options=settings.request_options)


async def known_window(llm: "LLM") -> int:
    """The window in tokens; where only the server knows it, the server is asked.

    Raises:
        LLMError: no model was named, and the server does not list any.
    """
    return (await llm.prepare()).window


def _same_for_all_spellings(names: tuple[str, ...]) -> tuple[str, ...]:
    """Servers ignore upper and lower case in the names of models; variables of the environment cannot."""
    return (names[0], names[1].lower(), *names[2:]) if names[0] in (MODELS, PROVIDERS) else names


def _for_one_model(names: tuple[str, ...], shared: tuple[str, ...]) -> bool:
    """Whether the one key sets for one model what the other sets for all."""
    section = "context" if names[-1] in ContextSettings.model_fields else "compaction"
    return names[0] == MODELS and shared == (section, names[-1])


def _nested(values: Mapping[tuple[str, ...], object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for names, value in values.items():
        table = nested
        for name in names[:-1]:
            table = table.setdefault(name, {})
        table[names[-1]] = value
    return nested


def _lookup(sections: Mapping[str, Any], key: str) -> object:
    value: Any = sections
    for name in key.split("."):
        value = value[name]
    return value
