"""A history processor for pydantic-ai: a run goes on with what fits.

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


def fitting(window: int, **options: Any) -> Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """A history processor for one conversation. The options are those of `foldline.Compressor`."""
    compressor = foldline.Compressor(window=window, **options)

    async def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        made = await compressor.compress([each for message in messages for each in _dictionaries(message)])
        return [_message(written) for written in made.messages]

    return process


def _dictionaries(message: ModelMessage) -> Iterator[dict[str, Any]]:
    """A message in Anthropic's shape, a system prompt by itself. Keys that Foldline does not know come back
    as they were: each block carries the part it was made of, and each dictionary the message."""
    if isinstance(message, ModelResponse):
        yield {"role": "assistant", "content": [_block(part) for part in message.parts], "message": message}
        return
    for role, parts in groupby(message.parts, lambda part: _ROLE.get(type(part), "user")):
        yield {"role": role, "content": [_block(part) for part in parts], "message": message}


_ROLE: dict[type, str] = {SystemPromptPart: "system"}


def _block(part: ModelRequestPart | ModelResponsePart) -> dict[str, Any]:
    match part:
        case ToolCallPart():
            named = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            return {"type": "tool_use", **named, "part": part}
        case ToolReturnPart():
            answered = {"tool_use_id": part.tool_call_id, "content": part.model_response_str()}
            return {"type": "tool_result", **answered, "part": part}
        case ThinkingPart():
            return {"type": "thinking", "thinking": part.content, "part": part}
        case _:
            return {"type": "text", "text": str(getattr(part, "content", "")), "part": part}


def _message(written: dict[str, Any]) -> ModelMessage:
    message, content = written.get("message"), written["content"]
    if message is None:  # a summary
        return ModelRequest([UserPromptPart(content)])
    return replace(message, parts=[_part(block) for block in content])


def _part(block: dict[str, Any]) -> Any:
    """The part itself; a result that was made shorter has another content, a text has lost its part."""
    part = block.get("part")
    if isinstance(part, ToolReturnPart) and block["content"] != part.model_response_str():
        return replace(part, content=block["content"])
    return part or TextPart(block["text"])
