"""OpenAI's Responses."""

import json
from collections.abc import Iterator

from .shapes import Item, Json, Reply, Role, Tool, call_item, event, slices, text_of

CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")


def items(body: Json) -> list[Item]:
    found: list[Item] = []
    if body.get("instructions"):
        found.append(Item("system", body["instructions"]))
    given = body.get("input") or []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    for item in given:
        kind = item.get("type", "message")
        if kind == "message":
            role: Role = "system" if item["role"] == "developer" else item["role"]
            found.append(Item(role, text_of(item.get("content"))))
        elif kind in CALLS:
            found.append(
                call_item(item["name"], item.get("arguments", item.get("input")))
            )
        elif kind in OUTPUTS:
            found.append(Item("result", text_of(item.get("output"))))
        else:
            found.append(Item("assistant", f"<{kind}>"))
    return found


def tools(body: Json) -> list[Tool]:
    """The tools, those in a namespace too; a tool without a schema takes free text."""
    found: list[Tool] = []
    for tool in body.get("tools") or ():
        if tool.get("type") == "namespace":
            found += tools(tool)
        elif tool.get("name"):
            found.append(Tool(tool["name"], tool.get("parameters") or {}))
    return found


def _message(reply: Reply) -> Json:
    content = [{"type": "output_text", "text": reply.text, "annotations": []}]
    head = {
        "type": "message",
        "id": f"msg_{reply.id}",
        "status": "completed",
        "role": "assistant",
    }
    return {**head, "content": content}


def _calls(reply: Reply) -> list[Json]:
    return [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in reply.calls
    ]


def whole(reply: Reply) -> Json:
    output = ([_message(reply)] if reply.text else []) + _calls(reply)
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "scripted",
        "output": output,
        "usage": usage,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
    }


def stream(reply: Reply) -> Iterator[bytes]:
    for number, data in enumerate(_events(reply)):
        yield event({**data, "sequence_number": number}, data["type"])


def _events(reply: Reply) -> Iterator[Json]:
    response = whole(reply)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, item in enumerate(response["output"]):
        head: Json = {"output_index": place, "item_id": item["id"]}
        opened = {**item, "status": "in_progress", **_emptied(item)}
        yield {
            "type": "response.output_item.added",
            "output_index": place,
            "item": opened,
        }
        if item["type"] == "message":
            yield from _message_events({**head, "content_index": 0}, item["content"][0])
        else:
            arguments = item["arguments"]
            yield {
                "type": "response.function_call_arguments.delta",
                **head,
                "delta": arguments,
            }
            yield {
                "type": "response.function_call_arguments.done",
                **head,
                "arguments": arguments,
            }
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": "response.completed", "response": response}


def _emptied(item: Json) -> Json:
    return {"content": []} if item["type"] == "message" else {"arguments": ""}


def _message_events(head: Json, part: Json) -> Iterator[Json]:
    yield {"type": "response.content_part.added", **head, "part": {**part, "text": ""}}
    for piece in slices(part["text"]):
        yield {"type": "response.output_text.delta", **head, "delta": piece}
    yield {"type": "response.output_text.done", **head, "text": part["text"]}
    yield {"type": "response.content_part.done", **head, "part": part}
