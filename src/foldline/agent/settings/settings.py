"""Loads the settings, records where each value comes from, and connects model clients.

The sources, from lowest to highest precedence, are: the user's file, the project's file, the environment, and
command-line options. In files, the window of one model takes precedence over `context.window`. The
environment and options apply only to this run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from foldline.llm.base import OFFLINE
from foldline.llm.providers import ENVIRONMENT, Provider, provider_named, split_model
from foldline.protocol import FoldlineError, OptionError
from foldline.view.budget import BudgetSettings

from .amounts import Amount
from .api_keys import keep_secret, key_of
from .layers import (
    BY_NAME,
    KEY_SETTINGS,
    MODELS,
    PROVIDERS,
    REMOVED,
    RawSetting,
    config_file,
    dotted,
    from_environment,
    from_file,
    from_project,
)
from .model_choice import named_in, own_provider, provider_called, provider_in_force
from .schema import (
    KEYS,
    UNWATCHED,
    AllSettings,
    Limits,
    checked,
    is_secret,
)

if TYPE_CHECKING:
    from foldline.agent.permissions.sandbox_policy import SandboxOptions
    from foldline.compaction import CompactionStrategy
    from foldline.llm import LLM
    from foldline.llm.wire import Options

SUMMARY_MODEL_FAILED = "compaction.model, {model}, cannot be used: {failure}"
NO_PROVIDER = "There is no provider {name}."
NOT_SET_UP = "No provider is set up for {model}."
NAME_PROVIDER = (
    "{problem} Add a provider to the model's name, as in {model}@openai; set OPENAI_API_KEY, or "
    "OPENAI_BASE_URL for your own server; or use -m offline."
)

DEFAULT = "default"
"""Origin of a value that is not set."""
COMMAND_LINE = "command line"
"""Origin of a value set by an option."""
IGNORED = "{key} is ignored: {reason} ({origin})."


class Settings(AllSettings):
    """The active settings, with the origin of each value."""

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _of_tables: dict[tuple[str, ...], object] = PrivateAttr(default_factory=dict)
    """Values of single models, providers, tool servers and keys, by the parts of their keys."""
    _options: Mapping[str, object] = PrivateAttr(default_factory=dict)
    _of_project: list[RawSetting] = PrivateAttr(default_factory=list)
    _warnings: list[str] = PrivateAttr(default_factory=list)

    def origin(self, key: str) -> str:
        """Return the origin of a value: a file, a variable, an option, or `default`."""
        return self._origins.get(key, DEFAULT)

    @property
    def of_project(self) -> Sequence[RawSetting]:
        """Settings from the project's file, which the user has agreed to."""
        return self._of_project

    @property
    def warnings(self) -> Sequence[str]:
        """One message for each setting from an earlier version; these settings are ignored."""
        return self._warnings

    def again(self, cwd: Path | str, environ: Mapping[str, str]) -> "Settings":
        """Reload the files and the environment, with the options of this run.

        Raises:
            FoldlineError: as for `load_settings`.
        """
        return load_settings(cwd, environ, self._options)

    def values(self) -> dict[str, object]:
        """Return all settings by dotted key, as JSON values.

        For models, providers and tool servers, only values that are set are included. Secrets are masked.
        """
        from foldline.llm.failures import Endpoint

        sections = self.model_dump(mode="json")
        values = {key: _lookup(sections, key) for key in KEYS}
        for names, value in self._of_tables.items():
            setting_value = value
            if is_secret(names):
                setting_value = "(set)"
            elif names[-1] in ("url", "base_url"):
                # without user, password and query
                setting_value = Endpoint(str(value), "").shown
            values[dotted(names)] = setting_value
        return values

    def provider_named(self, name: str) -> Provider | None:
        """Return the user's own provider or the preset with this name, if there is one."""
        return provider_named(name, self.own_providers())

    def own_providers(self) -> Mapping[str, Provider]:
        """Return the providers of `[providers.NAME]`, by name."""
        return {
            name: own_provider(name, table) for name, table in self.providers.items()
        }

    def bounds(self, *, watched: bool) -> Limits:
        """Return the active limits.

        Args:
            watched: whether a user is present. If not, the default limits are lower.
        """
        limits = self.limits.model_dump(exclude_none=True)
        defaults = Limits() if watched else UNWATCHED
        return replace(defaults, **limits, cost_is_usual="turn_cost" not in limits)

    @property
    def sandbox_options(self) -> "SandboxOptions":
        """The sandbox settings."""
        from foldline.agent.permissions.sandbox_policy import SandboxOptions

        return SandboxOptions(**self.sandbox.model_dump())

    def own_window(self, model: str) -> int | None:
        """Return the window that is configured for one model, in tokens."""
        table = self.models.get(model.lower())
        return None if table is None else table.window

    def window_of(self, model: str) -> int | None:
        """Return a model's configured window in tokens, if it is set."""
        return self.own_window(model) or self.context.window

    @property
    def request_options(self) -> "Options":
        """The settings of requests to the model."""
        from foldline.llm.wire import Options

        return Options(self.effort, self.context.cache_life)

    def budget_settings(self, window: int) -> BudgetSettings:
        """Return the configured sizes, in tokens.

        Args:
            window: the model's window in tokens. Sizes may be a percentage of it.
        """
        compaction = self.compaction

        def tokens(amount: Amount | None) -> int | None:
            return None if amount is None else amount.of(window)

        return BudgetSettings(
            threshold=tokens(compaction.threshold),
            reserve_tokens=tokens(compaction.reserve_tokens),
            keep_recent_tokens=tokens(compaction.keep_recent_tokens),
            max_summary_tokens=tokens(compaction.max_summary_tokens),
            soft_ratio=compaction.soft_ratio,
        )

    def strategy(
        self, dependencies: "Mapping[type, object] | None" = None
    ) -> "CompactionStrategy":
        """Load the configured strategy.

        Args:
            dependencies: arguments for the strategy's constructor, by type.

        Raises:
            FoldlineError: the strategy cannot be loaded.
        """
        from foldline.compaction import load_strategy

        return load_strategy(self.compaction.strategy, dependencies)

    def check_strategy(self) -> None:
        """Check that the configured strategy can be loaded.

        Imports the user's own strategy.

        Raises:
            FoldlineError: the strategy cannot be loaded. The message names the origin of the setting.
        """
        from foldline.compaction import check_strategy

        try:
            check_strategy(self.compaction.strategy)
        except FoldlineError as failure:
            key = "compaction.strategy"
            origin = self.origin(key)
            raise _by_origin(
                FoldlineError(f"{origin}: {key}: {failure}"), origin
            ) from None


