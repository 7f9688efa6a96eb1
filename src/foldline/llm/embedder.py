"""What makes texts comparable by what they mean, as the rest of Foldline sees it."""

from collections.abc import Sequence
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


class NoEmbedder:
    """Stands where there is none."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        raise LLMError("No model for embeddings is known here: name one with compaction.embedding_model.")
