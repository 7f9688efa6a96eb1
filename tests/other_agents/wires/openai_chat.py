"""OpenAI's Chat Completions."""

import json
from collections.abc import Iterator

from .shapes import Item, Json, Reply, Tool, call_item, event, slices, text_of

ROLES = {"developer": "system", "tool": "result", "function": "result"}


def items(body: Json) -> list[Item]:
    """The items of a request, or of anything else that has OpenAI messages."""
    found: list[Item] = []
    for message in body.get("messages") or ():
        role = ROLES.get(message["role"], message["role"])
        text = text_of(message.get("content"))
        if text or role == "result":
            found.append(Item(role, text))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            found.append(call_item(function["name"], function.get("arguments")))
    return found


def tools(body: Json) -> list[Tool]:
    functions = [tool.get("function") for tool in body.get("tools") or ()]
    return [
        Tool(each["name"], each.get("parameters") or {}) for each in functions if each
    ]


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply) -> Json:
    total = reply.input_tokens + reply.output_tokens
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _calls(reply: Reply) -> list[Json]:
    return [
        {
            "index": place,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for place, call in enumerate(reply.calls)
    ]


def whole(reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply)}],
        "usage": _usage(reply),
    }


def stream(reply: Reply) -> Iterator[bytes]:
    head = {
        "id": reply.id,
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
    }
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in slices(reply.text)]
    deltas += [{"tool_calls": [call]} for call in _calls(reply)]
    for delta in deltas:
        yield event(
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        )
    yield event(
        {
            **head,
            "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}],
        }
    )
    yield event({**head, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"
