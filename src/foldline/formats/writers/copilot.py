"""Writer for Copilot CLI.

A summary at the start of the view becomes the result of a compaction.
"""

from collections.abc import Iterator
from datetime import datetime
from uuid import uuid4

from foldline.formats.export import PROVIDER, Exported, HandedView
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    is_typed,
)
from foldline.version import __version__

from .records import Record, chained, images_of, iso, lines


def write_copilot(view: HandedView) -> Exported:
    """Write events that are linked by `id` and `parentId`."""
    chain = chained(_copilot_events(view), view.header.id, "id", "parentId")
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
        yield _copilot_event(
            view.summary.at or start, "session.compaction_complete", compaction
        )
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
            yield (
                "tool.execution_start",
                {"toolCallId": message.call_id, "toolName": message.name},
            )
            done = {
                "toolCallId": message.call_id,
                "success": not message.is_error,
                "result": {
                    "content": message.text,
                    "binaryResultsForLlm": _blobs(message, "image"),
                },
            }
            if message.is_error:
                done["error"] = {"message": message.text}
            yield "tool.execution_complete", done
        case _:
            prompt = {"content": message.text, "attachments": _blobs(message, "blob")}
            yield (
                "user.message",
                prompt if is_typed(message) else {**prompt, "source": "foldline"},
            )


def _copilot_call(call: ToolCallPart) -> Record:
    return {
        "toolCallId": call.call_id,
        "name": call.name,
        "arguments": call.parsed(),
        "type": "function",
    }


def _blobs(message: BaseMessage, kind: str) -> list[Record]:
    return [
        {"type": kind, "mimeType": image.media_type, "data": image.data}
        for image in images_of(message)
    ]
