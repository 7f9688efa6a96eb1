"""Selects the provider and model from the settings, and saves the user's choice."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from foldline.files import read_regular
from foldline.llm.providers import (
    ENVIRONMENT,
    OPENAI,
    PROVIDERS,
    Provider,
    address_of,
    close_to,
    is_provider,
    provider_at,
    split_model,
)
from foldline.protocol import FoldlineError

from .api_keys import key_origin, keys_file, write_private
from .layers import PROVIDERS as SECTION
from .layers import RawSetting, config_file, dotted, from_file
from .schema import ProviderSettings

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


ENV_NOT_SET = f"The provider {ENVIRONMENT} is the server at OPENAI_BASE_URL, but this variable is not set."
NO_ADDRESS = (
    "The provider {name} has no address. Set {setting}, for example to https://host/v1."
)
NO_PROVIDER = "{origin}: there is no provider {name}. {hint}Available: {available}."
MISSPELT = "{origin}: there is no provider {name}. Did you mean {suggestion}?"


class ProviderChoice(Protocol):
    """The settings that choose a provider; implemented by `settings.Settings`."""

    @property
    def model(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def providers(self) -> Mapping[str, ProviderSettings]: ...
    def provider_named(self, name: str) -> Provider | None: ...
    def origin(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True)
class ProviderSource:
    """The active provider and where it was chosen, for display.

    Contains no secrets.
    """

    provider: Provider
    named_by: str
    """File, variable or option that chose the provider."""
    key_from: str
    """Variable or file that the key comes from; empty if there is no key."""
    url: str
    """Base URL without user, password and query."""

    @property
    def sentence(self) -> str:
        key = f"key from {self.key_from}" if self.key_from else "no key"
        return f"{self.provider.title} at {self.url}, set by {self.named_by}, {key}"


# --- the provider -----------------------------------------------------------------------------------------


def provider_in_force(
    settings: ProviderChoice, environ: Mapping[str, str]
) -> Provider | None:
    """Return the active provider, or None if the model is embedded.

    This is the provider named in the settings; otherwise the server at OPENAI_BASE_URL; otherwise OpenAI, if
    there is a key for it.

    Raises:
        FoldlineError: OPENAI_BASE_URL is invalid, or the settings choose its server but it is not set.
    """
    if settings.provider:
        return provider_called(settings.provider, settings, environ)
    if url := environ.get("OPENAI_BASE_URL", "").strip():
        return server_of_environment(url)
    return OPENAI if environ.get("OPENAI_API_KEY", "").strip() else None


def provider_called(
    name: str,
    settings: ProviderChoice,
    environ: Mapping[str, str],
) -> Provider | None:
    """Return a provider by name.

    The name is one of the user's own providers, a preset, or `env` for the server of OPENAI_BASE_URL.

    Raises:
        FoldlineError: OPENAI_BASE_URL is invalid, or the name is `env` but the variable is not set.
    """
    provider = settings.provider_named(name)
    if provider is not None or name != ENVIRONMENT:
        return provider
    url = environ.get("OPENAI_BASE_URL", "").strip()
    if not url:
        raise FoldlineError(ENV_NOT_SET)
    return server_of_environment(url)


def provider_source(
    settings: ProviderChoice, environ: Mapping[str, str]
) -> ProviderSource | None:
    """Describe the active provider.

    Returns None if the model is embedded.

    Raises:
        FoldlineError: OPENAI_BASE_URL is invalid, or the key cannot be used.
    """
    from foldline.llm.failures import Endpoint

    provider = provider_in_force(settings, environ)
    if provider is None or settings.model == "offline":
        return None
    named_by = provider.url_name or "OPENAI_API_KEY"
    if settings.provider:
        named_by = settings.origin("provider")
    return ProviderSource(
        provider,
        named_by,
        key_origin(provider, environ),
        url=Endpoint(provider.base_url, "").shown,
    )


def server_of_environment(url: str) -> Provider:
    """Return the server at OPENAI_BASE_URL, which may be a preset.

    Raises:
        FoldlineError: the URL is invalid.
    """
    from foldline.llm.providers import checked_url, is_local

    checked_url(url, "OPENAI_BASE_URL")
    preset = provider_at(url)
    if preset is not None:
        # The preset's own variable comes before OPENAI_API_KEY, because it is certainly for this server. Not
        # if the server is local, because any program may use its port.
        own_envs = preset.key_envs[1:] if preset.key_env else ()
        return replace(
            preset,
            base_url=url,
            other_key_envs=tuple(dict.fromkeys((*own_envs, OPENAI.key_env))),
            url_name="OPENAI_BASE_URL",
        )
    needs_key = not is_local(url)
    address = address_of(url)
    # Never use another provider's name, because that provider's stored key would be sent to this server.
    name = address if "." in address or ":" in address else f"{address}:"
    return Provider(
        name=name,
        title=address,
        base_url=url,
        key_env=OPENAI.key_env if needs_key else "",
        other_key_envs=() if needs_key else (OPENAI.key_env,),
        url_name="OPENAI_BASE_URL",
    )


def own_provider(name: str, table: ProviderSettings) -> Provider:
    """Return a provider that the user has defined.

    If there is a preset with this name, the user's values extend it.

    Raises:
        FoldlineError: the provider has no address, or an invalid one.
    """
    from foldline.llm.dialect import dialect_for
    from foldline.llm.providers import checked_url

    url = table.base_url
    setting = dotted((SECTION, name, "base_url"))
    base = PROVIDERS.get(name)
    if base is None and not url:
        raise FoldlineError(NO_ADDRESS, name=name, setting=setting)
    if url:
        checked_url(url, setting)
    if base is None:
        base = Provider(name, name, url or "", dialect=dialect_for(url or "").name)
    if table.key_env is not None:
        base = replace(base, key_env=table.key_env.strip(), other_key_envs=())
    if table.models:
        base = replace(base, default_model=table.models[0], models=tuple(table.models))
    return replace(
        base,
        base_url=url or base.base_url,
        key_command=(table.key_command or "").strip(),
        api=table.api or base.api,
        dialect=table.dialect or base.dialect,
        url_name=setting,
    )


# --- saving -----------------------------------------------------------------------------------------------


def save_choice(
    environ: Mapping[str, str],
    provider: Provider | None,
    model: str,
) -> Path:
    """Save the provider and model in the user's settings file.

    The file's comments and order are kept.

    Args:
        provider: None for the embedded model.
        model: empty for the provider's default model.

    Returns:
        The path of the file.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    values = {"provider": "", "model": "offline"}
    if provider is not None:
        values = {"provider": provider.name, "model": model}
    with changed_config(environ) as document:
        for name, value in values.items():
            if value:
                document[name] = value
            else:
                document.pop(name, None)
    return config_file(environ)


