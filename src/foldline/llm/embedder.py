"""What makes texts comparable by what they mean, as the rest of Foldline sees it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from .base import LLMError

Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns texts into vectors of one length; near vectors mean about the same."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, in their order.

        Raises:
            LLMError: they cannot be had.
        """
        ...


class EmbedderWhile:
    """An embedder that gets no text any more once something does not hold."""

    def __init__(self, embedder: Embedder, holds: Callable[[], bool]) -> None:
        self._embedder = embedder
        self._holds = holds

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not self._holds():
            raise LLMError("Another provider is asked now: texts are no longer sent to the one of before.")
        return await self._embedder.embed(texts)


class NoEmbedder:
    """Stands where there is none."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        raise LLMError("No model for embeddings is known here: name one with compaction.embedding_model.")
