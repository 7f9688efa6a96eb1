"""Creates model clients from providers.

Nothing is sent before the first request.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec

from foldline.protocol import FoldlineError

from .base import LLMError
from .client import ModelClient
from .listing import ListedModel
from .models import known_output, known_window, price_of, takes_pictures
from .providers import Provider, is_local
from .wire import DEFAULT, Options

INSTALL = "pip install 'foldline[anthropic]'"
NEEDS_KEY = "{provider} needs a key: set {name}{source}."
NEEDS_SDK = "{provider} needs Anthropic's package: install it with {command}."


def connect(
    provider: Provider,
    model: str = "",
    key: str = "",
    window: int | Callable[[str], int | None] | None = None,
    *,
    key_name: str = "",
    options: Options = DEFAULT,
) -> ModelClient:
    """Create the client for a provider's model.

    Args:
        model: name of the model. By default, the provider's default model or the first that the server lists.
        window: replaces the known window; a number of tokens, or a function of the model's name.
        key_name: name of the key's source in error messages, if it is not the provider's variable.

    Raises:
        FoldlineError: the provider needs a key but there is none, or its SDK is not installed.
    """
    require_sdk(provider)
    if provider.key_env and not key and not is_local(provider.base_url):
        source = f" to one from {provider.key_page}" if provider.key_page else ""
        name = key_name or provider.key_name
        raise FoldlineError(
            NEEDS_KEY, provider=provider.title, name=name, source=source
        )
    named = model or provider.default_model
    return ModelClient(
        provider,
        model=named,
        key=key,
        key_name=key_name,
        window=window,
        options=options,
    )


def require_sdk(provider: Provider) -> None:
    """Check that a provider's SDK is installed.

    Raises:
        FoldlineError: the SDK is not installed.
    """
    if provider.api == "messages" and find_spec("anthropic") is None:
        raise FoldlineError(NEEDS_SDK, provider=provider.title, command=INSTALL)


async def list_models(provider: Provider, key: str = "") -> list[ListedModel]:
    """List the models that can be used with this key.

    Facts that the server does not report are taken from Foldline's own table. If the server cannot list its
    models, the models configured for the provider are returned.

    Raises:
        LLMError: the server cannot be reached, or rejects the key.
        FoldlineError: the SDK for the provider is not installed.
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
    """Add missing facts from Foldline's own table.

    For models on local servers, windows and prices are not added.
    """
    is_local_server = provider.listing != "openai"
    window = None if is_local_server else known_window(model.id)
    price = None if is_local_server else price_of(model.id)
    return replace(
        model,
        window=model.window or window,
        max_output=model.max_output or known_output(model.id),
        price=model.price or price,
        pictures=takes_pictures(model.id) if model.pictures is None else model.pictures,
    )
