"""`/v1/responses` of the test server: OpenAI's checks of input items, and its event stream.

Scripts, token counts and the prefix cache work on chat messages, so a request is also converted to those
(`as_chat`). Reasoning is encrypted by `sealed`, so that the server recognises its own.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from support.server_checks import Violation

Item = dict[str, Any]

_PARTS = {"assistant": ("output_text", "refusal")}
_SAYING = ("input_text", "input_image")


class Completed(Protocol):
    """The fields of a scripted answer that are used here."""

    nth: int
    model: str
    thinking: str
    text: str
    calls: list[dict[str, Any]]
    finish: str
    usage: dict[str, Any]

    def cut(self, text: str) -> list[str]: ...


def encrypt(model: str, item_id: str) -> str:
    """Return this server's encrypted reasoning for this model and item."""
    return "gAAAA" + hashlib.sha256(f"{model} {item_id}".encode()).hexdigest()


def check(body: dict[str, Any]) -> list[Violation]:
    """Return the violations of a request, in the order of its items."""
    items = body.get("input")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return [
            Violation(
                "shape", "Invalid type for 'input': expected an array of objects."
            )
        ]
    violations = [*_check_options(body)]
    calls: dict[str, bool] = {}
    for at, item in enumerate(items):
        where = f"input[{at}]"
        match item.get("type"):
            case "message":
                violations += _check_message(where, item)
            case "function_call":
                violations += _check_call(where, item, calls)
                calls[str(item.get("call_id"))] = False
            case "function_call_output":
                if calls.get(item.get("call_id", ""), True):
                    violations.append(
                        Violation(
                            "R2",
                            f"No tool call found for function call output at {where}.",
                        )
                    )
                calls[str(item.get("call_id"))] = True
                if not isinstance(item.get("output"), str):
                    violations.append(
                        Violation(
                            "R3",
                            f"Invalid type for '{where}.output': expected a string.",
                        )
                    )
            case "reasoning":
                violations += _check_reasoning(
                    where, item, items[at + 1 : at + 2], str(body.get("model"))
                )
            case kind:
                violations.append(
                    Violation("R1", f"Invalid value: '{kind}' at '{where}.type'.")
                )
    for call_id, has_result in calls.items():
        if not has_result:
            violations.append(
                Violation("R2", f"No tool output found for function call {call_id}.")
            )
    return violations


def _check_options(body: dict[str, Any]) -> Iterator[Violation]:
    for name in ("messages", "max_tokens", "max_completion_tokens", "stream_options"):
        if name in body:
            yield Violation(
                "shape",
                f"Unsupported parameter: '{name}' is not known to the Responses API.",
            )
    if body.get("store") is not False:
        yield Violation("store", "this server keeps nothing: 'store' must be false")
    if body.get("tools") == []:
        yield Violation("tools", "[] is too short - 'tools'")
    for at, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") != "function" or not tool.get("name") or "function" in tool:
            yield Violation("tools", f"Missing required parameter: 'tools[{at}].name'.")
        if tool.get("strict") is not False:
            yield Violation(
                "tools",
                f"Invalid schema for 'tools[{at}]': strict schemas name every property.",
            )


def _check_message(where: str, item: Item) -> Iterator[Violation]:
    role, content = item.get("role"), item.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        yield Violation("R4", f"Invalid value: '{role}' at '{where}.role'.")
    if not content:
        yield Violation("R4", f"Invalid value for '{where}.content': it is empty.")
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in _PARTS.get(str(role), _SAYING):
            yield Violation(
                "R4", f"Invalid value: '{part.get('type')}' at '{where}.content'."
            )
    if "id" in item:
        yield Violation(
            "R5", f"Item with id '{item['id']}' not found. Items are not persisted."
        )


def _check_call(where: str, item: Item, calls: dict[str, bool]) -> Iterator[Violation]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not 0 < len(call_id) <= 64:
        yield Violation("R6", f"Invalid '{where}.call_id'.")
    if call_id in calls:
        yield Violation("R6", f"Duplicate call id at '{where}'.")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(item.get("name", ""))):
        yield Violation("R6", f"Invalid '{where}.name': bad pattern.")
    try:
        json.loads(item.get("arguments", ""))
    except (TypeError, ValueError):
        yield Violation("R6", f"Invalid '{where}.arguments': not valid JSON.")
    if "id" in item:
        yield Violation(
            "R5", f"Item with id '{item['id']}' not found. Items are not persisted."
        )


def _check_reasoning(
    where: str, item: Item, after: Sequence[Item], model: str
) -> Iterator[Violation]:
    item_id = str(item.get("id"))
    if not isinstance(item.get("summary"), list):
        yield Violation("R7", f"Missing required parameter: '{where}.summary'.")
    if item.get("encrypted_content") != encrypt(model, item_id):
        yield Violation(
            "R7", f"The encrypted content for item {item_id} could not be verified."
        )
    follows = [
        following
        for following in after
        if following.get("type") in ("function_call", "reasoning")
        or following.get("role") == "assistant"
    ]
    if not follows:
        yield Violation(
            "R7",
            f"Item '{item_id}' of type 'reasoning' was provided without its required following item.",
        )


