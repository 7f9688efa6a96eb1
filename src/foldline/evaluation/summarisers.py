"""What writes the summaries of a replay where no model is asked: the digest, and doubles for tests of the
instrument itself (evaluation.md §5.2)."""

import random
from collections.abc import AsyncGenerator, Callable

from foldline.context.tokens import estimate_tokens
from foldline.llm import LLM, Answer, Chunk, ModelInfo, Request, TextChunk
from foldline.llm.offline import OfflineLLM
from foldline.protocol import AssistantMessage, Usage, text_parts

from .atoms import atoms

DIGEST = "digest"
"""The extract of the offline model: quoted, not told. What it leaves out a model might have kept."""


def digest_summariser(window: int) -> LLM:
    """Writes the same digest for the same request, at once."""
    return OfflineLLM(window, pace=0)


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
    return Double("opaque", window, lambda _: line * max(1, tokens // estimate_tokens(line)))


def lossy(window: int, share: float, seed: int = 0) -> LLM:
    """Repeats each atom it was shown with this probability: recall must then be measured as this."""
    chance = random.Random(seed)

    def write(request: Request) -> str:
        shown = sorted(atom.text for message in request.messages for atom in atoms(message))
        return "Kept:\n" + "\n".join(text for text in shown if chance.random() < share)

    return Double("lossy", window, write)
