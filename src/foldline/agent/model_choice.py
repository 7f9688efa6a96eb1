"""Which provider and model the settings name, and keeping a choice for the next start."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from .layers import Given, config_file, dotted, from_file

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from .settings import Settings
    from .settings_schema import ProviderSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked and why, for people: nothing of it is secret."""

    provider: Provider
    named_by: str
    """The file, variable or option that says so."""
    key_from: str
    """The variable or the file; empty where there is no key."""
    url: str
    """Without user, password and query."""

    @property
    def sentence(self) -> str:
        key = f"key from {self.key_from}" if self.key_from else "without a key"
        return f"{self.provider.title} at {self.url}, named by {self.named_by}, {key}"


def provider_in_force(settings: "Settings", environ: Mapping[str, str]) -> Provider | None:
    """Who is asked; None is the embedded model.

    A provider that was named; else the server of OPENAI_BASE_URL; else OpenAI, where there is a key for it.

    Raises:
        FoldlineError: OPENAI_BASE_URL is no address, or its server is named and there is none.
    """
    if settings.provider:
        return provider_called(settings.provider, settings, environ)
    if url := environ.get("OPENAI_BASE_URL", "").strip():
        return server_of_environment(url)
    return OPENAI if environ.get("OPENAI_API_KEY", "").strip() else None


def provider_called(name: str, settings: "Settings", environ: Mapping[str, str]) -> Provider | None:
    """The provider of a name that the settings hold: one of the user's own, the server of OPENAI_BASE_URL as
    `env`, or a preset.

    Raises:
        FoldlineError: OPENAI_BASE_URL is no address, or its server is named and there is none.
    """
    found = settings.provider_named(name)
    if found is not None or name != ENVIRONMENT:
        return found
    url = environ.get("OPENAI_BASE_URL", "").strip()
    if not url:
        raise FoldlineError(f"The provider {ENVIRONMENT} is the server of OPENAI_BASE_URL, which is not set.")
    return server_of_environment(url)


def asked_now(settings: "Settings", environ: Mapping[str, str]) -> Asked | None:
    """Who is asked; None is the embedded model.

    Raises:
        FoldlineError: OPENAI_BASE_URL is no address, or the key cannot be used.
    """
    from foldline.llm.failures import Endpoint

    provider = provider_in_force(settings, environ)
    if provider is None or settings.model == "offline":
        return None
    unnamed = provider.url_name or "OPENAI_API_KEY"
    named_by = settings.origin("provider") if settings.provider else unnamed
    url = Endpoint(provider.base_url, "").shown
    return Asked(provider, named_by, key_origin(provider, environ), url)


def server_of_environment(url: str) -> Provider:
    """The server that OPENAI_BASE_URL names. Its host says whose it is, where that is one we know.

    Raises:
        FoldlineError: it is no address.
    """
    from foldline.llm.catalog import checked_url
    from foldline.llm.providers import is_local

    checked_url(url, "OPENAI_BASE_URL")
    known = provider_at(url)
    if known is None:
        needs_key = not is_local(url)
        address = address_of(url)
        return Provider(
            # Never like a name of one of the others: that one's stored key would be taken for its own.
            name=address if "." in address or ":" in address else f"{address}:",
            title=address,
            base_url=url,
            key_env=OPENAI.key_env if needs_key else "",
            other_key_envs=() if needs_key else (OPENAI.key_env,),
            url_name="OPENAI_BASE_URL",
        )
    # What the two variables say belongs together. A key of its own is surely this provider's, and goes first;
    # but a local server is known by its port alone, which anybody may use.
    envs = known.key_envs if known.key_env else ()
    return replace(
        known,
        base_url=url,
        other_key_envs=tuple(dict.fromkeys((*envs[1:], OPENAI.key_env))),
        url_name="OPENAI_BASE_URL",
    )


def save_choice(environ: Mapping[str, str], provider: Provider | None, model: str) -> Path:
    """Keeps provider and model in the user's own settings, whose comments and order stay; the file.

    No provider is the embedded model; no model, the provider's own choice.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    chosen = {"provider": provider.name if provider else "", "model": model if provider else "offline"}
    with changed_config(environ) as document:
        for name, value in chosen.items():
            if value:
                document[name] = value
            else:
                document.pop(name, None)
    return config_file(environ)


@contextmanager
def changed_config(environ: Mapping[str, str]) -> "Iterator[TOMLDocument]":
    """The user's own settings, written back with what was changed in them.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    import tomlkit

    path = config_file(environ)
    from_file(path)  # Says what is wrong with it, if anything is.
    document = tomlkit.parse(read_regular(path).decode()) if path.exists() else tomlkit.document()
    yield document
    write_private(path, tomlkit.dumps(document))


def is_first_start(settings: "Settings", environ: Mapping[str, str], data_home: Path) -> bool:
    """Whether nothing was chosen yet: no provider, key, model or server is set, and no session was held."""
    if settings.model or settings.provider or settings.providers:
        return False
    try:
        if provider_in_force(settings, environ) is not None or keys_file(environ).exists():
            return False
    except FoldlineError:
        return False  # Something was set, and what is wrong with it is said elsewhere.
    return not any((data_home / "sessions").glob("*/*/events.jsonl"))


