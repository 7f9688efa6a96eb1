"""The offline model as an `LLM`.

It streams, counts tokens and has a window, but needs no key or network.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from foldline.llm.base import (
    OFFLINE,
    Answer,
    Chunk,
    ContextOverflow,
    ModelInfo,
    Request,
    TextChunk,
    ToolCallChunk,
)
from foldline.memory.clip import clip_line
from foldline.protocol import AssistantMessage, ImagePart, Usage, text_parts
from foldline.view.tokens import call_tokens, estimate_tokens, image_tokens

if TYPE_CHECKING:
    from .reply import Reply

TOO_LONG = (
    "The request is longer than the context window of the offline model: {tokens:,} of {window:,} tokens. "
    "Compact the conversation, or set a larger window."
)
WINDOW = 16_384
"""Default window in tokens.

It is small, so that a compaction happens within minutes.
"""
MAX_OUTPUT = 4_096
PACE = 0.008
"""Seconds between two words. Streaming is visible, but does not take long."""
Sleep = Callable[[float], Awaitable[None]]
_WORD = re.compile(r"\S{1,12}\s*|\s+")
"""Matches a short word or part of a long word, with the spaces after it."""


class OfflineLLM:
    """Follows simple requests with real tool calls, and writes extractive summaries.

    Token counts are estimates. As with most servers, the prefix shared with the previous request counts as
    cached.
    """

    dialect = OFFLINE

    def __init__(
        self, window: int = WINDOW, *, pace: float = PACE, sleep: Sleep = asyncio.sleep
    ) -> None:
        """
        Args:
            window: size of the window, in tokens.
            pace: seconds between two chunks.
        """
        self.info = ModelInfo(OFFLINE, window, min(MAX_OUTPUT, window), OFFLINE)
        self._pace = pace
        self._sleep = sleep
        self._previous = ""

    async def prepare(self) -> ModelInfo:
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the answer; see `LLM.stream`.

        Raises:
            ContextOverflow: the request leaves no space for an answer in the window.
        """
        rendering = _rendered(request)
        parts = (part for message in request.messages for part in message.parts)
        tokens = sum(
            image_tokens(part) for part in parts if isinstance(part, ImagePart)
        )
        tokens += estimate_tokens(rendering)
        if tokens >= self.info.window:
            sentence = TOO_LONG.format(tokens=tokens, window=self.info.window)
            raise ContextOverflow(sentence, status=400)
        prefix = os.path.commonprefix([self._previous, rendering])  # noqa: RUF071 (of text, not of paths)
        self._previous = rendering
        room = min(
            self.info.window - tokens, request.max_output or MAX_OUTPUT, MAX_OUTPUT
        )
        from .reply import (  # compiles a grammar, which the first request needs
            Reply,
            reply_to,
        )

        reply = reply_to(request, room)
        stop_reason = "tool_calls" if reply.calls else "stop"
        if _output_tokens(reply) > room:
            reply = Reply(clip_line(reply.text, room))
            stop_reason = "length"
        for chunk in chunks_of(reply):
            await self._sleep(self._pace)
            yield chunk
        cached = min(estimate_tokens(prefix), tokens)
        usage = Usage(input=tokens, cached=cached, output=_output_tokens(reply))
        content = (*text_parts(reply.text), *reply.calls)
        yield Answer(
            AssistantMessage(
                parts=content, model=OFFLINE, usage=usage, stop_reason=stop_reason
            )
        )

    async def aclose(self) -> None:
        """Do nothing, because there is no connection to close."""


def _rendered(request: Request) -> str:
    """Return a request's tools and messages as text.

    Equal requests produce the same text.
    """
    tools = ([tool.name, tool.description, tool.parameters] for tool in request.tools)
    lines = [json.dumps(tool, sort_keys=True, ensure_ascii=False) for tool in tools]
    for message in request.messages:
        lines += [f"[{message.type}]", message.text]
        if isinstance(message, AssistantMessage):
            lines += [
                f"{call.call_id} {call.name} {call.arguments}" for call in message.calls
            ]
    return "\n".join(lines)


def _output_tokens(reply: "Reply") -> int:
    return estimate_tokens(reply.text) + sum(map(call_tokens, reply.calls))


def chunks_of(reply: "Reply") -> Iterator[Chunk]:
    """Split a reply into chunks, as a server would stream it."""
    for word in _WORD.finditer(reply.text):
        yield TextChunk(word[0])
    for call in reply.calls:
        yield ToolCallChunk(call.name)
        for start in range(0, len(call.arguments), 24):
            yield ToolCallChunk(call.name, call.arguments[start : start + 24])
