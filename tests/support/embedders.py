"""Embedders for tests: what they were asked is remembered."""

from collections.abc import Sequence

from foldline.llm import LLMError, Vector
from support.server_embeddings import vector


class Meanings:
    """The test server's model of meaning, without a server; fails where it is told to."""

    def __init__(self, failure: LLMError | None = None) -> None:
        self.asked: list[str] = []
        self._failure = failure

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        if self._failure is not None:
            raise self._failure
        return [tuple(vector(text)) for text in texts]
