"""Writers of sessions for Claude Code, Codex and Copilot CLI, and the parts that all agents' writers share.

Only the view is written. A summary that opens it is written as a compaction of the agent's own.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from foldline.llm.messages import to_messages
from foldline.llm.responses import to_input
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
)
from foldline.version import __version__

from ..export import PROVIDER, Exported, HandedView

Record = dict[str, Any]
"""A JSON object that a writer puts together."""

# --- shared by all agents -----------------------------------------------------------------------------


def record_line(record: Record) -> bytes:
    """Return a record as a line of JSON. Lone surrogates stay escaped."""
    try:
        return json.dumps(record, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def lines(records: Iterable[Record]) -> bytes:
    """Return records as a JSONL file."""
    return b"".join(map(record_line, records))


def iso(moment: datetime) -> str:
    """Return a time in UTC, to the millisecond."""
    at = moment.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def content_of(
    parts: Iterable[Part],
    image: Callable[[ImagePart], Record],
    call: Callable[[ToolCallPart], Record] | None = None,
) -> list[Record]:
    """Return content blocks: texts, images and calls."""
    content: list[Record] = []
    for part in parts:
        match part:
            case TextPart():
                content.append({"type": "text", "text": part.text})
            case ImagePart():
                content.append(image(part))
            case ToolCallPart() if call is not None:
                content.append(call(part))
            case _:
                pass
    return content


def images_of(message: BaseMessage) -> list[ImagePart]:
    return [part for part in message.parts if isinstance(part, ImagePart)]


def image_url(image: ImagePart) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def _chained(records: Iterable[Record], session: str, id_key: str, parent_key: str) -> Iterator[Record]:
    """Give each record an id and its parent's."""
    parent = None
    for nth, record in enumerate(records):
        name = str(uuid5(NAMESPACE_OID, f"{session} {nth}"))
        yield {parent_key: parent, id_key: name, **record}
        parent = name


def _without_marks(message: BaseMessage) -> BaseMessage:
    """Return the message as typed: records have an author field."""
    return message.model_copy(update={"origin": "typed"}) if isinstance(message, UserMessage) else message


# --- Claude Code --------------------------------------------------------------------------------------


def write_claude_code(view: HandedView) -> Exported:
    """Write a chain of records by `uuid` and `parentUuid`."""
    data = b""
    if view.title:
        title = {"type": "custom-title", "customTitle": view.title, "sessionId": view.header.id}
        data = record_line(title)
    chain = _chained(_claude_code_records(view), view.header.id, "uuid", "parentUuid")
    return view.exported("Claude Code", data + lines(chain))


def _claude_code_records(view: HandedView) -> Iterator[Record]:
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": view.header.cwd,
        "sessionId": view.header.id,
        "version": __version__,
    }
    if view.summary is not None:
        timed = {**common, "timestamp": iso(view.summary.at or view.header.created_at)}
        yield {
            **timed,
            "type": "system",
            "subtype": "compact_boundary",
            "compactMetadata": {"trigger": "manual", "preTokens": 0},
            "content": "Conversation compacted",
            "level": "info",
            "isMeta": False,
        }
        yield {
            **timed,
            "type": "user",
            "isCompactSummary": True,
            "isVisibleInTranscriptOnly": True,
            "message": {"role": "user", "content": view.summary.text},
        }
    for at, message in view.messages:
        rendered = to_messages([_without_marks(message)], "")
        if rendered:
            record = _claude_code_message(message, rendered[-1]["content"])
            yield {**common, "timestamp": iso(at), **record}