def _by_origin(failure: FoldlineError, origin: str) -> FoldlineError:
    """Return the failure, as an `OptionError` if the value was set by a command-line option."""
    return OptionError(str(failure)) if origin == COMMAND_LINE else failure


def load_settings(
    cwd: Path | str,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    *,
    said_by: str = COMMAND_LINE,
) -> Settings:
    """Load the settings for a folder.

    Args:
        overrides: values from options, by dotted key. They take precedence over all others.
        said_by: origin of the overrides, as shown to the user.

    Raises:
        FoldlineError: a key is unknown, or a value is not allowed. The message names the origin.
    """
    layers = [
        from_file(config_file(environ)),
        from_project(Path(cwd)),
        from_environment(environ, (key for key in (*KEYS, *REMOVED) if "." not in key)),
        [
            RawSetting(tuple(key.split(".")), value, said_by, for_this_run=True)
            for key, value in (overrides or {}).items()
        ],
    ]
    of_project = layers[1]
    warnings = [
        IGNORED.format(key=item.key, reason=item.removal, origin=item.origin)
        for layer in layers
        for item in layer
        if item.removal
    ]
    layers = [[item for item in layer if not item.removal] for layer in layers]
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
        if item.for_this_run and names == ("context", "window"):
            values = {key: other for key, other in values.items() if key[0] != MODELS}
        values[names] = value
        origins[dotted(names)] = item.origin
    settings = Settings.model_validate(_nested(values))
    settings._origins.update(origins)
    settings._of_tables = {
        names: value
        for names, value in values.items()
        if names[0] in (*BY_NAME, KEY_SETTINGS)
    }
    settings._options = dict(overrides or {})
    settings._of_project = of_project
    settings._warnings = warnings
    keep_secret(settings.own_providers().values())
    return settings


def connect_llm(settings: Settings, environ: Mapping[str, str]) -> "LLM":
    """Create a client for the configured model, by default the embedded one.

    Raises:
        FoldlineError: the model needs a server or a key, which is missing.
    """
    provider = provider_in_force(settings, environ)
    return _client(settings.model, provider, settings, environ, settings.window_of)


def connect_summariser(settings: Settings, environ: Mapping[str, str]) -> "LLM | None":
    """Create a client for the summary model.

    Returns:
        None if summaries are written by the session's model.

    Raises:
        FoldlineError: the model needs a server or a key, which is missing.
    """
    model_name = settings.compaction.model
    if not model_name:
        return None
    name, at = split_model(model_name, settings.own_providers())
    try:
        own = provider_in_force(settings, environ)
        provider = provider_called(at, settings, environ) if at else own
        if provider == own and name == connect_llm(settings, environ).info.id:
            return None
        # `context.window` applies only to the session's model.
        return _client(name, provider, settings, environ, settings.own_window)
    except FoldlineError as failure:
        raise FoldlineError(
            SUMMARY_MODEL_FAILED, model=model_name, failure=failure
        ) from None


def _client(
    name: str,
    provider: Provider | None,
    settings: Settings,
    environ: Mapping[str, str],
    window_of: Callable[[str], int | None],
) -> "LLM":
    if name == OFFLINE or (provider is None and not name):
        from foldline.llm.offline import OfflineLLM

        return OfflineLLM(
            window_of(OFFLINE) or settings.offline.window, pace=settings.offline.pace
        )
    if provider is None:
        model, at, called = name.rpartition("@")
        problem = NOT_SET_UP.format(model=name)
        if at:
            problem = NO_PROVIDER.format(name=called)
        raise FoldlineError(NAME_PROVIDER, problem=problem, model=model or called)
    if (
        not name
        and provider.key_name == "OPENAI_API_KEY"
        and settings.provider in ("", ENVIRONMENT)
    ):
        name = environ.get("OPENAI_MODEL", "").strip()
    key = key_of(provider, environ)
    from foldline.llm.catalog import connect  # slow, and not used by the offline model

    return connect(
        provider,
        name,
        key.value,
        window_of,
        key_name=key.name,
        options=settings.request_options,
    )


async def known_window(llm: "LLM") -> int:
    """Return the model's window in tokens, asking the server if necessary.

    Raises:
        LLMError: no model is configured, and the server does not list any.
    """
    return (await llm.prepare()).window


def _same_for_all_spellings(names: tuple[str, ...]) -> tuple[str, ...]:
    """Lower-case model and provider names, because environment variables do not preserve case."""
    if names[0] in (MODELS, PROVIDERS):
        return (names[0], names[1].lower(), *names[2:])
    return names


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
