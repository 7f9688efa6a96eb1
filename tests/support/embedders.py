"""Embedders for tests that record their requests."""

from collections.abc import Sequence

from foldline.llm import LLMError, Vector
from support.server_embeddings import vector


class FakeEmbedder:
    """The test server's embeddings without a server; raises `failure` if set."""

    def __init__(self, failure: LLMError | None = None) -> None:
        self.texts: list[str] = []
        self._failure = failure

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.texts += texts
        if self._failure is not None:
            raise self._failure
        return [tuple(vector(text)) for text in texts]
