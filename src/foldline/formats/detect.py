"""What a file is, judged by its content: a format that can be read here, or at least named."""

import json
from dataclasses import dataclass
from typing import Literal

from foldline.history import is_our_header

from .base import Json, JsonObject, as_list, as_object, parse_object
from .pi import is_pi_header

Format = Literal["foldline", "pi"]

_LINES_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file without a reader. `what` ends the sentence "it …"."""

    what: str


def detect(data: bytes) -> Format | Unreadable:
    """The format of a file with this content."""
    if not data.strip(b"\0 \t\r\n"):
        return Unreadable("is empty")
    first = data.split(b"\n", 1)[0]
    if is_our_header(first):
        return "foldline"
    head = _head_records(data)
    if any(is_pi_header(record) for record in head):
        return "pi"
    if b"\0" in data[:65536] and not head:
        return Unreadable("is a binary file")
    if head:
        return Unreadable(_name_of_lines(head))
    return Unreadable(_name_of_document(data))


def _head_records(data: bytes) -> list[JsonObject]:
    """The first JSON objects of a file that has one a line."""
    records = []
    for line in data.split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]:
        record = parse_object(line.strip(b"\0 \t\r"))
        if record is not None:
            records.append(record)
    return records


def _name_of_lines(records: list[JsonObject]) -> str:
    """What JSON lines without a reader seem to be."""
    for record in records:
        keys = record.keys()
        kind = record.get("type")
        if {"sessionId", "uuid"} <= keys or kind in ("file-history-snapshot", "summary", "queue-operation"):
            return _seems("a Claude Code session")
        if "payload" in keys and kind in ("session_meta", "response_item", "event_msg", "turn_context"):
            return _seems("a Codex session")
        if record.get("role") in ("_system_prompt", "_checkpoint", "_usage"):
            return _seems("a kimi-cli context file")
        if kind == "metadata" and "protocol_version" in keys:
            return _seems("a kimi-cli wire file")
        if "data" in keys and kind in (
            "UserMessage",
            "AssistantMessage",
            "SystemMessage",
            "DeveloperMessage",
        ):
            return _seems("a klaude-code session")
        if "message_id" in keys and "role" in keys:
            return _seems("a mistral-vibe session")
        if {"instance_id", "history"} <= keys or {"source", "kind", "timestamp"} <= keys:
            return _seems("OpenHands output")
        if "role" in keys or "messages" in keys:
            return _seems("an OpenAI chat")
    if len(records) == 1:
        return _name_of_object(records[0])
    return "is JSON lines, but no session format known here"


def _name_of_document(data: bytes) -> str:
    """What a file that is not JSON lines seems to be."""
    try:
        value: Json = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return "is a binary file"
    except (ValueError, RecursionError):
        return (
            "is text, not a session"
            if data.lstrip()[:1] not in b"{["
            else "is JSON that is cut off or damaged"
        )
    if isinstance(value, list):
        return _name_of_object({"messages": value})
    return _name_of_object(as_object(value))


def _name_of_object(record: JsonObject) -> str:
    """What one JSON document seems to be."""
    keys = record.keys()
    messages = [as_object(message) for message in as_list(record.get("messages"))]
    first = messages[0].keys() if messages else set()
    if "projectHash" in keys and "sessionId" in keys:
        return _seems("a Gemini CLI session")
    if "trajectory" in keys:
        return _seems("a SWE-agent trajectory")
    if "trajectory_format" in keys or "model_stats" in as_object(record.get("info")):
        return _seems("a mini-swe-agent trajectory")
    if {"info", "parts"} <= first:
        return _seems("an opencode session")
    if {"task_id", "traj"} <= first:
        return _seems("tau-bench output")
    if "source" in first or {"source", "timestamp"} <= keys:
        return _seems("an OpenHands conversation")
    if "role" in first:
        return _seems("an OpenAI chat")
    return "is JSON, but no session format known here"


def _seems(what: str) -> str:
    return f"seems to be {what}, which cannot be read yet"
