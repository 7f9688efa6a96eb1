"""Gemini's generateContent."""

import json
from collections.abc import Iterator

from .shapes import Item, Json, Reply, Role, Tool, call_item, event, text_of


def items(body: Json) -> list[Item]:
    """The items of a request. Neighbouring texts of one message are one item."""
    found: list[Item] = []
    instruction = body.get("systemInstruction")
    if instruction:
        found.append(Item("system", text_of(instruction.get("parts"))))
    for content in body.get("contents") or ():
        role: Role = "assistant" if content.get("role") == "model" else "user"
        texts: list[str] = []
        for part in content.get("parts") or ():
            if "text" in part:
                texts.append(part["text"])
                continue
            found += [Item(role, "\n".join(texts))] if texts else []
            texts = []
            found.append(_part_item(role, part))
        found += [Item(role, "\n".join(texts))] if texts else []
    return found


def _part_item(role: Role, part: Json) -> Item:
    if "functionCall" in part:
        return call_item(part["functionCall"]["name"], part["functionCall"].get("args"))
    if "functionResponse" in part:
        response = part["functionResponse"].get("response") or {}
        text = response.get("output") or response.get("error") or json.dumps(response)
        return Item("result", text)
    return Item(role, f"<{next(iter(part), 'part')}>")


def tools(body: Json) -> list[Tool]:
    declared = [
        each
        for tool in body.get("tools") or ()
        for each in tool.get("functionDeclarations") or ()
    ]
    return [
        Tool(
            each["name"],
            each.get("parametersJsonSchema") or each.get("parameters") or {},
        )
        for each in declared
    ]


def whole(reply: Reply) -> Json:
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    parts += [
        {"functionCall": {"name": call.name, "args": call.arguments, "id": call.id}}
        for call in reply.calls
    ]
    usage = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": "STOP",
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "scripted",
    }


def stream(reply: Reply) -> Iterator[bytes]:
    yield event(whole(reply))