@contextmanager
def changed_config(environ: Mapping[str, str]) -> "Iterator[TOMLDocument]":
    """Yield the user's settings file for changes, and save it afterwards.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    import tomlkit

    path = config_file(environ)
    from_file(path)  # reports errors in the file
    document = tomlkit.document()
    if path.exists():
        document = tomlkit.parse(read_regular(path).decode())
    yield document
    write_private(path, tomlkit.dumps(document))


def is_first_start(
    settings: ProviderChoice,
    environ: Mapping[str, str],
    data_home: Path,
) -> bool:
    """Return whether no model has been chosen and there are no sessions."""
    if settings.model or settings.provider or settings.providers:
        return False
    try:
        if (
            provider_in_force(settings, environ) is not None
            or keys_file(environ).exists()
        ):
            return False
    except FoldlineError:
        return False  # an invalid setting, reported elsewhere
    return not any((data_home / "sessions").glob("*/*/events.jsonl"))


# --- providers and models in the layers of settings -------------------------------------------------------

MODEL = ("model",)
PROVIDER = ("provider",)
SUMMARISER = ("compaction", "model")
_FALLBACK = ("fallback",)

OwnProviders = Mapping[str, Provider]
"""The user's own providers, by name."""


def named_in(
    layers: Sequence[Sequence[RawSetting]], environ: Mapping[str, str]
) -> list[RawSetting]:
    """Merge layers, with `MODEL@PROVIDER` split into two settings.

    A model belongs to the provider that it was set with, so a later layer with another provider removes the
    model. If OPENAI_BASE_URL is set, a `provider` and model from a file are ignored, because the variable
    applies to this run only.

    Raises:
        FoldlineError: a named provider does not exist.
    """
    own = _own_names(layers)
    url = environ.get("OPENAI_BASE_URL", "").strip()
    preset = provider_at(url) if url else None
    result: list[RawSetting] = []
    provider: object = ""
    for layer in layers:
        settings = {setting.names: setting for setting in _split_models(layer, own)}
        provider_setting = settings.get(PROVIDER)
        if provider_setting is not None and provider_setting.value != provider:
            if (
                not url
                or provider_setting.for_this_run
                or provider_setting.value == ENVIRONMENT
            ):
                result = [other for other in result if other.names != MODEL]
                provider = provider_setting.value
            else:
                del settings[PROVIDER]
                # Keep the model only if the provider is the one at this address.
                if preset is None or preset.name != provider_setting.value:
                    settings.pop(MODEL, None)
        result += settings.values()
    return result


