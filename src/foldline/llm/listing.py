"""The models of a provider, asked of its server. It costs nothing, and shows whether a key is right."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from .base import LLMError
from .models import known_output, known_window, takes_pictures
from .offers import Offer
from .openai_client import OpenAIChat
from .prices import price_of
from .providers import Provider

__all__ = ["Offer", "list_models"]


async def list_models(provider: Provider, key: str = "") -> list[Offer]:
    """The models that can be asked with this key, with what the server says of them, or else our own table.

    Where the server lists none, those that were set for the provider.

    Raises:
        LLMError: the server cannot be reached, or refuses the key.
    """
    async with aclosing(OpenAIChat(provider, key=key)) as client:
        try:
            offers = await client.offers()
        except LLMError as error:
            if error.status not in (404, 405) or not provider.models:
                raise
            offers = []
    listed = {offer.id for offer in offers}
    offers += [Offer(model) for model in provider.models if model not in listed]
    return [completed(offer, provider) for offer in offers]


def completed(offer: Offer, provider: Provider) -> Offer:
    """With what our own table knows, where the server says nothing."""
    local = provider.listing != "openai"
    window: Callable[[str], int | None] = (lambda _: None) if local else known_window
    return replace(
        offer,
        window=offer.window or window(offer.id),
        max_output=offer.max_output or known_output(offer.id),
        price=offer.price or (None if local else price_of(offer.id)),
        pictures=takes_pictures(offer.id) if offer.pictures is None else offer.pictures,
    )
