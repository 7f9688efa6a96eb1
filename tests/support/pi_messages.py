"""Messages of a recorded pi session, read without the product's readers."""

import json
from pathlib import Path

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)


def pi_messages(path: Path) -> list[BaseMessage]:
    records = (
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    )
    messages: list[BaseMessage] = []
    for record in records:
        if isinstance(record.get("message"), dict):
            messages += _message(record["message"], len(messages))
    return messages


def _message(message: dict, index: int) -> list[BaseMessage]:
    parts = tuple(part for raw in _content(message) for part in _part(raw))
    match message["role"]:
        case "user":
            return [UserMessage(index=index, parts=parts)]
        case "assistant":
            return [AssistantMessage(index=index, parts=parts)]
        case "toolResult":
            return [
                ToolResultMessage(
                    index=index,
                    parts=parts,
                    call_id=message["toolCallId"],
                    name=message["toolName"],
                    is_error=bool(message.get("isError")),
                )
            ]
    return []


def _content(message: dict) -> list[dict]:
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _part(raw: dict) -> list:
    match raw["type"]:
        case "text":
            return [TextPart(text=raw["text"])]
        case "thinking":
            return [ThinkingPart(text=raw.get("thinking", ""))]
        case "toolCall":
            arguments = json.dumps(raw["arguments"])
            return [
                ToolCallPart(call_id=raw["id"], name=raw["name"], arguments=arguments)
            ]
    return []