def _own_names(layers: Sequence[Sequence[RawSetting]]) -> OwnProviders:
    """Return the user's own providers.

    Only their names are filled in.
    """
    own = {}
    for layer in layers:
        for setting in layer:
            if setting.names[0] == SECTION and len(setting.names) > 1:
                name = setting.names[1].lower()
                own[name] = Provider(name, "", "")
    return own


def _split_models(
    layer: Sequence[RawSetting], own: OwnProviders
) -> Iterator[RawSetting]:
    """Yield a layer's settings, with `MODEL@PROVIDER` split, and with checked providers."""
    # A provider that is named together with its model comes last, because it takes precedence.
    for setting in sorted(layer, key=lambda setting: setting.names != PROVIDER):
        if setting.names == PROVIDER:
            yield _checked_provider(setting, own)
            continue
        if setting.names == _FALLBACK and isinstance(setting.value, list):
            for name in setting.value:
                _split_name(replace(setting, value=str(name)), own)
        if setting.names in (MODEL, SUMMARISER) and isinstance(setting.value, str):
            model, provider = _split_name(setting, own)
            if provider and setting.names == MODEL:
                # It counts as much as a provider that is named for this run.
                yield replace(
                    setting, names=PROVIDER, value=provider, for_this_run=True
                )
                setting = replace(setting, value=model)
        yield setting


def _checked_provider(setting: RawSetting, own: OwnProviders) -> RawSetting:
    name = str(setting.value).strip().lower()
    if not is_provider(name, own):
        close = close_to(name, own)
        hint = f"Did you mean {close}? " if close else ""
        available = ", ".join(dict.fromkeys([*own, *PROVIDERS, ENVIRONMENT]))
        raise FoldlineError(
            NO_PROVIDER,
            origin=setting.origin,
            name=setting.value,
            hint=hint,
            available=available,
        )
    return replace(setting, value=name)


def _split_name(setting: RawSetting, own: OwnProviders) -> tuple[str, str]:
    """Split `MODEL@PROVIDER`.

    Raises:
        FoldlineError: the part after `@` is probably a misspelt provider.
    """
    value = str(setting.value)
    model, provider = split_model(value, own)
    name, at, suffix = value.rpartition("@")
    if at and not provider:
        close = close_to(suffix, own, at_least=0.75)
        if close:
            suggestion = f"{name}@{close}"
            raise FoldlineError(
                MISSPELT, origin=setting.origin, name=suffix, suggestion=suggestion
            )
    return model, provider
