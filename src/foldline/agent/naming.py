"""Which provider and which model the settings name, where several of them do: the two belong together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foldline.llm.providers import (
    ENVIRONMENT,
    PROVIDERS,
    Provider,
    close_to,
    is_provider,
    provider_at,
    split_model,
)
from foldline.protocol import FoldlineError

from .layers import PROVIDERS as SECTION
from .layers import Given, dotted

if TYPE_CHECKING:
    from .sections import ProviderSettings

MODEL, PROVIDER, SUMMARISER = ("model",), ("provider",), ("compaction", "model")

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
