"""Embeddings: vectors for strings, from the provider's `/embeddings`.

Failed requests raise `LLMError` without a retry, because the caller can compare strings by their words
instead.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, FiniteFloat

from . import failures
from .base import LLMError, Vector
from .failures import Endpoint, endpoint_of
from .providers import Provider, address_of

if TYPE_CHECKING:
    from .http_client import Sdk


UNUSABLE = "{at.shown} returned no usable embeddings from {at.model}."
SECONDS = 30.0
"""Timeout in seconds for all requests of one `embed` call together.

It is short, because a compaction can do without the vectors.
"""
_CONNECT_SECONDS = 5.0
_MOST_TEXTS = 10
"""Maximum number of strings in one request, which is DashScope's limit."""


class OpenAIEmbedder:
    """A model served through `/embeddings`.

    Connections are open only during `embed`.
    """

    def __init__(
        self, provider: Provider, *, model: str, key: str = "", seconds: float = SECONDS
    ) -> None:
        self.model = model
        self.provider = address_of(provider.base_url)
        """Address of the server to which the strings are sent, as in `ModelInfo.provider`."""
        self._provider = provider
        self._key = key
        self._seconds = seconds

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors; see `Embedder.embed`.

        A long list is sent in several requests.
        """
        vectors: list[Vector] = []
        async with aclosing(await asyncio.to_thread(self._client)) as client:
            try:
                async with asyncio.timeout(self._seconds):
                    for start in range(0, len(texts), _MOST_TEXTS):
                        batch = texts[start : start + _MOST_TEXTS]
                        vectors += await self._embed(client, batch)
            except TimeoutError:
                failure = failures.stalled_failure(self._endpoint, self._seconds)
                raise LLMError(failure.sentence) from None
        if len({len(vector) for vector in vectors}) > 1:
            raise self._unusable()
        return vectors

    async def _embed(self, client: "Sdk", texts: Sequence[str]) -> list[Vector]:
        # Without `encoding_format`, the SDK requests base64, which many servers do not support.
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        try:
            response = await client.ask("/embeddings", body)
            records = _Response.model_validate(response).data
        except client.failed as error:
            failure = client.failure(error, self._endpoint)
            raise LLMError(failure.sentence, failure.status) from None
        except (ValueError, RecursionError):
            raise self._unusable() from None
        if len(records) != len(texts):
            raise self._unusable()
        records.sort(key=lambda record: record.index)
        return [record.embedding for record in records]

    def _unusable(self) -> LLMError:
        return LLMError(UNUSABLE.format(at=self._endpoint))

    @property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(self._provider, self.model, self._key)

    def _client(self) -> "Sdk":
        """Create the SDK's client.

        This runs in a thread, because the import is slow.
        """
        from .http_client import Sdk

        return Sdk(
            self._provider,
            self._key,
            idle_seconds=self._seconds,
            connect_seconds=_CONNECT_SECONDS,
        )


class _EmbeddingRecord(BaseModel):
    """The vector of one string."""

    index: int = 0
    """Position of the string. Servers that omit it return the vectors in order."""
    embedding: tuple[FiniteFloat, ...] = Field(min_length=1)


class _Response(BaseModel):
    """The response to one request."""

    data: list[_EmbeddingRecord]