def as_chat(body: dict[str, Any]) -> dict[str, Any]:
    """Convert a request to chat messages and tools.

    Items of one answer become one assistant message.
    """
    items = body.get("input")
    chat: dict[str, Any] = {
        "model": body.get("model"),
        "messages": list(_messages(items if isinstance(items, list) else [])),
    }
    if body.get("tools"):
        chat["tools"] = [
            {"type": "function", "function": tool} for tool in body["tools"]
        ]
    return chat


def _messages(items: Iterable[Item]) -> Iterator[dict[str, Any]]:
    answer: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type")
        if kind in ("reasoning", "function_call") or item.get("role") == "assistant":
            if answer is None:
                answer = {"role": "assistant", "content": None}
            _add(answer, item)
            continue
        if answer is not None:
            yield answer
            answer = None
        if kind == "function_call_output":
            yield {
                "role": "tool",
                "tool_call_id": item.get("call_id"),
                "content": item.get("output"),
            }
        else:
            yield {"role": item.get("role"), "content": _content(item.get("content"))}
    if answer is not None:
        yield answer


def _add(answer: dict[str, Any], item: Item) -> None:
    match item.get("type"):
        case "reasoning":
            answer["reasoning_content"] = answer.get("reasoning_content", "") + str(
                item["encrypted_content"]
            )
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            answer.setdefault("tool_calls", []).append(
                {"id": item.get("call_id"), "type": "function", "function": function}
            )
        case _:
            answer["content"] = (answer["content"] or "") + str(item.get("content"))


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        {"type": "image_url", "image_url": {"url": part.get("image_url")}}
        if part.get("type") == "input_image"
        else {"type": "text", "text": part.get("text", "")}
        for part in content
    ]


def response(done: Completed) -> dict[str, Any]:
    """Return the whole answer."""
    items = _output(done)
    usage = done.usage
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(
        done.finish
    )
    return {
        "id": f"resp_{done.nth}",
        "object": "response",
        "created_at": 0,
        "model": done.model,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": items,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {
                "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"]
            },
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {
                "reasoning_tokens": usage["completion_tokens_details"][
                    "reasoning_tokens"
                ]
            },
            "total_tokens": usage["total_tokens"],
        },
    }


def events(done: Completed) -> list[dict[str, Any]]:
    """Return the answer as streamed events."""
    message = response(done)
    start = {**message, "status": "in_progress", "output": [], "usage": None}
    stream: list[dict[str, Any]] = [
        {"type": "response.created", "response": start},
        {"type": "response.in_progress", "response": start},
    ]
    for place, item in enumerate(message["output"]):
        stream += [
            {"output_index": place, **event} for event in _item_events(done, item)
        ]
    stream.append({"type": f"response.{message['status']}", "response": message})
    return [{**event, "sequence_number": number} for number, event in enumerate(stream)]


def _item_events(done: Completed, item: Item) -> Iterator[dict[str, Any]]:
    at = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            yield {
                "type": "response.output_item.added",
                "item": {**item, "summary": []},
            }
            for part in item["summary"]:
                for delta in done.cut(part["text"]):
                    yield {
                        "type": "response.reasoning_summary_text.delta",
                        "summary_index": 0,
                        **at,
                        "delta": delta,
                    }
        case "message":
            yield {
                "type": "response.output_item.added",
                "item": {**item, "content": []},
            }
            for delta in done.cut(item["content"][0]["text"]):
                yield {
                    "type": "response.output_text.delta",
                    "content_index": 0,
                    **at,
                    "delta": delta,
                }
        case "function_call":
            yield {
                "type": "response.output_item.added",
                "item": {**item, "arguments": ""},
            }
            for delta in done.cut(item["arguments"]):
                yield {
                    "type": "response.function_call_arguments.delta",
                    **at,
                    "delta": delta,
                }
            yield {
                "type": "response.function_call_arguments.done",
                **at,
                "arguments": item["arguments"],
            }
    yield {"type": "response.output_item.done", "item": item}


def _output(done: Completed) -> list[Item]:
    items: list[Item] = []
    if done.thinking:
        item_id = f"rs_{done.nth}"
        items.append(
            {
                "type": "reasoning",
                "id": item_id,
                "summary": [{"type": "summary_text", "text": done.thinking}],
                "encrypted_content": encrypt(done.model, item_id),
            }
        )
    if done.text:
        content = [{"type": "output_text", "text": done.text, "annotations": []}]
        items.append(
            {
                "type": "message",
                "id": f"msg_{done.nth}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{done.nth}_{number}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for number, call in enumerate(done.calls)
    ]
    return items
