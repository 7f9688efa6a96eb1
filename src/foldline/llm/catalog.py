"""From a provider to a model client. Nothing is sent before the first request."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec
from urllib.parse import urlsplit

from foldline.protocol import FoldlineError

from .base import LLMError
from .client import ModelClient
from .embeddings import OpenAIEmbedder
from .listing import ListedModel
from .models import known_output, known_window, price_of, takes_pictures
from .providers import Provider, is_local
from .wire import DEFAULT, Options

INSTALL = "pip install 'foldline[anthropic]'"


def connect(
    provider: Provider,
    model: str = "",
    key: str = "",
    window: int | Callable[[str], int | None] | None = None,
    *,
    key_name: str = "",
    options: Options = DEFAULT,
) -> ModelClient:
    """The client for a model of a provider; its default one, or the first it lists, where none is named.

    `window`, in tokens or by the name of the model, overrides what is known of it. `key_name`, for sentences,
    says where the key is set, where that is not the provider's variable.

    Raises:
        FoldlineError: the provider needs a key, and there is none; or the SDK for it is not installed.
    """
    require_sdk(provider)
    if provider.key_env and not key and not is_local(provider.base_url):
        source = f", from {provider.key_page}" if provider.key_page else ""
        raise FoldlineError(f"{provider.title} needs a key: set {key_name or provider.key_name}{source}.")
    named = model or provider.default_model
    return ModelClient(provider, model=named, key=key, key_name=key_name, window=window, options=options)


def require_sdk(provider: Provider) -> None:
    """Whether what a provider is asked with is installed.

    Raises:
        FoldlineError: it is not.
    """
    if provider.api == "messages" and find_spec("anthropic") is None:
        raise FoldlineError(f"{provider.title} is asked with Anthropic's own package: {INSTALL} installs it.")


def connect_embeddings(provider: Provider, key: str, model: str = "") -> OpenAIEmbedder | None:
    """Embeddings of a provider, by `model` or the one known for it; None where neither is."""
    named = model or provider.embedding_model
    return OpenAIEmbedder(provider, model=named, key=key) if named else None


def checked_url(url: str, origin: str) -> str:
    """The URL, checked to be http or https.

    Raises:
        FoldlineError: it is none.
    """
    try:
        parts = urlsplit(url)
        # `port` raises where it is no number.
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise FoldlineError(
            f"{origin} is not an http or https address: it should look like http://localhost:8000/v1."
        )
    return url


async def list_models(provider: Provider, key: str = "") -> list[ListedModel]:
    """The models that can be asked with this key, with what the server says of them, or else our own table.

    Where the server lists none, those that were set for the provider.

    Raises:
        LLMError: the server cannot be reached, or refuses the key.
        FoldlineError: the SDK for it is not installed.
    """
    require_sdk(provider)
    async with aclosing(ModelClient(provider, key=key)) as client:
        try:
            models = await client.list_models()
        except LLMError as error:
            if error.status not in (404, 405) or not provider.models:
                raise
            models = []
    listed = {model.id for model in models}
    models += [ListedModel(model) for model in provider.models if model not in listed]
    return [completed(model, provider) for model in models]


def completed(model: ListedModel, provider: Provider) -> ListedModel:
    """The listed model, with gaps filled from our own table."""
    local = provider.listing != "openai"
    window: Callable[[str], int | None] = (lambda _: None) if local else known_window
    return replace(
        model,
        window=model.window or window(model.id),
        max_output=model.max_output or known_output(model.id),
        price=model.price or (None if local else price_of(model.id)),
        pictures=takes_pictures(model.id) if model.pictures is None else model.pictures,
    )
