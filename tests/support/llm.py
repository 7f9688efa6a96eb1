"""A scripted model that records its requests."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from enum import Enum

import pytest

from foldline.llm import (
    Answer,
    Chunk,
    ContextOverflow,
    LLMError,
    ModelInfo,
    Request,
    TextChunk,
    ThinkingChunk,
)
from foldline.protocol import (
    AssistantMessage,
    ThinkingPart,
    ToolCallPart,
    Usage,
    text_parts,
)


class Silence(Enum):
    """Script step: open a stream, then hang until cancelled."""

    HANG = "hang"


HANG = Silence.HANG
Step = str | AssistantMessage | LLMError | Silence
"""The reaction to one request: a text, a whole answer, a failure, or silence."""


def answer(text: str, **fields: object) -> AssistantMessage:
    return AssistantMessage(parts=text_parts(text), **{"stop_reason": "stop", **fields})


EMPTY = answer("")
WHITESPACE = answer(" \n\t ")
THINKING_ONLY = AssistantMessage(
    parts=(ThinkingPart(text="I should sum this up."),), stop_reason="stop"
)
TOOL_CALL = AssistantMessage(
    parts=(*text_parts("I look first."), ToolCallPart(call_id="x", name="read")),
    stop_reason="tool_calls",
)
CUT_OFF = answer("## Goal\nTo finish the sen", stop_reason="length")
TOO_LONG = answer("All of it, in my own words, and then some. " * 20_000)
BAD_DRAFTS = {
    "empty": EMPTY,
    "whitespace": WHITESPACE,
    "thinking only": THINKING_ONLY,
    "tool call": TOOL_CALL,
    "cut off": CUT_OFF,
}


def overflow() -> ContextOverflow:
    return ContextOverflow("The request is longer than the window.", status=400)


def refusal() -> LLMError:
    return LLMError("The key was refused: check OPENAI_API_KEY.", status=401)


class ScriptedLLM:
    """Plays its script, one step per request; `always` answers all later ones."""

    dialect = "scripted"

    def __init__(
        self, *script: Step, always: Step | None = None, window: int = 1_000_000
    ) -> None:
        self.info = ModelInfo(id="scripted", window=window)
        self.requests: list[Request] = []
        self.silent = asyncio.Event()
        """Set once a request hangs."""
        self.cancelled = 0
        self._script = deque(script)
        self._always = always

    @property
    def prompts(self) -> list[str]:
        """The text of each request's last message."""
        return [request.messages[-1].text for request in self.requests]

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        step = self._script.popleft() if self._script else self._always
        match step:
            case None:
                pytest.fail("the model was asked more often than the script says")
            case LLMError():
                raise step
            case Silence():
                await self._hang()
            case str():
                async for chunk in self._say(
                    answer(step, usage=Usage(input=100, output=10))
                ):
                    yield chunk
            case _:
                async for chunk in self._say(step):
                    yield chunk

    async def _say(self, message: AssistantMessage) -> AsyncGenerator[Chunk, None]:
        if message.thinking:
            yield ThinkingChunk(message.thinking)
        half = len(message.text) // 2
        for piece in (message.text[:half], message.text[half:]):
            if piece:
                yield TextChunk(piece)
        yield Answer(message)

    async def _hang(self) -> None:
        self.silent.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def prepare(self) -> ModelInfo:
        return self.info

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""
