"""`headroom-ai` (an extra) as one more arm: what its `compress()` makes of the view when a fold is due.

It runs in this process and asks nobody. It shortens contents in place: what it must not touch here (the
preamble, pins, the request, what no request has carried yet) is put back.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from foldline.compaction import CompactionContext, CompactionFailed
from foldline.context.cut import seen_up_to
from foldline.context.stubs import with_text
from foldline.context.tokens import message_tokens
from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import BaseMessage, FoldlineError, ToolResultMessage

if TYPE_CHECKING:
    from collections.abc import Callable

_MODEL = "claude-sonnet-4-5"
"""For this name it counts tokens without a vocabulary that would have to be fetched."""


class HeadroomCompaction:
    """Compresses tool results with `headroom.compress`, whatever it decides to."""

    def __init__(self) -> None:
        self._compress = _compressor()

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        return await asyncio.to_thread(self._compressed, ctx)

    def _compressed(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        seen = seen_up_to(ctx.history)
        sent = [to_openai([message], OPENAI)[0] for message in ctx.history]
        made = self._compress(sent, ctx.max_context_size)
        if len(made) != len(sent):
            raise CompactionFailed(f"headroom gave {len(made)} messages for {len(sent)}.")
        after = [
            _shortened(message, text) if at < seen and message.index not in ctx.pins else message
            for at, (message, text) in enumerate(zip(ctx.history, made, strict=True))
        ]
        unchanged = all(a is b for a, b in zip(after, ctx.history, strict=True))
        return None if unchanged else after


def _shortened(message: BaseMessage, text: object) -> BaseMessage:
    if not isinstance(message, ToolResultMessage) or not isinstance(text, str) or text == message.text:
        return message
    short = with_text(message, text)
    return short if message_tokens(short) < message_tokens(message) else message


def _compressor() -> "Callable[[Sequence[object], int], list[object]]":
    """Messages and a window in tokens to their contents after compression.

    Raises:
        FoldlineError: headroom-ai is not installed.
    """
    os.environ.setdefault("HEADROOM_OFFLINE", "1")
    os.environ.setdefault("HEADROOM_TELEMETRY", "off")
    try:
        from headroom import compress
    except ImportError as missing:
        raise FoldlineError(
            "The arm headroom needs the package headroom-ai: install foldline[headroom], or leave it out."
        ) from missing

    def run(messages: Sequence[object], window: int) -> list[object]:
        result = compress(list(messages), model=_MODEL, model_limit=window)
        return [message.get("content") for message in result.messages]

    return run
