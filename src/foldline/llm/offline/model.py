"""The offline model as an `LLM`: streams, counts, has a window; and, for the guided tour, one that plays a
recording first. Neither needs a key or the network."""

import asyncio
import json
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing

from foldline.context.digest import within
from foldline.context.tokens import call_tokens, estimate_tokens, image_tokens
from foldline.protocol import AssistantMessage, BaseMessage, ImagePart, Usage, text_parts
from foldline.protocol.messages import StopReason

from ..base import OFFLINE, Answer, Chunk, ContextOverflow, ModelInfo, Request, TextChunk, ToolCallChunk
from .reply import Reply, reply_to

WINDOW = 16_384
"""Tokens by default: small, so that a compaction is seen within minutes."""
MAX_OUTPUT = 4_096
PACE = 0.008
"""Seconds between two words: fast enough not to wait for, slow enough to see that it streams."""


class OfflineLLM:
    """Follows simple requests with real tool calls, and writes extractive summaries.

    Tokens are its own count: `estimate_tokens` over a canonical rendering of tools and messages. What this
    rendering shares with that of the request before counts as cached, as on servers with a prefix cache.
    """

    dialect = OFFLINE

    def __init__(
        self,
        window: int = WINDOW,
        *,
        pace: float = PACE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`window` in tokens, `pace` in seconds a chunk."""
        self.info = ModelInfo(OFFLINE, window, min(MAX_OUTPUT, window), OFFLINE)
        self._pace = pace
        self._sleep = sleep
        self._previous = ""

    async def prepare(self) -> ModelInfo:
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See `LLM.stream`. Can be cancelled between any two chunks.

        Raises:
            ContextOverflow: the request leaves no room for an answer within the window.
        """
        rendering = _rendered(request)
        images = (part for message in request.messages for part in message.parts)
        pictures = sum(image_tokens(part) for part in images if isinstance(part, ImagePart))
        sent = estimate_tokens(rendering) + pictures
        if sent >= self.info.window:
            raise ContextOverflow(
                f"The request is longer than the window of {OFFLINE}: it takes {sent:,} of "
                f"{self.info.window:,} tokens. Compact the conversation, or set a larger window.",
                status=400,
            )
        # Character by character is what is meant.
        cached = estimate_tokens(os.path.commonprefix([self._previous, rendering]))  # noqa: RUF071
        self._previous = rendering
        room = min(self.info.window - sent, request.max_output or MAX_OUTPUT, MAX_OUTPUT)
        reply, stop_reason = _fitted(reply_to(request, room), room)
        for chunk in _chunks(reply):
            await self._sleep(self._pace)
            yield chunk
        yield Answer(
            AssistantMessage(
                parts=(*text_parts(reply.text), *reply.calls),
                model=OFFLINE,
                usage=Usage(input=sent, cached=min(cached, sent), output=_output_tokens(reply)),
                stop_reason=stop_reason,
            )
        )

    async def aclose(self) -> None:
        """Nothing is open."""


class ReplayLLM(OfflineLLM):
    """Gives recorded answers in order, at the pace of typing, then goes on as the offline model.

    Requests without tools are those of a compaction: they are made anew, so that it is a real one.
    """

    def __init__(self, answers: Iterable[AssistantMessage], window: int, *, pace: float) -> None:
        super().__init__(window, pace=pace)
        self._answers = deque(answers)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if not (request.tools and self._answers):
            async with aclosing(super().stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        answer = self._answers.popleft()
        for chunk in _chunks(Reply(answer.text)):
            yield chunk
            await self._sleep(self._pace)
        yield Answer(answer.model_copy(update={"index": -1, "at": None}))


# --- counting ---------------------------------------------------------------------------------------


def _rendered(request: Request) -> str:
    """Tools, then messages, each as labelled text: the same request gives the same bytes."""
    tools = (
        json.dumps([tool.name, tool.description, tool.parameters], sort_keys=True, ensure_ascii=False)
        for tool in request.tools
    )
    return "\n".join([*tools, *map(_message, request.messages)])


def _message(message: BaseMessage) -> str:
    """Without thinking, which is not sent back, as with other models."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    spelt = (f"{call.call_id} {call.name} {call.arguments}" for call in calls)
    return "\n".join([f"[{message.type}]", message.text, *spelt])


def _output_tokens(reply: Reply) -> int:
    return estimate_tokens(reply.text) + sum(map(call_tokens, reply.calls))


# --- streaming --------------------------------------------------------------------------------------


def _fitted(reply: Reply, room: int) -> tuple[Reply, StopReason]:
    """The reply as far as there is room; cut off in the middle, as servers do it."""
    if _output_tokens(reply) <= room:
        return reply, "tool_calls" if reply.calls else "stop"
    return Reply(within(reply.text, room)), "length"


# A word with the blanks behind it; of a script without blanks a few characters.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,4}\s*|[^\s\u3040-\u30ff\u3400-\u9fff]{1,40}\s*|\s+"
)


def _chunks(reply: Reply) -> Iterator[Chunk]:
    for word in _WORD.finditer(reply.text):
        yield TextChunk(word[0])
    for call in reply.calls:
        yield ToolCallChunk(call.name)
        for start in range(0, len(call.arguments), 24):
            yield ToolCallChunk(call.name, call.arguments[start : start + 24])
