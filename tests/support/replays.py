"""Sessions replayed with one strategy, for tests of the measurements."""

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from foldline.llm import LLM, Answer, Chunk, ModelInfo, Request, TextChunk
from foldline.protocol import AssistantMessage, BaseMessage, Usage, text_parts
from foldline.view.tokens import estimate_tokens
from foldline_eval.arms import arm_named
from foldline_eval.comparison import digest_summariser
from foldline_eval.record import RecordedSession, ReplayRun
from foldline_eval.replay import replay


async def replay_session(
    history: Sequence[BaseMessage],
    arm: str,
    *,
    window: int,
    llm: LLM | None = None,
    pins: frozenset[int] = frozenset(),
) -> ReplayRun:
    """Replay a session; without `llm`, the digest writes the summaries."""
    writer = llm or digest_summariser(window)
    session = RecordedSession("made", tuple(history), Path("/"), pins)
    return await replay(session, arm_named(arm, window, {LLM: writer}), writer)


class FakeSummariser:
    """A summariser that answers with a function of the request's text."""

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
        yield Answer(
            AssistantMessage(parts=text_parts(text), usage=usage, stop_reason="stop")
        )

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


def opaque(window: int, tokens: int = 1_500) -> LLM:
    """Return a summariser that writes prose without facts.

    A compaction by it keeps only what the strategy itself keeps.
    """
    line = "Work went on as it had been agreed, and it came to what it came to. "
    return FakeSummariser(
        "opaque",
        window,
        lambda _: "## Goal\n" + line * max(1, tokens // estimate_tokens(line)),
    )
