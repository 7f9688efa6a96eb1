"""A history processor for pydantic-ai that keeps the history within the window.

agent = Agent(model, capabilities=[ProcessHistory(fitting(window=128_000))])
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import foldline


def fitting(
    window: int, **options: Any
) -> Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Return a history processor for one conversation. Options as for `foldline.Compressor`."""
    compressor = foldline.Compressor(window=window, **options)

    async def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        made = await compressor.compress(
            [each for message in messages for each in _dictionaries(message)]
        )
        return [_message(written) for written in made.messages]

    return process


def _dictionaries(message: ModelMessage) -> Iterator[dict[str, Any]]:
    """Yield a message in Anthropic's format, with a system prompt on its own.

    Foldline returns unknown keys unchanged: each block keeps its part, and each dictionary its message.
    """
    if isinstance(message, ModelResponse):
        yield {
            "role": "assistant",
            "content": [_block(part) for part in message.parts],
            "message": message,
        }
        return
    for role, parts in groupby(
        message.parts, lambda part: _ROLE.get(type(part), "user")
    ):
        yield {
            "role": role,
            "content": [_block(part) for part in parts],
            "message": message,
        }


_ROLE: dict[type, str] = {SystemPromptPart: "system"}


def _block(part: ModelRequestPart | ModelResponsePart) -> dict[str, Any]:
    match part:
        case ToolCallPart():
            named = {
                "id": part.tool_call_id,
                "name": part.tool_name,
                "input": part.args_as_dict(),
            }
            return {"type": "tool_use", **named, "part": part}
        case ToolReturnPart():
            answered = {
                "tool_use_id": part.tool_call_id,
                "content": part.model_response_str(),
            }
            return {"type": "tool_result", **answered, "part": part}
        case ThinkingPart():
            return {"type": "thinking", "thinking": part.content, "part": part}
        case _:
            return {
                "type": "text",
                "text": str(getattr(part, "content", "")),
                "part": part,
            }


def _message(written: dict[str, Any]) -> ModelMessage:
    message, content = written.get("message"), written["content"]
    if message is None:  # a summary
        return ModelRequest([UserPromptPart(content)])
    return replace(message, parts=[_part(block) for block in content])


def _part(block: dict[str, Any]) -> Any:
    """Return the part of a block. A shortened result has new content, and new text has no part yet."""
    part = block.get("part")
    if (
        isinstance(part, ToolReturnPart)
        and block["content"] != part.model_response_str()
    ):
        return replace(part, content=block["content"])
    return part or TextPart(block["text"])