MODEL, PROVIDER, SUMMARISER = ("model",), ("provider",), ("compaction", "model")
_FALLBACK = ("fallback",)

Known = Mapping[str, Provider]
"""The user's own providers, by name."""


@dataclass(frozen=True, slots=True)
class _Naming:
    """A provider that a layer names."""

    given: Given
    name: str
    is_firm: bool
    """Whether it was named for this run, or together with its model by an `@`."""


def named_in(layers: Iterable[Sequence[Given]], environ: Mapping[str, str]) -> list[Given]:
    """What the layers give, in their order, with `MODEL@PROVIDER` taken apart into its two settings.

    A model belongs to the provider it was set with: where a later layer names another one, it is left out. A
    `provider` in a file gives way to OPENAI_BASE_URL, which is about this run, and its model with it.

    Raises:
        FoldlineError: there is no such provider.
    """
    layers = [*layers]
    own: Known = {
        item.names[1].lower(): Provider(item.names[1].lower(), "", "")
        for layer in layers
        for item in layer
        if item.names[0] == SECTION and len(item.names) > 1
    }
    url = environ.get("OPENAI_BASE_URL", "").strip()
    at = provider_at(url) if url else None
    result: list[Given] = []
    provider = ""
    for layer in layers:
        namings, others = _apart(layer, own)
        gives_way = False
        for naming in namings:
            gives_way = bool(url) and not naming.is_firm
            if not gives_way:
                if naming.name != provider:
                    result = [item for item in result if item.names != MODEL]
                provider = naming.name
                result.append(naming.given)
            elif at is not None and at.name == naming.name:
                gives_way = False  # The same one, at this address: the model is right for it.
        result += [item for item in others if not (gives_way and item.names == MODEL)]
    return result


def own_provider(name: str, table: "ProviderSettings") -> Provider:
    """A provider of the user's own: a preset of this name with what is different, or another one.

    Raises:
        FoldlineError: it has no address, or one that is none.
    """
    from foldline.llm.catalog import checked_url
    from foldline.llm.dialect import dialect_for

    url, setting = table.base_url, dotted((SECTION, name, "base_url"))
    known = PROVIDERS.get(name)
    if known is None and not url:
        raise FoldlineError(f"The provider {name} has no address: set {setting}, such as https://host/v1.")
    if url:
        checked_url(url, setting)
    base = known or Provider(name, name, url or "", dialect=dialect_for(url or "").name)
    models = tuple(table.models or ())
    return replace(
        base,
        base_url=url or base.base_url,
        key_env=base.key_env if table.key_env is None else table.key_env.strip(),
        other_key_envs=base.other_key_envs if table.key_env is None else (),
        key_command=(table.key_command or "").strip(),
        api=table.api or base.api,
        dialect=table.dialect or base.dialect,
        default_model=models[0] if models else base.default_model,
        models=models or base.models,
        url_name=setting,
    )


def _apart(layer: Sequence[Given], own: Known) -> tuple[list[_Naming], list[Given]]:
    """The providers a layer names, what `model` says of it last, and everything else it gives."""
    plain = [_plainly(item, own) for item in layer if item.names == PROVIDER]
    joined: list[_Naming] = []
    others: list[Given] = []
    for item in layer:
        if item.names == PROVIDER:
            continue
        if item.names == _FALLBACK and isinstance(item.value, list):
            for name in item.value:
                _refuse_if_strange(replace(item, value=name), split_model(str(name), own)[1], own)
        if item.names not in (MODEL, SUMMARISER) or not isinstance(item.value, str):
            others.append(item)
            continue
        model, provider = split_model(item.value, own)
        _refuse_if_strange(item, provider, own)
        if provider and item.names == MODEL:
            joined.append(_Naming(replace(item, names=PROVIDER, value=provider), provider, is_firm=True))
            item = replace(item, value=model)
        others.append(item)
    return [*plain, *joined], others


def _plainly(item: Given, own: Known) -> _Naming:
    name = str(item.value).strip().lower()
    if not is_provider(name, own):
        close = close_to(name, own)
        meant = f"did you mean {close}? " if close else ""
        there = ", ".join(dict.fromkeys([*own, *PROVIDERS, ENVIRONMENT]))
        raise FoldlineError(f"{item.origin}: there is no provider {item.value}; {meant}there are {there}.")
    return _Naming(replace(item, value=name), name, is_firm=item.for_this_run or name == ENVIRONMENT)


def _refuse_if_strange(item: Given, provider: str, own: Known) -> None:
    """A name behind an `@` may be misspelt."""
    name, at, behind = str(item.value).rpartition("@")
    if at and not provider and (close := close_to(behind, own, at_least=0.75)):
        raise FoldlineError(f"{item.origin}: there is no provider {behind}; did you mean {name}@{close}?")
