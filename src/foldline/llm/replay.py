"""A model that answers from a recording, then hands over to another one. For the guided tour."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from foldline.protocol import AssistantMessage

from .base import LLM, Answer, Chunk, ModelInfo, Request, TextChunk

_WORD = re.compile(r"\S+\s*|\s+")


class ReplayLLM:
    """Gives the recorded answers in order, at the pace of typing; what asks for notes goes to `after`.

    Requests without tools are those of a compaction: they are made anew, so that it is a real one.
    """

    def __init__(self, answers: Iterable[AssistantMessage], after: LLM, *, pace: float) -> None:
        """`pace` in seconds a word."""
        self._answers = deque(answers)
        self._after = after
        self._pace = pace

    @property
    def info(self) -> ModelInfo:
        return self._after.info

    @property
    def dialect(self) -> str:
        return self._after.dialect

    async def prepare(self) -> ModelInfo:
        return await self._after.prepare()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if not (request.tools and self._answers):
            async with aclosing(self._after.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        answer = self._answers.popleft()
        for word in _WORD.findall(answer.text):
            yield TextChunk(word)
            await asyncio.sleep(self._pace)
        yield Answer(answer.model_copy(update={"index": -1, "at": None}))

    async def aclose(self) -> None:
        await self._after.aclose()
