"""Anthropic's Messages."""

import json
from collections.abc import Iterator

from .shapes import Item, Json, Reply, Tool, call_item, event, slices, text_of


def items(body: Json) -> list[Item]:
    """The items of a request. Neighbouring texts of one message are one item."""
    found: list[Item] = []
    if body.get("system"):
        found.append(Item("system", text_of(body["system"])))
    for message in body.get("messages") or ():
        content = message["content"]
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        texts: list[str] = []
        for block in blocks:
            if block["type"] == "text":
                texts.append(block["text"])
                continue
            found += _text_item(message["role"], texts)
            texts = []
            found.append(_block_item(message["role"], block))
        found += _text_item(message["role"], texts)
    return found


def _text_item(role: str, texts: list[str]) -> list[Item]:
    return [Item(role, "\n".join(texts))] if texts else []  # type: ignore[arg-type]


def _block_item(role: str, block: Json) -> Item:
    if block["type"] == "tool_use":
        return call_item(block["name"], block["input"])
    if block["type"] == "tool_result":
        return Item("result", text_of(block.get("content")))
    return Item(role, f"<{block['type']}>")  # type: ignore[arg-type]


def tools(body: Json) -> list[Tool]:
    return [
        Tool(tool["name"], tool.get("input_schema") or {})
        for tool in body.get("tools") or ()
    ]


def _usage(reply: Reply) -> Json:
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {
        "input_tokens": reply.input_tokens,
        **cache,
        "output_tokens": reply.output_tokens,
    }


def _stop(reply: Reply) -> Json:
    return {
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
    }


def whole(reply: Reply) -> Json:
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in reply.calls
    ]
    head = {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
    }
    return {**head, "content": content, **_stop(reply), "usage": _usage(reply)}


def stream(reply: Reply) -> Iterator[bytes]:
    for data in _events(reply):
        yield event(data, data["type"])


def _events(reply: Reply) -> Iterator[Json]:
    message = whole(reply)
    begun = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for place, block in enumerate(message["content"]):
        head = {"index": place}
        opened = {
            **block,
            **({"text": ""} if block["type"] == "text" else {"input": {}}),
        }
        yield {"type": "content_block_start", **head, "content_block": opened}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", **head, "delta": delta}
        yield {"type": "content_block_stop", **head}
    yield {"type": "message_delta", "delta": _stop(reply), "usage": _usage(reply)}
    yield {"type": "message_stop"}


def _deltas(block: Json) -> Iterator[Json]:
    if block["type"] == "text":
        for piece in slices(block["text"]):
            yield {"type": "text_delta", "text": piece}
    else:
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