def _claude_code_message(message: BaseMessage, content: object) -> Record:
    if not isinstance(message, AssistantMessage):
        by_program = not (is_typed(message) or isinstance(message, ToolResultMessage))
        return {"type": "user", "isMeta": by_program, "message": {"role": "user", "content": content}}
    answer = {
        "id": f"msg_{message.index}",
        "type": "message",
        "role": "assistant",
        "model": message.model or PROVIDER,
        "content": content,
        "stop_reason": "tool_use" if message.calls else "end_turn",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return {"type": "assistant", "message": answer}


# --- Codex --------------------------------------------------------------------------------------------


def write_codex(view: HandedView) -> Exported:
    """Write a rollout: items of the Responses API, and prompt events."""
    return view.exported("Codex", lines(_codex_rows(view)))


def _codex_rows(view: HandedView) -> Iterator[Record]:
    header = view.header
    start = header.created_at
    meta = {
        "id": header.id,
        "timestamp": iso(start),
        "cwd": header.cwd,
        "source": "cli",
        "originator": "foldline",
        "cli_version": __version__,
        "model_provider": None,
    }
    yield _codex_row(start, "session_meta", meta)
    if view.title:
        renamed = {"type": "thread_name_updated", "thread_id": header.id, "thread_name": view.title}
        yield _codex_row(start, "event_msg", renamed)
    if view.summary is not None:
        text = view.summary.text
        compacted = {"message": text, "replacement_history": [_codex_text("user", text)]}
        yield _codex_row(view.summary.at or start, "compacted", compacted)
    for at, message in view.messages:
        items = list(_codex_items(message))
        for item in items:
            yield _codex_row(at, "response_item", item)
        if is_typed(message) and items:
            yield _codex_row(at, "event_msg", {"type": "user_message", "message": message.text})


def _codex_row(at: datetime, kind: str, payload: Record) -> Record:
    return {"timestamp": iso(at), "type": kind, "payload": payload}


def _codex_text(role: str, text: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex_items(message: BaseMessage) -> Iterator[Record]:
    images = images_of(message)
    if isinstance(message, UserMessage) and not is_typed(message) and not images:
        message = DeveloperMessage(parts=message.parts)
    for item in to_input([_without_marks(message)], ""):
        match item:
            case {"type": "message", "content": str(text), "role": role}:
                yield _codex_text("developer" if role == "system" else role, text)
            case {"type": "message", "role": "user"} if isinstance(message, ToolResultMessage):
                pass  # the images of a result, which Codex keeps in the result itself
            case {"type": "function_call_output"} if images:
                texts = [{"type": "input_text", "text": message.text}] if message.text else []
                pictures = [{"type": "input_image", "image_url": image_url(image)} for image in images]
                yield {**item, "output": [*texts, *pictures]}
            case _:
                yield item


# --- Copilot CLI --------------------------------------------------------------------------------------


def write_copilot(view: HandedView) -> Exported:
    """Write a chain of events by `id` and `parentId`."""
    chain = _chained(_copilot_events(view), view.header.id, "id", "parentId")
    return view.exported("Copilot CLI", lines(chain))


def _copilot_events(view: HandedView) -> Iterator[Record]:
    header = view.header
    start = header.created_at
    session = {
        "sessionId": header.id,
        "version": 1,
        "producer": "foldline",
        "copilotVersion": __version__,
        "startTime": iso(start),
        "context": {"cwd": header.cwd},
    }
    yield _copilot_event(start, "session.start", session)
    if view.title:
        yield _copilot_event(start, "session.title_changed", {"title": view.title})
    if view.summary is not None:
        compaction = {"success": True, "summaryContent": view.summary.text}
        yield _copilot_event(view.summary.at or start, "session.compaction_complete", compaction)
    for at, message in view.messages:
        for kind, data in _copilot_message(message):
            yield _copilot_event(at, kind, data)


def _copilot_event(at: datetime, kind: str, data: Record) -> Record:
    return {"type": kind, "timestamp": iso(at), "data": data}


def _copilot_message(message: BaseMessage) -> Iterator[tuple[str, Record]]:
    match message:
        case AssistantMessage():
            yield (
                "assistant.message",
                {
                    "messageId": str(uuid4()),
                    "content": message.text,
                    "toolRequests": list(map(_copilot_call, message.calls)),
                    "model": message.model or PROVIDER,
                },
            )
        case ToolResultMessage():
            yield "tool.execution_start", {"toolCallId": message.call_id, "toolName": message.name}
            done = {
                "toolCallId": message.call_id,
                "success": not message.is_error,
                "result": {"content": message.text, "binaryResultsForLlm": _blobs(message, "image")},
            }
            if message.is_error:
                done["error"] = {"message": message.text}
            yield "tool.execution_complete", done
        case _:
            prompt = {"content": message.text, "attachments": _blobs(message, "blob")}
            yield "user.message", prompt if is_typed(message) else {**prompt, "source": "foldline"}


def _copilot_call(call: ToolCallPart) -> Record:
    return {"toolCallId": call.call_id, "name": call.name, "arguments": call.parsed(), "type": "function"}


def _blobs(message: BaseMessage, kind: str) -> list[Record]:
    return [{"type": kind, "mimeType": image.media_type, "data": image.data} for image in images_of(message)]
