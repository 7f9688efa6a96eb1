"""Sessions replayed under one arm, for tests of what is measured of them."""

from collections.abc import AsyncGenerator, Callable, Sequence

from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.evaluation.arms import arm_named
from foldline.evaluation.comparison import digest_summariser
from foldline.evaluation.record import Meter, Run
from foldline.evaluation.replay import replay
from foldline.llm import LLM, Answer, Chunk, ModelInfo, Request, TextChunk
from foldline.protocol import AssistantMessage, BaseMessage, Usage, text_parts

METER = Meter("script weights", message_tokens)


async def replayed(
    history: Sequence[BaseMessage],
    arm: str,
    *,
    window: int,
    llm: LLM | None = None,
    pins: frozenset[int] = frozenset(),
) -> Run:
    """Summaries by the digest, where no other model is given."""
    writer = llm or digest_summariser(window)
    return await replay(
        history,
        arm_named(arm, window, {LLM: writer}),
        session="made",
        window=window,
        summariser=writer,
        summarised_by="digest",
        meter=METER,
        pins=pins,
    )


class Double:
    """A summariser that writes what a function makes of the request's text."""

    dialect = "double"

    def __init__(self, name: str, window: int, write: Callable[[Request], str]) -> None:
        self._info = ModelInfo(name, window)
        self._write = write

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def prepare(self) -> ModelInfo:
        return self._info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        text = self._write(request)
        yield TextChunk(text)
        usage = Usage(output=estimate_tokens(text))
        yield Answer(AssistantMessage(parts=text_parts(text), usage=usage, stop_reason="stop"))

    async def aclose(self) -> None:
        """Nothing is open."""


def opaque(window: int, tokens: int = 1_500) -> LLM:
    """Prose that says nothing: a fold by it keeps what the strategy itself keeps, and no more."""
    line = "Work went on as it had been agreed, and it came to what it came to. "
    return Double("opaque", window, lambda _: "## Goal\n" + line * max(1, tokens // estimate_tokens(line)))
