"""Embeddings: texts as vectors, by the provider's `/embeddings`. Near vectors mean about the same.

Whatever goes wrong is an `LLMError` at once: who asks has another way to compare texts.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.context.tokens import estimate_tokens

from . import failures
from .base import LLMError, Vector
from .failures import Endpoint, unreachable_failure
from .providers import Provider
from .wire import LARGEST

if TYPE_CHECKING:
    from .http_client import Sdk


SECONDS = 30.0
"""For all requests of one `embed`: a compaction does not wait longer for what it can do without."""
_CONNECT_SECONDS = 5.0
_MOST_TEXTS = 10
"""Of one request: no more are taken by DashScope."""
_MOST_TOKENS = 8_000
"""Of one request, estimated: half of what Mistral takes."""


class OpenAIEmbedder:
    """A model behind `/embeddings`. Its connections are open for the length of one `embed`."""

    def __init__(self, provider: Provider, *, model: str, key: str = "", seconds: float = SECONDS) -> None:
        self.model = model
        self._provider = provider
        self._key = key
        self._seconds = seconds

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """See `Embedder.embed`. Long lists go in several requests; nothing is sent again."""
        vectors: list[Vector] = []
        async with aclosing(await asyncio.to_thread(self._client)) as client:
            try:
                async with asyncio.timeout(self._seconds):
                    for batch in _batches(texts):
                        vectors += await self._embed(client, batch)
            except TimeoutError:
                raise LLMError(failures.stalled_failure(self._endpoint, self._seconds).sentence) from None
        if len({len(vector) for vector in vectors}) > 1:
            raise self._unusable()
        return vectors

    async def _embed(self, client: "Sdk", texts: Sequence[str]) -> list[Vector]:
        # The SDK asks for base64 unless told otherwise, which many servers do not speak.
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        try:
            answer = await client.ask("/embeddings", body)
        except client.failed_with_status as error:
            failure = failures.status_failure(self._endpoint, error.status_code, error.response.text, {})
            raise LLMError(failure.sentence, failure.status) from None
        except client.timed_out:
            raise LLMError(failures.stalled_failure(self._endpoint, self._seconds).sentence) from None
        except client.unreachable as error:
            raise LLMError(unreachable_failure(self._endpoint, error).sentence) from None
        except (client.failed, ValueError, RecursionError):
            raise self._unusable() from None
        vectors = _vectors(answer)
        if len(vectors) != len(texts):
            raise self._unusable()
        return vectors

    def _unusable(self) -> LLMError:
        return LLMError(
            f"{self._endpoint.shown} gave no usable embeddings with {self.model}: set "
            "compaction.embedding_model to a model that makes them."
        )

    @property
    def _endpoint(self) -> Endpoint:
        asked = self._provider
        return Endpoint(asked.base_url, self.model, self._key, asked.key_name, asked.url_setting)

    def _client(self) -> "Sdk":
        """The SDK's client; import and construction block for long, hence the thread."""
        from .http_client import Sdk

        asked = replace(self._provider, api="chat")  # only OpenAI's SDK knows how
        return Sdk(asked, self._key, idle_seconds=self._seconds, connect_seconds=_CONNECT_SECONDS)


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start, tokens = 0, 0
    for at, text in enumerate(texts):
        size = estimate_tokens(text)
        if at > start and (at - start == _MOST_TEXTS or tokens + size > _MOST_TOKENS):
            yield texts[start:at]
            start, tokens = at, 0
        tokens += size
    if start < len(texts):
        yield texts[start:]


def _vectors(answer: object) -> list[Vector]:
    """The vectors of an answer, in the order of the texts; none where it has another shape."""
    records = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        return []
    places = [record.get("index", at) for at, record in enumerate(records)]
    if sorted(map(str, places)) != sorted(map(str, range(len(records)))):
        return []
    ordered = sorted(zip(places, records, strict=True), key=lambda pair: int(pair[0]))
    vectors = [_vector(record.get("embedding")) for _, record in ordered]
    return vectors if all(vectors) else []


def _vector(value: object) -> Vector:
    if not isinstance(value, list) or not all(_is_number(number) for number in value):
        return ()
    return tuple(map(float, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
