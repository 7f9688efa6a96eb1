"""Counts a strategy's model calls and announces its drafts as they grow."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from foldline.context.budget import SMALLEST_WINDOW
from foldline.context.tokens import estimate_tokens
from foldline.llm import LLM, Answer, Chunk, ModelInfo, Request, RetryChunk, TextChunk
from foldline.protocol import Usage, events

from .strategy import CompactionFailed

Progress = Callable[[events.CompactionProgress | events.Retrying], None]


@dataclass
class Metered:
    """A strategy's model, watched."""

    llm: LLM
    progress: Progress
    on_request: Callable[[], None] = lambda: None
    """Called before each request."""
    rung: str = "strategy"
    calls: int = 0
    drafted: int = 0
    """Estimated tokens of the drafts that ended."""
    usage: Usage = field(default_factory=Usage)

    @property
    def info(self) -> ModelInfo:
        return self.llm.info

    @property
    def dialect(self) -> str:
        return self.llm.dialect

    async def prepare(self) -> ModelInfo:
        return await self.llm.prepare()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The answer to a request of the strategy's.

        Raises:
            CompactionFailed: the model cannot write summaries. It is not asked.
            LLMError: it could not be asked.
        """
        if self.info.window < SMALLEST_WINDOW:
            raise CompactionFailed(
                f"The model {self.info.id} cannot write summaries: its window of {self.info.window:,} tokens "
                "is too small. Choose another one with compaction.model."
            )
        self.calls += 1
        self.on_request()
        growing = 0
        self._tell("", 0)
        async with aclosing(self.llm.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextChunk):
                    growing += estimate_tokens(chunk.text)
                    self._tell(chunk.text, growing)
                elif isinstance(chunk, RetryChunk):
                    growing = 0
                    self.progress(chunk.event)
                elif isinstance(chunk, Answer):
                    self.drafted += estimate_tokens(chunk.message.text)
                    self._count(chunk.message.usage)
                yield chunk

    def _tell(self, delta: str, growing: int) -> None:
        self.progress(
            events.CompactionProgress(
                stage="draft", rung=self.rung, delta=delta, drafted_tokens=self.drafted + growing
            )
        )

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = Usage(
                input=self.usage.input + usage.input,
                cached=self.usage.cached + usage.cached,
                output=self.usage.output + usage.output,
                reasoning=self.usage.reasoning + usage.reasoning,
            )

    async def aclose(self) -> None:
        await self.llm.aclose()
